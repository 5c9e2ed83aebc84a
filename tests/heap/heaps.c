/* Heaps of the embedding API: where blocks come from and go, what ends with a heap, and what it may take. heaps PART */
#include "../support/check.h"

#include <freehold/heap.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static void whole_heap(void) {
    CHECK(fh_verify() == 0, "the heap is damaged");
}

static fh_heap_figures figures(fh_heap *h) {
    fh_heap_figures f;
    CHECK(fh_heap_stats(h, &f) == 0, "no figures");
    return f;
}

/* ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    unsigned char *p;
    size_t n;
    unsigned char with;
} block;

static void fill(block *b) {
    memset(b->p, b->with, b->n);
}

static void check_filled(const block *b) {
    for (size_t i = 0; i < b->n; i += b->n < 4096 ? 1 : 509)
        CHECK(b->p[i] == b->with, "byte %zu of %zu at %p is %u, not %u", i, b->n, (void *)b->p, b->p[i], b->with);
}

static size_t some_size(uint64_t *seed) {
    unsigned bits = (unsigned)random_below(seed, 10) < 8 ? 10 : (unsigned)random_below(seed, 20);
    return 1 + (size_t)random_below(seed, (size_t)1 << bits);
}

typedef struct {
    size_t count, bytes;
} sum;

static void add(void *p, size_t size, void *arg) {
    sum *s = arg;
    CHECK(p != NULL && size > 0, "a walk met %p of %zu", p, size);
    s->count++;
    s->bytes += size;
}

static void change(fh_heap *h, block *b, uint64_t *seed) {
    if (b->p && random_below(seed, 2)) {
        size_t n = some_size(seed), kept = n < b->n ? n : b->n;
        b->p = fh_heap_realloc(h, b->p, n);
        CHECK(b->p != NULL, "no %zu", n);
        b->n = kept;
        check_filled(b);
        b->n = n;
    } else if (b->p) {
        fh_free(b->p);
        b->p = NULL;
        return;
    } else {
        size_t align = (size_t)16 << (random_below(seed, 8) ? 0 : random_below(seed, 14));
        b->n = some_size(seed);
        bool zeroed = random_below(seed, 4) == 0;
        b->p = zeroed ? fh_heap_calloc(h, 1, b->n) : fh_heap_aligned_alloc(h, align, b->n);
        CHECK(b->p && (zeroed || (uintptr_t)b->p % align == 0), "%zu at a multiple of %zu: %p", b->n, align,
              (void *)b->p);
        for (size_t i = 0; zeroed && i < b->n; i++) CHECK(b->p[i] == 0, "calloc of %zu: byte %zu", b->n, i);
    }
    CHECK(fh_malloc_usable_size(b->p) >= b->n, "usable %zu of %zu", fh_malloc_usable_size(b->p), b->n);
    CHECK(fh_heap_of(b->p) == h && fh_heap_of(b->p + b->n - 1) == h, "of another heap");
    b->with = (unsigned char)random_next(seed);
    fill(b);
}

/* Random calls on a heap; in the end its walk meets what is live and nothing else. */
static void random_calls(unsigned flags, uint64_t seed) {
    enum { BLOCKS = 600 };
    static _Thread_local block all[BLOCKS];
    fh_heap *h = fh_heap_new(&(fh_heap_options){.name = "random", .flags = flags});
    CHECK(h && !strcmp(fh_heap_name(h), "random"), "no heap");
    memset(all, 0, sizeof all);
    for (int i = 0; i < 30000; i++) {
        block *b = &all[random_below(&seed, BLOCKS)];
        if (b->p) check_filled(b);
        change(h, b, &seed);
    }
    sum met = {0, 0};
    size_t live = 0, bytes = 0;
    CHECK(fh_heap_walk(h, add, &met) == 0, "no walk");
    for (int i = 0; i < BLOCKS; i++) {
        if (!all[i].p) continue;
        check_filled(&all[i]);
        live++;
        bytes += fh_malloc_usable_size(all[i].p);
    }
    CHECK(met.count == live && met.bytes == bytes, "met %zu of %zu blocks", met.count, live);
    fh_heap_figures f = figures(h);
    CHECK(f.count == live && f.live == bytes && f.taken >= bytes && f.peak >= f.taken, "taken %zu live %zu", f.taken,
          f.live);
    CHECK(fh_heap_reset(h) == 0, "no reset");
    f = figures(h);
    CHECK(f.count == 0 && f.taken == 64 * KIB, "after a reset: %zu blocks, %zu taken", f.count, f.taken);
    CHECK(fh_heap_malloc(h, 100) != NULL && fh_heap_destroy(h) == 0, "no end");
}

static void part_blocks(void) {
    uint64_t seed = random_seed();
    random_calls(0, random_next(&seed));
    random_calls(FH_HEAP_PRIVATE, random_next(&seed));
    whole_heap();
}

/* Blocks that are freed here and there in a heap that has grown are found again: it takes nothing more. */
static void part_reused(void) {
    enum { ALL = 6000, TURNS = 6000 };
    static void *all[ALL];
    uint64_t seed = random_seed();
    static const unsigned flags[] = {0, FH_HEAP_PRIVATE};
    for (unsigned kind = 0; kind < 2; kind++) {
        fh_heap *h = fh_heap_new(&(fh_heap_options){.flags = flags[kind]});
        for (size_t i = 0; i < ALL; i++) CHECK((all[i] = fh_heap_malloc(h, 2000)) != NULL, "no block");
        size_t taken = figures(h).taken;
        for (size_t i = 0; i < TURNS; i++) {
            size_t at = (size_t)random_below(&seed, ALL);
            fh_free(all[at]);
            CHECK((all[at] = fh_heap_malloc(h, 2000)) != NULL, "no block");
        }
        for (size_t i = 0; i < ALL; i += 3) fh_free(all[i]);
        for (size_t i = 0; i < ALL; i += 3) CHECK((all[i] = fh_heap_malloc(h, 2000)) != NULL, "no block");
        CHECK(figures(h).taken == taken && figures(h).count == ALL, "%zu taken, %zu before", figures(h).taken, taken);
        CHECK(fh_heap_destroy(h) == 0, "no end");
    }
    whole_heap();
}

/* ── Threads ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { THREADS = 4, PLACES = 64 };
static struct {
    fh_heap *heap;
    void *_Atomic place[PLACES];
    size_t rounds;
} shared;

/* Blocks change hands through the places: whoever takes one out checks it and frees it. */
static void *exchange(void *arg) {
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    for (size_t i = 0; i < shared.rounds; i++) {
        size_t n = random_below(&seed, 200) ? 32 + (size_t)random_below(&seed, 3000) : 100 * KIB;
        size_t *p = fh_heap_malloc(shared.heap, n);
        if (p) {
            p[0] = n;
            p[1] = (size_t)p;
            memset(p + 2, (int)(n & 0xFF), n - 16);
        }
        size_t *q = __atomic_exchange_n((void **)&shared.place[random_below(&seed, PLACES)], p, __ATOMIC_ACQ_REL);
        if (!q) continue;
        CHECK(q[1] == (size_t)q, "the block at %p is another one's", (void *)q);
        for (size_t at = 16; at < q[0]; at++)
            CHECK(((unsigned char *)q)[at] == (q[0] & 0xFF), "byte %zu of %zu at %p", at, q[0], (void *)q);
        fh_free(q);
    }
    return NULL;
}

static void run_threads(void *(*body)(void *), uint64_t seed) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&thread[i], NULL, body, (void *)(uintptr_t)random_next(&seed)), "no thread");
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

static void part_threads(void) {
    uint64_t seed = random_seed();
    size_t hard[] = {0, 2 * MIB};
    for (int i = 0; i < 2; i++) {
        shared.heap = fh_heap_new(&(fh_heap_options){.hard_limit = hard[i]});
        shared.rounds = 20000;
        run_threads(exchange, random_next(&seed));
        fh_heap_figures f = figures(shared.heap);
        CHECK(f.count <= PLACES && (!hard[i] || f.peak <= hard[i]), "%zu blocks, peak %zu", f.count, f.peak);
        /* Blocks of threads that have ended are freed by this one. */
        for (int k = 0; k < PLACES; k++)
            fh_free(__atomic_exchange_n((void **)&shared.place[k], NULL, __ATOMIC_ACQ_REL));
        f = figures(shared.heap);
        CHECK(f.count == 0 && f.live == 0, "%zu blocks are left", f.count);
        CHECK(fh_heap_destroy(shared.heap) == 0, "no end");
    }
    whole_heap();
}

/* Each thread has heaps of its own, made and destroyed beside those of the others. */
static void *many_heaps(void *arg) {
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < 300; i++) {
        fh_heap *h = fh_heap_new(&(fh_heap_options){.parent = shared.heap, .flags = i % 2 ? FH_HEAP_PRIVATE : 0});
        CHECK(h != NULL, "no heap");
        for (int k = 0; k < 40; k++) {
            size_t n = some_size(&seed);
            void *p = fh_heap_malloc(h, n);
            CHECK(p && fh_heap_of(p) == h, "%zu", n);
            memset(p, 1, n);
        }
        CHECK(fh_heap_destroy(h) == 0, "no end");
    }
    return NULL;
}

static void part_tree(void) {
    uint64_t seed = random_seed();
    shared.heap = fh_heap_new(NULL);
    run_threads(many_heaps, seed);
    fh_heap_figures f = figures(shared.heap);
    CHECK(f.taken == 64 * KIB && f.peak > f.taken, "taken %zu, peak %zu", f.taken, f.peak);
    CHECK(fh_heap_destroy(shared.heap) == 0, "no end");
    whole_heap();
}

/* ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t until_full(fh_heap *h, size_t n) {
    size_t count = 0;
    while (fh_heap_malloc(h, n)) count++;
    CHECK(errno == ENOMEM, "errno %d", errno);
    return count;
}

static void free_it(void *p, size_t size, void *arg) {
    (void)size, (void)arg;
    fh_free(p);
}

/* What was freed is there again for blocks of any other size. */
static void part_recovers(void) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.hard_limit = 8 * MIB});
    size_t first = until_full(h, 3000), least = 8 * MIB / 4;
    CHECK(first * 3000 > least, "%zu blocks of 3000", first);
    size_t sizes[] = {64, 500, 20000, 64 * KIB, 100 * KIB, 3 * MIB, 3000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fh_heap_walk(h, free_it, NULL);
        CHECK(figures(h).count == 0, "something is left");
        size_t count = until_full(h, sizes[i]);
        CHECK(count * sizes[i] > least, "%zu blocks of %zu after others were freed", count, sizes[i]);
        CHECK(figures(h).peak <= 8 * MIB, "peak %zu", figures(h).peak);
    }
    CHECK(fh_heap_reset(h) == 0 && figures(h).taken == 64 * KIB, "taken %zu of nothing", figures(h).taken);
    CHECK(fh_heap_destroy(h) == 0, "no end");
    whole_heap();
}

static void *fill_child(void *arg) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.parent = shared.heap});
    size_t sizes[] = {100, 2000, 30000, 200 * KIB};
    if (h) until_full(h, sizes[(uintptr_t)arg % 4]);
    return h;
}

/* The limit of a parent holds for all threads in all of its children together, and is used up within a slab each. */
static void part_parent(void) {
    enum { CHILDREN = 16 };
    pthread_t thread[CHILDREN];
    void *child[CHILDREN];
    const size_t hard = 40 * MIB;
    shared.heap = fh_heap_new(&(fh_heap_options){.name = "tenant", .hard_limit = hard});
    for (size_t i = 0; i < CHILDREN; i++) CHECK(!pthread_create(&thread[i], NULL, fill_child, (void *)i), "no thread");
    for (int i = 0; i < CHILDREN; i++) pthread_join(thread[i], &child[i]);
    fh_heap_figures f = figures(shared.heap);
    CHECK(f.peak <= hard && f.taken + MIB > hard, "peak %zu, taken %zu of %zu", f.peak, f.taken, hard);
    CHECK(fh_heap_destroy(shared.heap) == -1 && errno == EBUSY, "a parent before its children");
    for (int i = 0; i < CHILDREN; i++) CHECK(fh_heap_destroy(child[i]) == 0, "no end");
    CHECK(figures(shared.heap).taken == 64 * KIB, "taken %zu", figures(shared.heap).taken);
    CHECK(fh_heap_destroy(shared.heap) == 0, "no end");
    whole_heap();
}

static struct {
    void *kept;
    int hard, soft;
} told;

static int free_one(fh_heap *h, size_t wanted, int hard, void *arg) {
    CHECK(arg == &told && wanted > 0, "wrong words");
    ++*(hard ? &told.hard : &told.soft);
    if (!hard) return 0;
    CHECK(fh_heap_malloc(h, 3 * MIB) == NULL && errno == ENOMEM, "a callback got what there is not");
    if (!told.kept) return 0;
    fh_free(told.kept);
    told.kept = NULL;
    return 1;
}

static void part_callback(void) {
    fh_heap *h = fh_heap_new(
        &(fh_heap_options){.soft_limit = 2 * MIB, .hard_limit = 4 * MIB, .callback = free_one, .arg = &told});
    told.kept = fh_heap_malloc(h, 3 * MIB);
    CHECK(told.kept && told.soft == 1 && told.hard == 0, "soft %d, hard %d", told.soft, told.hard);
    void *p = fh_heap_malloc(h, 3 * MIB);
    CHECK(p && told.hard == 1, "the callback has freed, and there is nothing: %d", told.hard);
    CHECK(!fh_heap_malloc(h, 3 * MIB) && told.hard == 2, "more than there may be: %d", told.hard);
    void *q = fh_heap_realloc(h, p, 5 * MIB);
    CHECK(!q && errno == ENOMEM && fh_heap_of(p) == h, "a realloc passed the limit");
    CHECK(fh_heap_limit(h, 0, MIB) == 0, "a limit below what is live");
    CHECK(!fh_heap_malloc(h, MIB / 2), "below what is live, and it grew");
    CHECK(fh_heap_limit(h, 0, 0) == 0 && fh_heap_malloc(h, 8 * MIB), "no limit, and no memory");
    CHECK(fh_heap_limit(h, 0, 1) == -1 && errno == EINVAL, "a limit of a byte");
    CHECK(fh_heap_destroy(h) == 0, "no end");
    CHECK(!fh_heap_new(&(fh_heap_options){.flags = 128}) && errno == EINVAL, "an unknown flag");
    CHECK(fh_heap_destroy(NULL) == 0, "NULL");
}

static struct {
    int calls, refused, wait[2], go[2];
    bool child; /* the pipes are the parent's, too */
} inside;

static int end_it(fh_heap *h, size_t wanted, int hard, void *arg) {
    (void)wanted, (void)hard, (void)arg;
    inside.calls++;
    inside.refused += fh_heap_reset(h) == -1 && errno == EBUSY;
    inside.refused += fh_heap_destroy(h) == -1 && errno == EBUSY;
    return 0;
}

static int wait_there(fh_heap *h, size_t wanted, int hard, void *arg) {
    char byte = 0;
    (void)h, (void)wanted, (void)hard, (void)arg;
    inside.calls++;
    if (inside.child) return 0;
    CHECK(write(inside.wait[1], &byte, 1) == 1 && read(inside.go[0], &byte, 1) == 1, "no pipe");
    return 0;
}

static void *be_refused(void *h) {
    CHECK(!fh_heap_malloc(h, 2 * MIB), "beyond the limit");
    return NULL;
}

static int promise_more(fh_heap *h, size_t wanted, int hard, void *arg) {
    (void)h, (void)wanted, (void)hard;
    ++*(int *)arg;
    return 1;
}

/* It says each time that trying again may help, and has freed nothing. */
static void part_asked_in_vain(void) {
    int times = 0;
    fh_heap *h = fh_heap_new(&(fh_heap_options){.hard_limit = MIB, .callback = promise_more, .arg = &times});
    CHECK(!fh_heap_malloc(h, 2 * MIB) && errno == ENOMEM, "beyond the limit");
    CHECK(times == 16, "it was asked %d times for one call", times);
    CHECK(fh_heap_destroy(h) == 0, "no end");
}

/* A callback that ends its own heap, below a call of it. And a fork while another thread is in a callback. */
static void part_asked(void) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.hard_limit = MIB, .callback = end_it});
    be_refused(h);
    CHECK(inside.calls == 1 && inside.refused == 2, "%d calls, %d refused", inside.calls, inside.refused);
    CHECK(fh_heap_malloc(h, 100) && fh_heap_reset(h) == 0 && fh_heap_destroy(h) == 0, "no end");

    h = fh_heap_new(&(fh_heap_options){.hard_limit = MIB, .callback = wait_there});
    pthread_t thread;
    char byte = 0;
    CHECK(!pipe(inside.wait) && !pipe(inside.go) && !pthread_create(&thread, NULL, be_refused, h), "no thread");
    CHECK(read(inside.wait[0], &byte, 1) == 1, "no callback");
    pid_t child = fork();
    if (child == 0) {
        inside.child = true;
        inside.calls = 0;
        be_refused(h);
        CHECK(inside.calls == 1, "the child was called back %d times", inside.calls);
        CHECK(fh_heap_reset(h) == 0 && fh_heap_destroy(h) == 0, "no end in the child");
        _exit(0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child: %x", (unsigned)status);
    CHECK(fh_heap_destroy(h) == -1 && errno == EBUSY, "an end while a thread is in the callback");
    CHECK(write(inside.go[1], &byte, 1) == 1 && !pthread_join(thread, NULL), "no pipe");
    CHECK(fh_heap_destroy(h) == 0, "no end");
}

/* ── Many small ones ─────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t resident(void) {
    size_t pages = 0, all;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%zu %zu", &all, &pages) == 2, "no statm");
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

enum { HEAPS = 10000 };
static fh_heap *heap[HEAPS];

/* Before is what was resident once no heap was there. */
static void small_round(const char *where, size_t before) {
    for (int i = 0; i < HEAPS; i++) {
        heap[i] = fh_heap_new(NULL);
        for (size_t k = 1; k <= 10; k++) memset(fh_heap_malloc(heap[i], 16 * k), 1, 16 * k);
    }
    size_t full = resident();
    for (int i = 0; i < HEAPS; i++) CHECK(fh_heap_destroy(heap[i]) == 0, "no end");
    fh_malloc_trim(0);
    size_t after = resident();
    printf("%d heaps of ten blocks, %s: %zu KiB resident, %zu KiB after their end\n", HEAPS, where,
           (full - before) / KIB, after > before ? (after - before) / KIB : 0);
    CHECK(full - before <= 64 * MIB, "10,000 heaps have %zu KiB", (full - before) / KIB);
    CHECK(after <= before + MIB, "%zu KiB stay", (after - before) / KIB);
    whole_heap();
}

/* A program that had a GiB in small blocks: what it leaves behind are chunks on huge pages. */
static void spike(void) {
    enum { BLOCKS = 1 << 20 };
    void **block = fh_malloc(BLOCKS * sizeof *block);
    for (size_t i = 0; i < BLOCKS; i++) memset(block[i] = fh_malloc(1000), 1, 1000);
    for (size_t i = 0; i < BLOCKS; i++) fh_free(block[i]);
    fh_free(block);
    fh_malloc_trim(0);
}

static void part_small(void) {
    fh_heap_destroy(fh_heap_new(NULL));
    fh_malloc_trim(0);
    size_t before = resident();
    small_round("first", before);
    for (int i = 0; i < 3; i++) small_round("again", before);
    spike();
    small_round("after a spike", resident());
    /* What was given back serves again. */
    for (int i = 0; i < HEAPS; i++) {
        heap[i] = fh_heap_new(NULL);
        memset(fh_heap_malloc(heap[i], 1000), 1, 1000);
    }
    whole_heap();
    for (int i = 0; i < HEAPS; i++) CHECK(fh_heap_destroy(heap[i]) == 0, "no end");
    whole_heap();
}

/* ── Misuse: the first line on stderr says what was found (CMakeLists.txt) ───────────────────────────────────────────── */

static void part_twice(void) {
    fh_heap *h = fh_heap_new(NULL);
    void *volatile p = fh_heap_malloc(h, 100);
    fh_free(p);
    fh_free(p);
}

static void part_twice_extent(void) {
    fh_heap *h = fh_heap_new(NULL);
    void *volatile p = fh_heap_malloc(h, 5000);
    fh_free(p);
    fh_free(p);
}

static void part_twice_large(void) {
    fh_heap *h = fh_heap_new(NULL);
    void *volatile p = fh_heap_malloc(h, 500000);
    fh_free(p);
    fh_free(p);
}

static void part_inside(void) {
    char *volatile p = fh_heap_malloc(fh_heap_new(NULL), 100);
    fh_free(p + 32);
}

static void part_after(void) {
    fh_heap *h = fh_heap_new(NULL);
    void *volatile p = fh_heap_malloc(h, 100);
    fh_heap_destroy(h);
    fh_free(p);
}

static void part_destroyed_twice(void) {
    fh_heap *volatile h = fh_heap_new(NULL);
    fh_heap_destroy(h);
    fh_heap_destroy(h);
}

/* What is asked of a heap that is gone. A release build finds it until its memory is in use again. */
static void used_after(const fh_heap_options *options, size_t size) {
    fh_heap *volatile h = fh_heap_new(options);
    for (int i = 0; i < 20000 && fh_heap_malloc(h, size); i++) {
    }
    fh_heap_destroy(h);
    void *volatile p = fh_heap_malloc(h, size);
    (void)p;
}

static void part_used_after_bounded(void) {
    used_after(&(fh_heap_options){.hard_limit = 4 * MIB, .flags = FH_HEAP_BOUNDED}, 100);
}

static void part_used_after_grown(void) {
    used_after(NULL, 100);
}

static void part_used_after_large(void) {
    used_after(&(fh_heap_options){.hard_limit = 4 * MIB}, 100000);
}

static void part_used_after_frame(void) {
    fh_heap *volatile h = fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_PRIVATE});
    void *volatile p = fh_frame_malloc(h, 100);
    fh_heap_destroy(h);
    p = fh_frame_malloc(h, 100);
    (void)p;
}

/* Its memory was purged. */
static void part_used_after_trim(void) {
    fh_heap *volatile h = fh_heap_new(NULL);
    fh_heap_destroy(h);
    fh_malloc_trim(0);
    void *volatile p = fh_heap_malloc(h, 100);
    (void)p;
}

static void part_used_after(void) {
    fh_heap *volatile h = fh_heap_new(NULL);
    fh_heap_destroy(h);
    void *volatile p = fh_heap_malloc(h, 10);
    (void)p;
}

static void *use_private(void *h) {
    return fh_heap_malloc(h, 10);
}

static void part_other_thread(void) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, use_private, fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_PRIVATE})),
          "no thread");
    pthread_join(thread, NULL);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*part)(void);
    } parts[] = {{"blocks", part_blocks},
                 {"reused", part_reused},
                 {"threads", part_threads},
                 {"tree", part_tree},
                 {"recovers", part_recovers},
                 {"parent", part_parent},
                 {"callback", part_callback},
                 {"asked", part_asked},
                 {"asked_in_vain", part_asked_in_vain},
                 {"small", part_small},
                 {"twice", part_twice},
                 {"twice_extent", part_twice_extent},
                 {"twice_large", part_twice_large},
                 {"inside", part_inside},
                 {"after", part_after},
                 {"destroyed_twice", part_destroyed_twice},
                 {"used_after", part_used_after},
                 {"used_after_bounded", part_used_after_bounded},
                 {"used_after_grown", part_used_after_grown},
                 {"used_after_large", part_used_after_large},
                 {"used_after_frame", part_used_after_frame},
                 {"used_after_trim", part_used_after_trim},
                 {"other_thread", part_other_thread}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (count == 2 && !strcmp(words[1], parts[i].name)) {
            parts[i].part();
            return 0;
        }
    }
    CHECK(0, "usage: heaps PART");
}
