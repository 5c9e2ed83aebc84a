/* Pools of cells of one size (freehold/pool.h).  pools PART */
#include "../support/check.h"

#include <errno.h>
#include <freehold/pool.h>
#include <pthread.h>
#include <stdbool.h>

#define CELLS 20000u

static unsigned char *cell[CELLS];

static fh_pool *pool_of(size_t size, size_t align, fh_heap *heap) {
    fh_pool *p = fh_pool_new(size, align, heap ? &(fh_pool_options){.heap = heap} : NULL);
    CHECK(p != NULL, "no pool of %zu bytes: errno %d", size, errno);
    return p;
}

/* Random cells come and go, and each keeps what is written into it. */
static void churn(fh_pool *pool, size_t size, size_t align, unsigned most) {
    uint64_t seed = size;
    size_t live = 0;
    for (unsigned i = 0; i < 3 * most; i++) {
        unsigned k = (unsigned)random_below(&seed, most);
        if (cell[k]) {
            for (size_t b = 0; b < size; b++)
                CHECK(cell[k][b] == (unsigned char)(k + b), "byte %zu of a cell is lost", b);
            fh_pool_free(pool, cell[k]);
            cell[k] = NULL;
            live--;
        } else {
            cell[k] = fh_pool_alloc(pool);
            CHECK(cell[k] && (uintptr_t)cell[k] % align == 0, "a cell at %p", (void *)cell[k]);
            for (size_t b = 0; b < size; b++) cell[k][b] = (unsigned char)(k + b);
            live++;
        }
    }
    CHECK(fh_pool_live(pool) == live, "%zu cells are live, not %zu", fh_pool_live(pool), live);
    for (unsigned k = 0; k < most; k++) {
        fh_pool_free(pool, cell[k]);
        cell[k] = NULL;
    }
    CHECK(fh_pool_live(pool) == 0, "%zu cells are live", fh_pool_live(pool));
}

static void sizes(void) {
    static const struct {
        size_t size, align;
    } kinds[] = {{1, 0},   {8, 0},   {24, 8},      {24, 0},    {40, 64},
                 {100, 4}, {48, 16}, {4096, 4096}, {16384, 0}, {5000, 1024}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t align = kinds[i].align < 8 ? 8 : kinds[i].align;
        fh_pool *p = pool_of(kinds[i].size, kinds[i].align, NULL);
        churn(p, kinds[i].size, align, kinds[i].size > 1000 ? 300 : CELLS);
        fh_pool_destroy(p);
    }
    fh_pool_destroy(NULL);
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* Cells of 8 and 24 bytes cost 8 and 24: as many as fit into what the pool has taken, but for 64 bytes in 64 KiB. */
static void packed(void) {
    for (size_t size = 8; size <= 24; size += 16) {
        fh_pool *p = pool_of(size, 8, NULL);
        for (unsigned i = 0; i < 1000000; i++) CHECK(fh_pool_alloc(p) != NULL, "no memory");
        size_t least = 1000000 * size, taken = fh_pool_bytes(p);
        CHECK(taken >= least && taken <= least + least / 50 + 65536, "%zu bytes for %zu of cells", taken, least);
        CHECK(fh_pool_live(p) == 1000000, "%zu cells", fh_pool_live(p));
        fh_pool_reset(p);
        CHECK(fh_pool_bytes(p) == 65536 && fh_pool_live(p) == 0, "%zu bytes after a reset", fh_pool_bytes(p));
        CHECK(fh_pool_alloc(p) != NULL, "no memory after a reset");
        fh_pool_destroy(p);
    }
}

/* A pool of a heap: its limit, its end. */
static void of_heap(void) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.hard_limit = 1 << 20});
    CHECK(h != NULL, "no heap");
    fh_pool *p = pool_of(100, 0, h);
    size_t got = 0;
    while (fh_pool_alloc(p)) got++;
    CHECK(errno == ENOMEM && got > 5000 && got * 100 < 1 << 20, "%zu cells in a MiB", got);
    fh_pool_reset(p);
    CHECK(fh_pool_alloc(p) != NULL, "no memory after a reset");
    fh_pool_destroy(p);
    p = pool_of(32, 0, h);
    CHECK(fh_pool_alloc(p) != NULL && fh_heap_of(p) == h, "the pool is elsewhere");
    CHECK(fh_heap_destroy(h) == 0, "not destroyed"); /* with the pool */
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* A cell costs what it has, of every kind of heap: of what the heap has left, at least nine tenths are cells. */
static void packed_of_heap(void) {
    static const unsigned kinds[] = {0, FH_HEAP_PRIVATE, FH_HEAP_TYPE_STABLE, FH_HEAP_SIZES, FH_HEAP_BOUNDED};
    static char given[4 << 20];
    for (size_t i = 0; i <= sizeof kinds / sizeof kinds[0]; i++) {
        bool is_given = i == sizeof kinds / sizeof kinds[0];
        fh_heap_options options = {.flags = is_given ? 0 : kinds[i],
                                   .hard_limit = is_given ? 0 : sizeof given,
                                   .memory = is_given ? given : NULL,
                                   .memory_size = is_given ? sizeof given : 0};
        fh_heap *h = fh_heap_new(&options);
        CHECK(h != NULL, "no heap of kind %zu", i);
        fh_pool *p = pool_of(24, 8, h);
        size_t got = 0;
        void *last = NULL;
        for (void *one; (one = fh_pool_alloc(p)) != NULL; got++) {
            memset(one, (int)i, 24);
            last = one;
        }
        CHECK(got * 24 >= sizeof given / 10 * 9, "kind %zu: %zu cells of 24 in 4 MiB", i, got);
        CHECK(fh_pool_live(p) == got, "%zu cells are live, not %zu", fh_pool_live(p), got);
        fh_pool_free(p, last);
        CHECK(fh_pool_alloc(p) == last, "the last one does not come back");
        fh_pool_destroy(p);
        CHECK(fh_heap_destroy(h) == 0, "not destroyed");
    }
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* A pool that is made in a scope is of that heap, as all else, and stays so. */
static void in_scope(void) {
    fh_heap *h = fh_heap_new(NULL);
    CHECK(h && fh_heap_enter(h) == 0, "no scope");
    fh_pool *p = pool_of(1000, 0, NULL);
    CHECK(fh_heap_leave() == 0, "no scope is left");
    for (unsigned i = 0; i < 1000; i++)
        CHECK(fh_heap_of(fh_pool_alloc(p)) == h, "cell %u is of another heap than the pool", i);
    CHECK(fh_heap_destroy(h) == 0, "not destroyed"); /* with the pool */
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* And the other way round: a pool that was made outside of any scope is of no heap, and the scope is as it was. */
static void made_before_scope(void) {
    fh_heap *h = fh_heap_new(NULL);
    fh_pool *p = pool_of(1000, 0, NULL);
    CHECK(h && p && fh_heap_enter(h) == 0, "no scope");
    for (unsigned i = 0; i < 1000; i++)
        CHECK(fh_heap_of(fh_pool_alloc(p)) == NULL, "cell %u is of the scope's heap", i);
    CHECK(fh_heap_of(fh_malloc(100)) == h, "the scope is left");
    CHECK(fh_heap_leave() == 0, "no scope is left");
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
    for (unsigned i = 0; i < 1000; i++) memset(fh_pool_alloc(p), 1, 1000);
    fh_pool_destroy(p);
    CHECK(fh_verify() == 0, "the heap is damaged");
}

static void errors(void) {
    static const size_t bad[][2] = {{0, 8}, {16385, 8}, {SIZE_MAX, 8}, {8, 3}, {8, 8192}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        errno = 0;
        CHECK(fh_pool_new(bad[i][0], bad[i][1], NULL) == NULL && errno == EINVAL, "a pool of %zu at %zu", bad[i][0],
              bad[i][1]);
    }
    fh_pool_options unknown = {.reserved = {&unknown}};
    CHECK(fh_pool_new(8, 8, &unknown) == NULL && errno == EINVAL, "an option that there is not");
    struct pair {
        char a;
        long b;
    };
    fh_pool *typed = fh_pool_new_of(struct pair);
    struct pair *one = fh_pool_alloc(typed), *two = fh_pool_alloc(typed);
    CHECK(one && two && (size_t)((char *)two - (char *)one) == sizeof *one, "cells of a type are not packed");
    fh_pool_free(typed, NULL);
    fh_pool_destroy(typed);
}

static void *own_pool(void *arg) {
    fh_pool *p = pool_of(40, 8, arg);
    static __thread void *held[500];
    uint64_t seed = (uintptr_t)&p;
    for (unsigned i = 0; i < 100000; i++) {
        unsigned k = (unsigned)random_below(&seed, 500);
        if (held[k]) fh_pool_free(p, held[k]);
        held[k] = held[k] ? NULL : fh_pool_alloc(p);
    }
    fh_pool_destroy(p);
    return NULL;
}

/* Threads with a pool each, over one heap. */
static void threads(void) {
    pthread_t thread[4];
    fh_heap *h = fh_heap_new(NULL);
    for (unsigned i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, own_pool, i % 2 ? h : NULL) == 0, "no thread");
    for (unsigned i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    CHECK(fh_heap_destroy(h) == 0 && fh_verify() == 0, "the heap is damaged");
}

/* ── Misuse: each ends the process by a message ──────────────────────────────────────────────────────────────────── */

static void wrong_pool(void) {
    fh_pool *p = pool_of(32, 0, NULL), *q = pool_of(32, 0, NULL);
    fh_pool_free(q, fh_pool_alloc(p));
}
static void of_malloc(void) {
    fh_pool_free(pool_of(32, 0, NULL), fh_malloc(32));
}
static void ended(void) {
    fh_pool *p = pool_of(32, 0, NULL), *q = pool_of(32, 0, NULL);
    void *c = fh_pool_alloc(p);
    fh_pool_destroy(p);
    fh_pool_free(q, c);
}
static void twice(void) {
    fh_pool *p = pool_of(32, 0, NULL);
    void *c = fh_pool_alloc(p);
    fh_pool_free(p, fh_pool_alloc(p));
    fh_pool_free(p, c);
    fh_pool_free(p, c);
}
static void inside(void) {
    fh_pool *p = pool_of(32, 0, NULL);
    fh_pool_free(p, (char *)fh_pool_alloc(p) + 8);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"sizes", sizes},
                 {"packed", packed},
                 {"of_heap", of_heap},
                 {"errors", errors},
                 {"packed_of_heap", packed_of_heap},
                 {"in_scope", in_scope},
                 {"made_before_scope", made_before_scope},
                 {"threads", threads},
                 {"wrong_pool", wrong_pool},
                 {"of_malloc", of_malloc},
                 {"ended", ended},
                 {"twice", twice},
                 {"inside", inside}};
    for (size_t i = 0; argc == 2 && i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(argv[1], parts[i].name) != 0) continue;
        parts[i].run();
        puts("ok");
        return 0;
    }
    fprintf(stderr, "usage: pools PART\n");
    return 2;
}
