/* A server whose queries have a heap each, with a quota: 16 threads, a database over all of them.
 *
 * A query takes memory as it likes and frees nothing. When it is done its heap ends, and all of it is back. One that wants more
 * than its quota gets NULL and is ended; the others do not notice. The database has a limit of its own, which no moment of all
 * queries together passes. */
#include <freehold/heap.h>

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define THREADS 16
#define QUERIES 200 /* of each thread */
#define QUOTA ((size_t)2 << 20)
#define DATABASE ((size_t)24 << 20)

static fh_heap *database;
static unsigned done, refused; /* changed by __atomic_fetch_add */

typedef struct row {
    struct row *next;
    char text[];
} row;

/* Reads `rows` rows. 0: the quota was met. */
static int run_query(fh_heap *h, unsigned rows) {
    row *list = NULL;
    for (unsigned i = 0; i < rows; i++) {
        size_t n = 20 + i * 37 % 400;
        row *r = fh_heap_malloc(h, sizeof *r + n);
        if (!r) return 0;
        memset(r->text, (int)(i & 0xFF), n);
        r->next = list;
        list = r;
    }
    for (unsigned i = rows; list; list = list->next) {
        if (list->text[0] != (char)(--i & 0xFF)) return -1;
    }
    return 1;
}

static void *serve(void *arg) {
    uint32_t random = (uint32_t)(uintptr_t)arg * 2654435761u + 1;
    for (unsigned i = 0; i < QUERIES; i++) {
        random = random * 1664525u + 1013904223u;
        fh_heap *h = fh_heap_new(&(fh_heap_options){.name = "query", .parent = database, .hard_limit = QUOTA});
        int how = h ? run_query(h, (random >> 16) % 12000) : 0; /* 12,000 rows are 2.6 MiB */
        if (how < 0) {
            fprintf(stderr, "queries: a row was lost\n");
            return arg;
        }
        __atomic_fetch_add(how ? &done : &refused, 1, __ATOMIC_RELAXED);
        if (fh_heap_destroy(h) != 0) return arg;
    }
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
    database = fh_heap_new(&(fh_heap_options){.name = "database", .hard_limit = DATABASE});
    if (!database) return 1;
    for (uintptr_t i = 0; i < THREADS; i++) {
        if (pthread_create(&thread[i], NULL, serve, (void *)(i + 1)) != 0) return 1;
    }
    void *failed = NULL;
    for (unsigned i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        if (result) failed = result;
    }
    fh_heap_figures f;
    fh_heap_stats(database, &f);
    printf("%u queries done, %u refused; at most %zu KiB at once of %zu allowed, %zu KiB left\n", done, refused,
           f.peak >> 10, f.hard_limit >> 10, f.taken >> 10);
    int good = !failed && done + refused == THREADS * QUERIES && refused && f.peak <= DATABASE && f.taken <= (64 << 10);
    return fh_heap_destroy(database) != 0 || !good;
}
