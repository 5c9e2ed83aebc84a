/* Bounded heaps: what they promise of sizes, room, threads and forks, and that a call asks the kernel for nothing. How long a call takes:
 * bounded_steps.c. bounded PART [plain]: with "plain" the heap is not a bounded one, and the part must fail. */
#include "../support/check.h"
#include "../support/pattern.h"

#include <freehold/heap.h>
#include <freehold/pool.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define LARGEST MIB

static unsigned flags = FH_HEAP_BOUNDED;

static fh_heap *make(size_t limit) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.name = "loop", .flags = flags, .hard_limit = limit});
    CHECK(h != NULL, "no heap of %zu: %s", limit, strerror(errno));
    return h;
}

static bool holds(const void *p, size_t n, uint64_t key) {
    return pattern_wrong(p, n, key) < 0;
}

static fh_heap_figures figures(fh_heap *h) {
    fh_heap_figures f;
    CHECK(fh_heap_stats(h, &f) == 0, "no figures");
    return f;
}

/* ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void check_size(fh_heap *h, size_t n) {
    unsigned char *p = fh_heap_malloc(h, n);
    CHECK(p != NULL && (uintptr_t)p % 16 == 0, "%zu bytes are at %p", n, (void *)p);
    size_t usable = fh_malloc_usable_size(p), most = n <= 128 ? n + 15 : n <= 32 * KIB ? n + n / 4 : n + 64 * KIB;
    CHECK(usable >= n && usable <= (most < 16 ? 16 : most), "%zu bytes have %zu", n, usable);
    CHECK(fh_heap_of(p) == h && fh_heap_of(p + usable - 1) == h, "%zu bytes are of another heap", n);
    pattern_fill(p, usable, n);
    CHECK(holds(p, usable, n), "%zu bytes lost their contents", n);
    fh_free(p);
}

static void part_sizes(void) {
    fh_heap *h = make(16 * MIB);
    for (size_t n = 0; n <= LARGEST; n += n < 2000 ? 1 : n / 37) check_size(h, n);
    check_size(h, LARGEST);
    for (size_t align = 1; align <= LARGEST; align *= 2) {
        for (size_t n = 1; n <= LARGEST; n = n * 3 + 1) {
            void *p = fh_heap_aligned_alloc(h, align, n);
            CHECK(p && (uintptr_t)p % align == 0 && fh_malloc_usable_size(p) >= n, "%zu at %zu: %p", n, align, p);
            fh_free(p);
        }
    }
    errno = 0;
    CHECK(!fh_heap_malloc(h, LARGEST + 1) && errno == ENOMEM, "more than the largest");
    volatile size_t too_much = SIZE_MAX - 4;
    CHECK(!fh_heap_malloc(h, too_much) && !fh_heap_aligned_alloc(h, 2 * LARGEST, 1), "more than there can be");
    CHECK(figures(h).count == 0 && figures(h).refusals == 3, "%zu blocks, %zu refusals", figures(h).count,
          figures(h).refusals);
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
}

static void part_calls(void) {
    fh_heap *h = make(8 * MIB);
    unsigned char *p = fh_heap_malloc(h, 5000);
    memset(p, 0xFF, 5000);
    fh_free(p);
    p = fh_heap_calloc(h, 50, 100);
    for (size_t i = 0; i < 5000; i++) CHECK(p[i] == 0, "byte %zu of a calloc is %u", i, p[i]);
    pattern_fill(p, 5000, 1);
    for (size_t n = 5000; n < 900 * KIB; n += n / 3) {
        p = fh_heap_realloc(h, p, n);
        CHECK(p && holds(p, 5000, 1), "a realloc to %zu lost the block", n);
    }
    p = fh_heap_realloc(h, p, 5000);
    CHECK(p && holds(p, 5000, 1) && fh_malloc_usable_size(p) < 8 * KIB, "a realloc did not shrink");
    void *outside = fh_malloc(5000);
    pattern_fill(outside, 5000, 2);
    outside = fh_heap_realloc(h, outside, 6000);
    CHECK(fh_heap_of(outside) == h && holds(outside, 5000, 2), "a block did not move in");
    CHECK(fh_heap_enter(h) == 0, "no scope");
    void *scoped = fh_malloc(100);
    CHECK(fh_heap_leave() == 0 && fh_heap_of(scoped) == h, "a scope is not of the heap");
    fh_pool *pool = fh_pool_new(24, 8, &(fh_pool_options){.heap = h});
    CHECK(pool && fh_heap_of(fh_pool_alloc(pool)) == h, "no pool");
    fh_pool_destroy(pool);
    CHECK(figures(h).count == 3, "%zu blocks are live", figures(h).count);
    CHECK(fh_heap_reset(h) == 0 && figures(h).count == 0, "a reset left blocks");
    check_size(h, 5000);
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
}

/* ── Room ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { MOST = 500000 };
static void *block[MOST];

static size_t fill(fh_heap *h, size_t n) {
    size_t count = 0;
    while (count < MOST && (block[count] = fh_heap_malloc(h, n)) != NULL) memset(block[count++], (int)n, n);
    CHECK(count < MOST, "no end of blocks of %zu", n);
    return count;
}

static size_t empty(size_t count, size_t n, size_t step) {
    for (size_t first = 0; first < step; first++) {
        for (size_t i = first; i < count; i += step) {
            CHECK(*(unsigned char *)block[i] == (unsigned char)n, "block %zu of %zu was written to", i, n);
            fh_free(block[i]);
            block[i] = NULL;
        }
    }
    return count;
}

/* All of it can be had, for each size, and again for another one once it is free. */
static void part_room(void) {
    static const size_t size[] = {16,   24,   48,    100,   128,   640,   1000,   1024,
                                  4096, 5000, 16384, 32768, 40000, 65536, 200000, MIB};
    static const size_t limit[] = {256 * KIB, MIB, 4 * MIB, 7 * MIB + 12345};
    size_t had[16];
    for (size_t l = 0; l < sizeof limit / sizeof *limit; l++) {
        fh_heap *h = make(limit[l]);
        CHECK(figures(h).taken <= limit[l] && figures(h).resident == figures(h).taken, "%zu taken, %zu resident of %zu",
              figures(h).taken, figures(h).resident, limit[l]);
        for (size_t turn = 0; turn < 3; turn++) {
            for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
                size_t n = size[i], count = fill(h, n);
                if (turn == 0) had[i] = count;
                CHECK(count == had[i], "%zu blocks of %zu, and %zu at first", count, n, had[i]);
                double share = (double)(count * n) / (double)limit[l];
                /* The bookkeeping, and what a class has beyond the size. */
                if (limit[l] >= 4 * MIB && n <= 32 * KIB && turn == 0) CHECK(share > 0.72, "%zu: %.2f", n, share);
                CHECK(figures(h).count == count && figures(h).taken <= limit[l], "the figures say %zu",
                      figures(h).count);
                empty(count, n, turn * 3 + 1);
            }
        }
        CHECK(fh_heap_destroy(h) == 0, "not destroyed");
    }
}

/* Blocks of many sizes in turn: slabs go from one class to another, and none is lost. */
static void part_mixed(void) {
    uint64_t seed = random_seed();
    fh_heap *h = make(8 * MIB);
    size_t runs = empty(fill(h, 64 * KIB), 64 * KIB, 1), live = 0, refused = 0, bytes = 0;
    static size_t size[MOST];
    for (size_t i = 0; i < 400000; i++) {
        size_t at = (size_t)random_below(&seed, 700);
        if (block[at]) {
            CHECK(holds(block[at], size[at], at), "a block of %zu lost its contents", size[at]);
            fh_free(block[at]);
            bytes -= size[at];
            block[at] = NULL;
            live--;
            continue;
        }
        size[at] = (size_t)1 << random_below(&seed, 16);
        size[at] += (size_t)random_below(&seed, size[at]);
        block[at] = fh_heap_malloc(h, size[at]);
        refused += !block[at];
        if (!block[at]) continue;
        pattern_fill(block[at], size[at], at);
        bytes += size[at];
        live++;
    }
    CHECK(figures(h).count == live && figures(h).live >= bytes && refused < 100000, "%zu blocks, %zu refused", live,
          refused);
    for (size_t i = 0; i < 700; i++) fh_free(block[i]);
    CHECK(figures(h).count == 0, "%zu blocks stay", figures(h).count);
    size_t again = empty(fill(h, 64 * KIB), 64 * KIB, 1);
    CHECK(again == runs, "%zu slabs of %zu can be had", again, runs);
    CHECK(fh_heap_destroy(h) == 0, "not destroyed");
}

/* ── Threads ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { THREADS = 16, PLACES = 2000 };
static struct {
    fh_heap *heap;
    _Atomic(unsigned char *) place[PLACES];
    atomic_ullong seed, operations, refused;
    uint64_t each;
    atomic_bool stop;
} shared;

static size_t some_size(uint64_t *seed) {
    unsigned kind = (unsigned)random_below(seed, 1000);
    if (kind < 900) return 3 + (size_t)random_below(seed, 600);
    return 3 + (size_t)random_below(seed, kind < 995 ? 9000 : 150000);
}

/* Its size is in its first bytes, and one byte in the others: of a long block at both ends. */
static void check_block(const unsigned char *p) {
    unsigned n;
    memcpy(&n, p, 3 < sizeof n ? sizeof n : 3);
    n &= 0xFFFFFF;
    for (unsigned i = 4; i < n && i < 600; i++) CHECK(p[i] == p[3], "byte %u of %u is %u and not %u", i, n, p[i], p[3]);
    CHECK(n <= 4 || p[n - 1] == p[3], "the last byte of %u is %u and not %u", n, p[n - 1], p[3]);
}

static unsigned char *make_block(uint64_t *seed) {
    size_t n = some_size(seed);
    unsigned char *p = fh_heap_malloc(shared.heap, n < 4 ? 4 : n);
    if (!p) return NULL;
    unsigned char byte = (unsigned char)random_below(seed, 256);
    memset(p, byte, n < 600 ? n : 600);
    p[n - 1] = byte;
    unsigned word = (unsigned)n | (unsigned)byte << 24;
    memcpy(p, &word, 4);
    return p;
}

static void *exchange(void *none) {
    uint64_t seed = atomic_fetch_add(&shared.seed, 1) * UINT64_C(0x9E3779B97F4A7C15) | 1, refused = 0, done = 0;
    (void)none;
    for (; done < shared.each && !atomic_load(&shared.stop); done++) {
        bool wanted = random_below(&seed, 16) != 0;
        unsigned char *p = wanted ? make_block(&seed) : NULL;
        refused += wanted && !p;
        p = atomic_exchange(&shared.place[random_below(&seed, PLACES)], p);
        if (!p) continue;
        check_block(p);
        fh_free(p);
    }
    atomic_fetch_add(&shared.operations, done);
    atomic_fetch_add(&shared.refused, refused);
    return NULL;
}

static void *walk(void *none) {
    (void)none;
    while (!atomic_load(&shared.stop)) {
        fh_heap_totals t;
        /* It is no picture of one moment: a block may go and another come where it has not been yet. */
        CHECK(fh_heap_stats_below(shared.heap, &t) == 0 && t.count <= 2 * PLACES, "%zu blocks at once", t.count);
    }
    return NULL;
}

static void drop_all(void) {
    for (int i = 0; i < PLACES; i++) {
        unsigned char *p = atomic_exchange(&shared.place[i], NULL);
        if (!p) continue;
        check_block(p);
        fh_free(p);
    }
}

/* With much room nobody is refused; with little, all of it is there again at the end. FREEHOLD_TEST_OPERATIONS: of all threads. */
static void part_threads(void) {
    uint64_t all = env_number("FREEHOLD_TEST_OPERATIONS", 1600000);
    static const size_t limit[] = {64 * MIB, 4 * MIB};
    atomic_store(&shared.seed, random_seed());
    for (int l = 0; l < 2; l++) {
        pthread_t thread[THREADS], walker;
        shared.heap = make(limit[l]);
        shared.each = all / 2 / THREADS;
        atomic_store(&shared.operations, 0);
        atomic_store(&shared.refused, 0);
        atomic_store(&shared.stop, false);
        size_t runs = empty(fill(shared.heap, 64 * KIB), 64 * KIB, 1);
        for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, exchange, NULL) == 0, "no thread");
        CHECK(pthread_create(&walker, NULL, walk, NULL) == 0, "no thread");
        for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
        atomic_store(&shared.stop, true);
        pthread_join(walker, NULL);
        printf("%llu operations, %llu refused\n", (unsigned long long)shared.operations,
               (unsigned long long)shared.refused);
        CHECK(l == 1 || shared.refused == 0, "%llu refused in a heap with room", (unsigned long long)shared.refused);
        drop_all();
        CHECK(figures(shared.heap).count == 0, "%zu blocks stay", figures(shared.heap).count);
        size_t again = empty(fill(shared.heap, 64 * KIB), 64 * KIB, 1);
        CHECK(again == runs, "%zu slabs of %zu can be had", again, runs);
        CHECK(fh_heap_destroy(shared.heap) == 0, "not destroyed");
    }
}

/* The child of a fork goes on while the parent's threads were in the middle. It loses a slab for each of them at most. */
static void part_forks(void) {
    pthread_t thread[THREADS];
    shared.heap = make(16 * MIB);
    shared.each = UINT64_MAX;
    atomic_store(&shared.seed, random_seed());
    size_t runs = empty(fill(shared.heap, 64 * KIB), 64 * KIB, 1);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, exchange, NULL) == 0, "no thread");
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "no fork");
        if (child == 0) {
            shared.each = 5000;
            exchange(NULL);
            drop_all();
            size_t left = figures(shared.heap).count, again = fill(shared.heap, 64 * KIB);
            CHECK(left <= 2 * THREADS && again + 2 * THREADS >= runs, "%zu blocks stay, %zu of %zu slabs", left, again,
                  runs);
            CHECK(fh_heap_reset(shared.heap) == 0 && fill(shared.heap, 64 * KIB) == runs, "a reset lost slabs");
            CHECK(fh_heap_destroy(shared.heap) == 0, "not destroyed");
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %x", status);
    }
    atomic_store(&shared.stop, true);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    drop_all();
    CHECK(figures(shared.heap).count == 0 && fh_heap_destroy(shared.heap) == 0, "not destroyed");
}

/* ── No system call, no fault ────────────────────────────────────────────────────────────────────────────────────── */

static void work(fh_heap *h, unsigned rounds) {
    uint64_t seed = 1;
    for (unsigned i = 0; i < rounds; i++) {
        size_t at = (size_t)random_below(&seed, 3000), n = some_size(&seed);
        fh_free(block[at]);
        block[at] = random_below(&seed, 8) ? fh_heap_malloc(h, n) : fh_heap_aligned_alloc(h, 64, n);
        if (block[at]) memset(block[at], 1, n);
    }
}

/* In this mode any system call but read, write, and the end of the thread kills it. */
static void part_quiet(void) {
    pid_t child = fork();
    CHECK(child >= 0, "no fork");
    if (child == 0) {
        fh_heap *h = make(24 * MIB);
        memset(block, 0, sizeof block); /* its pages */
        fh_free(fh_heap_malloc(h, 1));  /* makes the thread known */
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(TEST_SKIPPED);
        work(h, 300000);
        syscall(SYS_exit, 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child, "no child");
    if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED) skip_test("no filter of system calls here");
    CHECK(status == 0, "the child ended with %x: 9 is a system call", status);
}

static long faults(void) {
    struct rusage use;
    CHECK(getrusage(RUSAGE_THREAD, &use) == 0, "no usage");
    return use.ru_minflt + use.ru_majflt;
}

/* Of the library's code and of this program's memory pages come at the first touch, so all of it is run once before. */
static void part_faults(void) {
    memset(block, 0, sizeof block);
    fh_heap *before = make(24 * MIB);
    work(before, 100000);
    memset(block, 0, sizeof block);
    fh_heap *h = make(24 * MIB);
    fh_free(fh_heap_malloc(h, 1));
    long seen = faults();
    work(h, 300000);
    seen = faults() - seen;
    printf("%ld page faults\n", seen);
    /* Those of the kernel's own doing (ageing, moving) are few. */
    CHECK(seen < 20, "%ld page faults", seen);
}

/* ── Errors ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static int never(fh_heap *h, size_t wanted, int hard, void *arg) {
    (void)h, (void)wanted, (void)hard, (void)arg;
    return 0;
}

static void *no_memory(void *arg, size_t size, size_t alignment) {
    (void)arg, (void)size, (void)alignment;
    return NULL;
}

static void gives_nothing_back(void *arg, void *p, size_t size) {
    (void)arg, (void)p, (void)size;
}

static void refused(const fh_heap_options *o, int with, const char *what) {
    errno = 0;
    CHECK(!fh_heap_new(o) && errno == with, "%s: errno is %d", what, errno);
}

static void part_errors(void) {
    static char memory[64 * KIB];
    fh_heap_pages pages = {.get = no_memory, .give_back = gives_nothing_back};
    fh_heap_options o = {.flags = FH_HEAP_BOUNDED, .hard_limit = MIB}, bad;
    refused(&(fh_heap_options){.flags = FH_HEAP_BOUNDED}, EINVAL, "no limit");
    refused(&(fh_heap_options){.flags = FH_HEAP_BOUNDED, .hard_limit = 256 * KIB - 1}, EINVAL,
            "a limit that is too small");
    refused(&(fh_heap_options){.flags = FH_HEAP_BOUNDED, .hard_limit = (16384 * MIB) + 1}, EINVAL,
            "one that is too large");
    static const unsigned other[] = {
        FH_HEAP_PRIVATE, FH_HEAP_TYPE_STABLE, FH_HEAP_NO_DUMP, FH_HEAP_HUGE, FH_HEAP_NAMED, FH_HEAP_SIZES, 256};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        refused((bad = o, bad.flags |= other[i], &bad), EINVAL, "another flag");
    refused((bad = o, bad.soft_limit = MIB / 2, &bad), EINVAL, "a soft limit");
    refused((bad = o, bad.callback = never, &bad), EINVAL, "a callback");
    refused((bad = o, bad.memory = memory, bad.memory_size = sizeof memory, &bad), EINVAL, "memory");
    refused((bad = o, bad.pages = &pages, &bad), EINVAL, "pages");
    fh_heap *parent = fh_heap_new(&(fh_heap_options){.hard_limit = 2 * MIB});
    refused((bad = o, bad.parent = parent, bad.hard_limit = 3 * MIB, &bad), ENOMEM, "a parent's limit");
    CHECK(figures(parent).taken == 64 * KIB, "a refused heap is charged: %zu", figures(parent).taken);
    bad.hard_limit = MIB;
    bad.flags |= FH_HEAP_POPULATE;
    fh_heap *h = fh_heap_new(&bad);
    CHECK(h && figures(parent).taken == figures(h).taken + 64 * KIB, "%zu are taken", figures(parent).taken);
    errno = 0;
    CHECK(fh_heap_limit(h, 0, 4 * MIB) == -1 && errno == EINVAL && figures(h).hard_limit == MIB, "the limit changed");
    errno = 0;
    CHECK(!fh_frame_malloc(h, 100) && errno == EINVAL, "a frame of a heap that is not private");
    fh_free(fh_heap_malloc(h, 100));
    CHECK(fh_heap_destroy(h) == 0 && figures(parent).taken == 64 * KIB, "%zu stay", figures(parent).taken);
    CHECK(fh_heap_destroy(parent) == 0, "not destroyed");
}

/* ── Mistakes: each ends in a message, or in none and the other part's check ─────────────────────────────────────── */

static void part_misuse(void) {
    fh_heap *h = make(2 * MIB);
    char *small = fh_heap_malloc(h, 100), *run = fh_heap_malloc(h, 200000);
    CHECK(small && run, "no blocks");
    fh_free(small + 16);  /* the middle of a block */
    fh_free(run + 65536); /* the middle of a run */
    fh_free(small);
    fh_free(small);
    fh_free(run);
    fh_free(run);
    CHECK(figures(h).count == 0, "%zu blocks are live", figures(h).count);
    void *a = fh_heap_malloc(h, 100), *b = fh_heap_malloc(h, 100);
    CHECK(a && b && a != b, "a second free has made two of one");
    printf("ok\n");
}

int main(int arguments, char **argument) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"sizes", part_sizes},     {"calls", part_calls},  {"room", part_room},   {"mixed", part_mixed},
                 {"threads", part_threads}, {"forks", part_forks},  {"quiet", part_quiet}, {"faults", part_faults},
                 {"errors", part_errors},   {"misuse", part_misuse}};
    CHECK(arguments > 1, "which part?");
    if (arguments > 2) flags = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(argument[1], parts[i].name) != 0) continue;
        parts[i].run();
        return 0;
    }
    CHECK(false, "no part %s", argument[1]);
}
