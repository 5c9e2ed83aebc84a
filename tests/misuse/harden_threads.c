/* Threads of a hardened program: blocks change hands through slots, some through two hands at once. Of two frees of one block at the
 * same time exactly one is reported, whoever wins; every block comes back whole, those of pointers as well; and the heap is whole
 * in the end. Run with harden=1,on_error=report, also under the thread sanitizer. */
#include "../support/alloc.h"

#include <freehold/freehold.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { THREADS = 4, SLOTS = 3000, ROUNDS = 12000, TWICE = 300 };

static _Atomic(char *) slot[SLOTS];
static pthread_barrier_t both;
static _Atomic(char *) shared;
static atomic_uint damaged;

static unsigned next(unsigned *state) {
    return (*state = *state * 1103515245u + 12345u) / 65536;
}

/* A block knows its size, and all its bytes are the same. */
static void give_back(char *p) {
    size_t n;
    memcpy(&n, p, sizeof n);
    for (size_t i = sizeof n; i < n; i++) {
        if (p[i] != (char)n) {
            atomic_fetch_add(&damaged, 1);
            break;
        }
    }
    if (t_usable_size(p) < n) atomic_fetch_add(&damaged, 1);
    t_free(p);
}

static char *make(unsigned *state) {
    size_t n = sizeof n + next(state) % (next(state) % 50 ? 300 : 90000);
    unsigned kind = next(state) % 8;
    char *p = kind == 0 ? t_aligned_alloc(64, n) : kind < 4 ? fh_malloc_type(n, FH_TYPE_POINTERS) : t_malloc(n);
    if (next(state) % 8 == 0) p = t_realloc(p, n = n / 2 + sizeof n);
    memset(p, (int)n, n);
    memcpy(p, &n, sizeof n);
    return p;
}

static void *exchange(void *number) {
    unsigned state = (unsigned)(size_t)number;
    for (int i = 0; i < ROUNDS; i++) {
        char *p = atomic_exchange(&slot[next(&state) % SLOTS], make(&state));
        if (p) give_back(p);
    }
    return NULL;
}

static void *free_at_once(void *first) {
    for (int i = 0; i < TWICE; i++) {
        if (first) atomic_store(&shared, i % 3 ? t_malloc(100) : t_malloc(100000));
        pthread_barrier_wait(&both);
        t_free(atomic_load(&shared));
        pthread_barrier_wait(&both);
    }
    return NULL;
}

/* Reports on stderr, which goes to a pipe that is read to its end later: they are few and short. */
static unsigned count_reports(int from) {
    static char text[TWICE * 400];
    unsigned found = 0;
    ssize_t length = read(from, text, sizeof text - 1);
    if (length < 0) length = 0;
    text[length] = 0;
    for (const char *at = text; (at = strstr(at, "double free")) != NULL; at++) found++;
    return found;
}

static unsigned twice(void) {
    int ends[2], before = dup(2);
    pthread_t threads[2];
    if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) < 0) return TWICE;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    dup2(ends[1], 2);
    pthread_barrier_init(&both, NULL, 2);
    for (size_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, free_at_once, i ? NULL : &both);
    for (size_t i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    dup2(before, 2);
    return count_reports(ends[0]);
}

int main(void) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, exchange, (void *)(i + 1));
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < SLOTS; i++) {
        if (slot[i]) give_back(slot[i]);
    }
    unsigned reports = twice();
    size_t violated = fh_verify();
    printf("%u damaged, %u of %d double frees reported, %zu violated\n", damaged, reports, TWICE, violated);
    return damaged || reports != TWICE || violated;
}
