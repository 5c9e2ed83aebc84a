/* What threads keep of a heap of all threads: nothing is lost with those that end, no more is kept than the bound says, a limit that is
 * near finds all, and a second free is found in any stripe. stripes PART */
#include "../support/check.h"

#include <freehold/heap.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static size_t bytes_of(fh_heap *h) {
    fh_heap_figures f;
    CHECK(fh_heap_stats(h, &f) == 0, "no figures");
    return f.taken;
}

static void count_one(void *p, size_t size, void *arg) {
    size_t usable = fh_malloc_usable_size(p);
    CHECK(usable == size, "a walk says %zu of a block of %zu", size, usable);
    ++*(size_t *)arg;
}

static size_t blocks_of(fh_heap *h) {
    size_t met = 0;
    fh_heap_totals t;
    CHECK(fh_heap_walk(h, count_one, &met) == 0 && fh_heap_stats_below(h, &t) == 0, "no walk");
    CHECK(t.count == met, "a walk meets %zu blocks, the books have %zu", met, t.count);
    return met;
}

/* ── Threads that come and go ────────────────────────────────────────────────────────────────────────────────────── */

enum { PLACES = 6000, THREADS = 12, GENERATIONS = 24, STEPS = 6000 };
static struct {
    fh_heap *heap;
    _Atomic(unsigned char *) place[PLACES];
    atomic_ullong seed;
    atomic_bool stop;
} shared;

/* Each block has its size in its first two bytes, and one byte all over. */
static void check_block(const unsigned char *p) {
    size_t n = (size_t)p[0] | (size_t)p[1] << 8;
    for (size_t i = 3; i < n; i++) CHECK(p[i] == p[2], "byte %zu of a block of %zu is %u and not %u", i, n, p[i], p[2]);
}

static unsigned char *make_block(uint64_t *seed) {
    size_t n = 3 + (size_t)random_below(seed, random_below(seed, 10) ? 300 : 5000);
    unsigned char *p = fh_heap_malloc(shared.heap, n);
    CHECK(p != NULL, "no %zu", n);
    memset(p, (int)random_below(seed, 256), n);
    p[0] = (unsigned char)n;
    p[1] = (unsigned char)(n >> 8);
    return p;
}

/* Blocks go from thread to thread: who puts one into a place frees what was there. */
static void *exchange(void *none) {
    uint64_t seed = atomic_fetch_add(&shared.seed, 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;
    (void)none;
    for (int i = 0; i < STEPS; i++) {
        unsigned char *p = random_below(&seed, 16) ? make_block(&seed) : NULL;
        p = atomic_exchange(&shared.place[random_below(&seed, PLACES)], p);
        if (!p) continue;
        check_block(p);
        fh_free(p);
    }
    return NULL;
}

/* A walk while they are at it meets blocks, whose sizes are right. */
static void *walk(void *none) {
    (void)none;
    while (!atomic_load(&shared.stop)) {
        size_t met = 0;
        fh_heap_totals t;
        CHECK(fh_heap_stats_below(shared.heap, &t) == 0, "no totals");
        met = t.count;
        CHECK(met <= PLACES + THREADS, "%zu blocks are live at once", met);
    }
    return NULL;
}

static size_t drop_all(void) {
    size_t dropped = 0;
    for (int i = 0; i < PLACES; i++) {
        unsigned char *p = atomic_exchange(&shared.place[i], NULL);
        if (!p) continue;
        check_block(p);
        fh_free(p);
        dropped++;
    }
    return dropped;
}

static void part_threads(void) {
    pthread_t thread[THREADS], walker;
    size_t after_first = 0;
    atomic_store(&shared.seed, random_seed());
    shared.heap = fh_heap_new(NULL);
    for (int round = 0; round < 3; round++) {
        atomic_store(&shared.stop, false);
        CHECK(pthread_create(&walker, NULL, walk, NULL) == 0, "no thread");
        for (int generation = 0; generation < GENERATIONS / 3; generation++) {
            for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, exchange, NULL) == 0, "no thread");
            for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
        }
        atomic_store(&shared.stop, true);
        pthread_join(walker, NULL);
        size_t live = 0, met = blocks_of(shared.heap);
        for (int i = 0; i < PLACES; i++) live += atomic_load(&shared.place[i]) != NULL;
        CHECK(met == live, "%zu blocks are live, %zu were met", live, met);
        CHECK(drop_all() == live && blocks_of(shared.heap) == 0, "blocks stay");
        CHECK(fh_verify() == 0, "the heap is damaged");
        if (round == 0) after_first = bytes_of(shared.heap);
    }
    /* What was lost with a thread would have to be taken anew. */
    CHECK(bytes_of(shared.heap) <= after_first + after_first / 4 + MIB, "%zu bytes, %zu after the first round",
          bytes_of(shared.heap), after_first);
    CHECK(fh_heap_destroy(shared.heap) == 0, "no end");
}

/* ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { WAITERS = 7 };
static const size_t some_sizes[] = {64, 100, 256, 700, 1000, 2000, 3000};
enum { SIZES = sizeof some_sizes / sizeof *some_sizes };
static pthread_barrier_t barrier;

/* Fills its stripe, and then does nothing. */
static void *fill_and_wait(void *none) {
    static __thread void *all[SIZES][40];
    (void)none;
    for (int s = 0; s < SIZES; s++) {
        for (int i = 0; i < 40; i++)
            CHECK((all[s][i] = fh_heap_malloc(shared.heap, some_sizes[s])) != NULL, "no block");
        for (int i = 0; i < 40; i++) fh_free(all[s][i]);
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

/* Seven other threads live and wait. A heap gets as far as its limit, except what they keep: 6 KiB each of a class. */
static void part_limit(void) {
    const size_t hard = 16 * MIB;
    pthread_t thread[WAITERS];
    shared.heap = fh_heap_new(&(fh_heap_options){.hard_limit = hard});
    /* Units are used up, and the heap has grown. */
    for (int i = 0; i < 2000; i++) CHECK(fh_heap_malloc(shared.heap, 1000) != NULL, "no block");
    CHECK(pthread_barrier_init(&barrier, NULL, WAITERS + 1) == 0, "no barrier");
    for (int i = 0; i < WAITERS; i++) CHECK(pthread_create(&thread[i], NULL, fill_and_wait, NULL) == 0, "no thread");
    pthread_barrier_wait(&barrier);
    for (int s = 0; s < SIZES; s++) {
        size_t got = 0, before = bytes_of(shared.heap);
        void *first = NULL, *p;
        while ((p = fh_heap_malloc(shared.heap, some_sizes[s])) != NULL) {
            *(void **)p = first;
            first = p;
            got += fh_malloc_usable_size(p);
        }
        CHECK(errno == ENOMEM, "errno %d", errno);
        CHECK(bytes_of(shared.heap) <= hard, "%zu bytes of %zu", bytes_of(shared.heap), hard);
        /* At the limit one free is one block, by whichever thread. */
        if (first) {
            void *next = *(void **)first;
            fh_free(first);
            CHECK((first = fh_heap_malloc(shared.heap, some_sizes[s])) != NULL,
                  "what was freed at the limit is not there");
            *(void **)first = next;
        }
        while (first) {
            void *next = *(void **)first;
            fh_free(first);
            first = next;
        }
        CHECK(got + 128 * KIB + WAITERS * 6 * KIB >= (hard - before) / 100 * 97, "%zu of %zu bytes in blocks of %zu",
              got, hard - before, some_sizes[s]);
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < WAITERS; i++) pthread_join(thread[i], NULL);
    CHECK(fh_heap_destroy(shared.heap) == 0, "no end");
}

/* ── Memory ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* One thread's stripe has memory, and not the seven others. All extents are full but the last one, which has a header and a block. */
static void part_resident(void) {
    fh_heap_figures f;
    size_t before = 0;
    shared.heap = fh_heap_new(NULL);
    do {
        char *p = fh_heap_malloc(shared.heap, 1000);
        CHECK(p != NULL, "no block");
        memset(p, 1, 1000);
        before = bytes_of(shared.heap);
    } while (before < 512 * KIB);
    do memset(fh_heap_malloc(shared.heap, 1000), 1, 1000);
    while (bytes_of(shared.heap) == before);
    CHECK(fh_heap_stats(shared.heap, &f) == 0, "no figures");
    CHECK(f.taken == before + 64 * KIB, "%zu bytes are taken, %zu before", f.taken, before);
    CHECK(f.resident <= f.taken - 128 * KIB + 12 * KIB + 16 * KIB, "%zu of %zu bytes are resident", f.resident,
          f.taken);
    CHECK(fh_heap_destroy(shared.heap) == 0, "no end");
}

/* ── Forks ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void part_forks(void) {
    pthread_t thread[WAITERS];
    shared.heap = fh_heap_new(NULL);
    for (int i = 0; i < 2000; i++) CHECK(fh_heap_malloc(shared.heap, 1000) != NULL, "no block");
    CHECK(pthread_barrier_init(&barrier, NULL, WAITERS + 1) == 0, "no barrier");
    for (int i = 0; i < WAITERS; i++) CHECK(pthread_create(&thread[i], NULL, fill_and_wait, NULL) == 0, "no thread");
    pthread_barrier_wait(&barrier);
    size_t live = blocks_of(shared.heap);
    CHECK(live == 2000, "%zu blocks", live);
    pid_t child = fork();
    CHECK(child >= 0, "no fork");
    if (child == 0) {
        atomic_store(&shared.seed, 77);
        exchange(NULL);
        drop_all();
        CHECK(blocks_of(shared.heap) == live, "%zu blocks in the child", blocks_of(shared.heap));
        CHECK(fh_verify() == 0, "the heap is damaged in the child");
        _exit(fh_heap_destroy(shared.heap));
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < WAITERS; i++) pthread_join(thread[i], NULL);
    CHECK(blocks_of(shared.heap) == live && fh_heap_destroy(shared.heap) == 0, "no end");
}

/* ── A second free ───────────────────────────────────────────────────────────────────────────────────────────────── */

static void *free_it(void *p) {
    fh_free(p);
    return NULL;
}

/* The reports are counted by who runs this. */
static void part_twice(void) {
    pthread_t thread;
    shared.heap = fh_heap_new(NULL);
    for (int i = 0; i < 2000; i++) CHECK(fh_heap_malloc(shared.heap, 1000) != NULL, "no block");
    void *p = fh_heap_malloc(shared.heap, 200), *q = fh_heap_malloc(shared.heap, 200);
    fh_free(p);
    fh_free(p);
    CHECK(pthread_create(&thread, NULL, free_it, p) == 0, "no thread");
    pthread_join(thread, NULL);
    fh_free((char *)q + 16);
    void *a = fh_heap_malloc(shared.heap, 200), *b = fh_heap_malloc(shared.heap, 200);
    CHECK(a != b && a != q && b != q, "a block was handed out twice");
    CHECK(fh_heap_destroy(shared.heap) == 0, "no end");
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"threads", part_threads},
                 {"limit", part_limit},
                 {"resident", part_resident},
                 {"forks", part_forks},
                 {"twice", part_twice}};
    for (size_t i = 0; argc == 2 && i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(argv[1], parts[i].name) != 0) continue;
        parts[i].run();
        puts("ok");
        return 0;
    }
    fprintf(stderr, "usage: stripes threads|limit|resident|forks|twice\n");
    return 2;
}
