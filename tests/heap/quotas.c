/* Limits and figures of heaps under many threads, against the kernel's count, and in the child of a fork. quotas PART */
#include "../support/check.h"

#include <freehold/heap.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static fh_heap_figures figures(fh_heap *h) {
    fh_heap_figures f;
    CHECK(fh_heap_stats(h, &f) == 0, "no figures");
    return f;
}

static void run_threads(size_t threads, void *(*body)(void *)) {
    pthread_t thread[16];
    for (size_t i = 0; i < threads; i++) CHECK(!pthread_create(&thread[i], NULL, body, (void *)(i + 1)), "no thread");
    for (size_t i = 0; i < threads; i++) pthread_join(thread[i], NULL);
}

static struct {
    fh_heap *_Atomic heap;
    size_t size, hard;
    bool _Atomic over;
} shared;

/* ── The hard limit ──────────────────────────────────────────────────────────────────────────────────────────────── */

static void *take_all(void *arg) {
    (void)arg;
    while (fh_heap_malloc(shared.heap, shared.size)) CHECK(figures(shared.heap).taken <= shared.hard, "passed");
    CHECK(errno == ENOMEM, "errno %d", errno);
    return NULL;
}

/* Sixteen threads use a limit up to within one slab of the class (1 MiB at most), and never pass it. */
static void part_sixteen(void) {
    const size_t sizes[] = {40 * KIB, 150 * KIB, 1000 * KIB};
    shared.hard = 12 * MIB;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        shared.size = sizes[i];
        shared.heap = fh_heap_new(&(fh_heap_options){.hard_limit = shared.hard});
        run_threads(16, take_all);
        fh_heap_figures f = figures(shared.heap);
        CHECK(f.peak <= shared.hard && f.taken + MIB > shared.hard, "%zu: peak %zu, taken %zu", sizes[i], f.peak,
              f.taken);
        CHECK(f.refusals >= 16, "%zu refusals", f.refusals);
        CHECK(fh_heap_destroy(shared.heap) == 0, "no end");
    }
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* Huge blocks grow and shrink beside each other. A refused one keeps its place and what it has. */
static void *resize_huge(void *arg) {
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    size_t n = 100 * KIB;
    size_t *p;
    while (!(p = fh_heap_malloc(shared.heap, n))) sched_yield(); /* until one of the others is done */
    *p = seed;
    for (int i = 0; i < 300; i++) {
        size_t want = 70 * KIB + (size_t)random_below(&seed, 6 * MIB), mine = *p;
        size_t *q = fh_heap_realloc(shared.heap, p, want);
        fh_heap_figures f = figures(shared.heap);
        CHECK(f.taken <= shared.hard && f.peak <= shared.hard, "taken %zu, peak %zu", f.taken, f.peak);
        if (q) p = q;
        CHECK(*p == mine && fh_heap_of(p) == shared.heap, "a block changed");
    }
    fh_free(p);
    return NULL;
}

static void part_realloc(void) {
    shared.hard = 16 * MIB;
    shared.heap = fh_heap_new(&(fh_heap_options){.hard_limit = shared.hard});
    run_threads(8, resize_huge);
    fh_heap_figures f = figures(shared.heap);
    CHECK(f.count == 0 && f.refusals > 0, "%zu blocks, %zu refusals", f.count, f.refusals);
    CHECK(fh_heap_reset(shared.heap) == 0 && figures(shared.heap).taken == 64 * KIB, "something stays taken");
    CHECK(fh_heap_destroy(shared.heap) == 0 && fh_verify() == 0, "no end");
}

/* ── What is resident ────────────────────────────────────────────────────────────────────────────────────────────── */

/* Pages of these slots that are present, as the kernel's page map says. */
static size_t present(uintptr_t begin, size_t bytes) {
    static uint64_t entry[16384];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), sum = 0;
    FILE *file = fopen("/proc/self/pagemap", "r");
    CHECK(file && bytes / page <= 16384 && !fseek(file, (long)(begin / page * 8), SEEK_SET), "no page map");
    CHECK(fread(entry, 8, bytes / page, file) == bytes / page, "too few pages");
    for (size_t i = 0; i < bytes / page; i++) sum += (entry[i] >> 63) * page;
    fclose(file);
    return sum;
}

typedef struct {
    uintptr_t slot; /* the last one that was counted: a walk meets a slab's blocks one after the other */
    size_t bytes;
} counted;

static void count_slots(void *p, size_t size, void *arg) {
    counted *c = arg;
    for (uintptr_t at = (uintptr_t)p & ~(64 * KIB - 1); at < (uintptr_t)p + size; at += 64 * KIB) {
        if (at == c->slot) continue;
        c->bytes += present(at, 64 * KIB);
        c->slot = at;
    }
}

static void part_resident(void) {
    fh_heap *h = fh_heap_new(NULL);
    const size_t sizes[] = {60, 200, 900, 3000, 40000, 300 * KIB, 3 * MIB};
    uint64_t seed = random_seed();
    for (size_t taken = 0; taken < 48 * MIB;) {
        size_t n = sizes[random_below(&seed, sizeof sizes / sizeof *sizes)];
        char *p = fh_heap_malloc(h, n);
        CHECK(p != NULL, "no block of %zu", n);
        memset(p, 1, n > 64 * KIB ? n / 2 : n);
        taken += n;
    }
    counted c = {0, 0};
    fh_heap_walk(h, count_slots, &c);
    fh_heap_figures f = figures(h);
    size_t apart = f.resident > c.bytes ? f.resident - c.bytes : c.bytes - f.resident;
    printf("resident: %zu KiB, and the kernel's page map has %zu KiB\n", f.resident / KIB, c.bytes / KIB);
    CHECK(apart * 50 <= f.resident, "resident %zu, the kernel says %zu", f.resident, c.bytes);
    CHECK(fh_heap_destroy(h) == 0, "no end");
}

/* ── What a small heap costs ─────────────────────────────────────────────────────────────────────────────────────── */

static void part_cost(void) {
    enum { HEAPS = 20000 };
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < HEAPS; i++) {
        fh_heap *h = fh_heap_new(NULL);
        for (size_t k = 1; k <= 10; k++) CHECK(fh_heap_malloc(h, 16 * k) != NULL, "no block");
        CHECK(fh_heap_destroy(h) == 0, "no end");
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
    printf("new, ten blocks and destroy: %.0f ns\n", ns / HEAPS);
}

/* ── Fork ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Extents are claimed, retired and brought back under a limit, and large blocks come and go. */
static void *use_heap(void *arg) {
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    void *kept[40] = {0};
    while (!shared.over) {
        size_t i = random_below(&seed, 40), n = (size_t)16 << random_below(&seed, 14);
        if (random_below(&seed, 50) == 0) {
            for (size_t k = 0; k < 40; k++) {
                fh_free(kept[k]);
                kept[k] = NULL;
            }
        }
        fh_free(kept[i]);
        kept[i] = fh_heap_malloc(shared.heap, n);
        if (kept[i]) memset(kept[i], 1, n < 100 ? n : 100);
    }
    for (size_t k = 0; k < 40; k++) fh_free(kept[k]);
    return NULL;
}

static void free_it(void *p, size_t size, void *arg) {
    (void)size, (void)arg;
    fh_free(p);
}

/* The child: blocks come and go, what other threads had is met and freed, and the heap and its parent end. */
static void in_child(fh_heap *parent) {
    fh_heap *h = shared.heap;
    fh_heap_walk(h, free_it, NULL);
    void *p = fh_heap_malloc(h, 100), *q = fh_heap_malloc(h, 20000);
    CHECK(p && fh_heap_of(p) == h && (!q || fh_heap_of(q) == h), "no block in the child");
    fh_free(q);
    CHECK(fh_heap_reset(h) == 0 && figures(h).count == 0, "blocks after a reset");
    CHECK(fh_heap_malloc(h, 100) && fh_heap_destroy(h) == 0, "no end in the child");
    /* Where threads were stopped, at most the charge of one piece each stays: too much and never too little. */
    fh_heap_figures f = figures(parent);
    CHECK(f.taken >= 64 * KIB && f.taken <= 64 * KIB + 4 * MIB, "the parent has %zu", f.taken);
    CHECK(fh_heap_destroy(parent) == 0, "the parent does not end");
    _exit(0);
}

static void *fork_often(void *arg) {
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "no fork");
        int status = 0;
        if (child == 0) {
            alarm(60);
            in_child(arg);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %x", status);
    }
    shared.over = true;
    return NULL;
}

static void part_fork(void) {
    pthread_t forks;
    fh_heap *parent = fh_heap_new(NULL);
    shared.heap = fh_heap_new(&(fh_heap_options){.parent = parent, .hard_limit = 4 * MIB});
    CHECK(!pthread_create(&forks, NULL, fork_often, parent), "no thread");
    run_threads(4, use_heap);
    pthread_join(forks, NULL);
    CHECK(figures(shared.heap).count == 0 && fh_heap_destroy(shared.heap) == 0, "no end");
    CHECK(figures(parent).taken == 64 * KIB && fh_heap_destroy(parent) == 0 && fh_verify() == 0, "the books are off");
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*part)(void);
    } parts[] = {{"sixteen", part_sixteen},
                 {"realloc", part_realloc},
                 {"resident", part_resident},
                 {"cost", part_cost},
                 {"fork", part_fork}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (count == 2 && !strcmp(words[1], parts[i].name)) {
            parts[i].part();
            return 0;
        }
    }
    CHECK(0, "usage: quotas PART");
}
