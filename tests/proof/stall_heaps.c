/* A thread in a heap of the embedding API is stopped: other threads go on, in that heap and elsewhere. */
#include "stall.h"

#include "heap/use.h"

#include "freehold/heap.h"

#include <pthread.h>

/* What a heap of these has at most; it stays where its thread is stopped. */
#define MOST ((size_t)6 << 20)

static fh_heap *shared_heap;

static int free_nothing(fh_heap *h, size_t wanted, int hard, void *arg) {
    (void)h, (void)wanted, (void)hard, (void)arg;
    return 0;
}

void stall_heap_before(void) {
    __atomic_fetch_add(&stall_live, MOST, __ATOMIC_RELAXED);
    shared_heap =
        fh_heap_new(&(fh_heap_options){.soft_limit = MOST / 8, .hard_limit = MOST / 2, .callback = free_nothing});
    CHECK(shared_heap, "no heap");
}

/* Blocks of each kind in the shared heap: of units, of extents, large ones, more than there may be; and back. */
void stall_heap_blocks(void) {
    static const size_t sizes[] = {40, 1000, 900, 3000, 3000, 20000, 20000, 60000, 300000, 1, 4000000, 200, 700};
    void *block[sizeof sizes / sizeof *sizes][12];
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (unsigned k = 0; k < 12; k++) block[i][k] = fh_heap_malloc(shared_heap, sizes[i]);
            block[i][0] = block[i][0] ? fh_heap_realloc(shared_heap, block[i][0], 2 * sizes[i]) : NULL;
        }
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (unsigned k = 0; k < 12; k++) fh_free(block[i][k]);
        }
    }
}

/* One that has grown and has room: threads keep blocks of it. */
void stall_stripes_before(void) {
    enum { GROWN = 500, SIZE = 1000 };
    __atomic_fetch_add(&stall_live, MOST, __ATOMIC_RELAXED);
    shared_heap = fh_heap_new(NULL);
    for (unsigned i = 0; i < GROWN; i++) CHECK(fh_heap_malloc(shared_heap, SIZE), "no block");
}

/* More than a stripe keeps, and back. */
void stall_stripes(void) {
    void *block[30];
    for (unsigned i = 0; i < 30; i++) block[i] = fh_heap_malloc(shared_heap, 1000);
    for (unsigned i = 0; i < 30; i++) fh_free(block[i]);
    for (unsigned i = 0; i < 4; i++) fh_free(fh_heap_malloc(shared_heap, 1000));
}

static void *keeps(void *h) {
    stall_is_victim = 1;
    void *p = fh_heap_malloc(h, 3000), *q = fh_heap_malloc(h, 3000);
    fh_free(p);
    fh_free(q);
    return NULL;
}

/* Stripes from their beginning to their end: of threads that end and those that come after them, near a limit and at it, and again
 * without one. */
void stall_stripes_life(void) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.hard_limit = (size_t)6 << 20, .callback = free_nothing});
    if (!h) return;
    void *first = NULL, *p = fh_heap_malloc(h, 60000);
    for (unsigned i = 0; i < 2; i++) {
        pthread_t thread;
        (void)keeps(h);
        if (pthread_create(&thread, NULL, keeps, h) == 0) pthread_join(thread, NULL);
    }
    for (; p; p = fh_heap_malloc(h, 60000)) {
        *(void **)p = first;
        first = p;
    }
    (void)keeps(h);
    for (; first; first = p) {
        p = *(void **)first;
        fh_free(first);
    }
    (void)fh_heap_limit(h, 0, 0);
    (void)keeps(h);
    (void)fh_heap_destroy(h);
}

/* A large block of a type-stable heap stays until the heap ends. */
void stall_stable_large(void) {
    fh_heap_figures figures;
    fh_heap *h = fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_TYPE_STABLE});
    if (!h) return;
    for (unsigned i = 0; i < 2; i++) fh_free(fh_heap_malloc(h, 100000));
    (void)fh_heap_stats(h, &figures);
    for (unsigned i = 0; i < 3 && fh_heap_destroy(h) != 0; i++) {
    }
}

/* A bounded heap, of which there are few slabs. */
void stall_bounded_before(void) {
    __atomic_fetch_add(&stall_live, MOST, __ATOMIC_RELAXED);
    shared_heap = fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_BOUNDED, .hard_limit = MOST / 6});
    CHECK(shared_heap, "no heap");
}

static void count_one(void *p, size_t size, void *arg) {
    (void)p, (void)size;
    ++*(size_t *)arg;
}

/* Blocks of each kind, more than there may be, whose slabs are of another class afterwards; and a walk. */
void stall_bounded_blocks(void) {
    static const size_t sizes[] = {40, 30000, 30000, 100000, 1000, 200000, 5000, 60000, 3000000};
    void *block[sizeof sizes / sizeof *sizes][8];
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (unsigned k = 0; k < 8; k++) block[i][k] = fh_heap_malloc(shared_heap, sizes[i]);
        }
        size_t met = 0;
        (void)fh_heap_walk(shared_heap, count_one, &met);
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) (void)fh_malloc_usable_size(block[i][0]);
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (unsigned k = 0; k < 8; k++) fh_free(block[i][k]);
        }
    }
}

void stall_bounded_life(void) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_BOUNDED, .hard_limit = MOST / 6});
    if (!h) return;
    fh_heap_figures figures;
    void *block = NULL;
    for (unsigned i = 0; i < 3; i++) block = fh_heap_malloc(h, 100 + 40000 * (size_t)i);
    fh_free(block);
    (void)fh_heap_stats(h, &figures);
    (void)fh_heap_reset(h);
    block = fh_heap_malloc(h, 100); /* goes with the heap */
    (void)fh_heap_destroy(h);
}

static void nothing(void *arg) {
    (void)arg;
}

static void *ends_in_scope(void *h) {
    stall_is_victim = 1;
    if (fh_heap_enter(h) == 0) fh_free(fh_malloc(100));
    return NULL;
}

/* Plain calls in a scope of the shared heap, also by a thread that ends in it. */
void stall_heap_scope(void) {
    pthread_t thread;
    if (fh_heap_enter(shared_heap) != 0) return;
    void *p = fh_malloc(100), *large = fh_calloc(1, 100000), *aligned = fh_aligned_alloc(4096, 100);
    fh_heap_enter(shared_heap);
    fh_free(p);
    fh_heap_leave();
    fh_free(large);
    fh_free(aligned);
    fh_heap_leave();
    fh_free(fh_malloc(100));
    CHECK(pthread_create(&thread, NULL, ends_in_scope, shared_heap) == 0, "no thread");
    pthread_join(thread, NULL);
}

/* As checked builds do around a call, and around the end of the heap. */
static void mark_a_call(fh_heap *h) {
    fh_use_open(h);
    fh_word *use = fh_use_begin("fh_heap_malloc", h, h);
    if (use) fh_use_end(use);
    if (fh_use_close("fh_heap_reset", h)) fh_use_open(h);
}

/* A heap below it, from its beginning to its end. */
void stall_heap_life(void) {
    fh_heap_figures figures;
    fh_heap_totals totals;
    fh_heap *h = fh_heap_new(&(fh_heap_options){.parent = shared_heap});
    if (!h) return;
    for (unsigned i = 0; i < 100; i++) (void)fh_heap_of(fh_heap_malloc(h, 30 * i));
    (void)fh_heap_of(fh_heap_malloc(h, 200000));
    fh_heap_stats(h, &figures);
    fh_heap *below = fh_heap_new(&(fh_heap_options){.parent = h, .flags = FH_HEAP_SIZES});
    if (below && fh_heap_malloc(below, 100)) fh_heap_stats_below(h, &totals);
    fh_heap_destroy(below);
    const fh_heap_options too_large = {.parent = h, .flags = FH_HEAP_BOUNDED, .hard_limit = 2 * MOST};
    CHECK(!fh_heap_new(&too_large), "a bounded heap has more than the heap above it may have");
    mark_a_call(h);
    for (unsigned i = 0; i < 3; i++) fh_heap_on_destroy(h, nothing, NULL);
    fh_heap_limit(h, 0, 0);
    fh_heap_reset(h);
    fh_heap_destroy(h);
}

/* A heap without atomic instructions, which uses its units up; of memory that another one had. */
void stall_heap_private(void) {
    static void *block[1200];
    for (unsigned turn = 0; turn < 2; turn++) {
        fh_heap *h = fh_heap_new(&(fh_heap_options){.parent = shared_heap, .flags = FH_HEAP_PRIVATE});
        if (!h) return;
        if (fh_heap_enter(h) == 0) (void)fh_heap_leave();
        for (unsigned i = 0; i < 1200; i++) block[i] = fh_heap_malloc(h, 64);
        for (unsigned i = 0; i < 1200; i++) fh_free(block[i]);
        fh_heap_destroy(h);
    }
}

/* ── Heaps with spans ────────────────────────────────────────────────────────────────────────────────────────────── */

static fh_heap *spans_heap;

void stall_spans_before(void) {
    stall_heap_before();
    spans_heap = fh_heap_new(&(fh_heap_options){.parent = shared_heap, .flags = FH_HEAP_NO_DUMP | FH_HEAP_POPULATE});
    CHECK(spans_heap, "no heap");
}

/* More slots than a span has, and a piece of its own; and back. */
void stall_spans_blocks(void) {
    void *block[12], *piece = fh_heap_malloc(spans_heap, 1200000);
    for (unsigned i = 0; i < 12; i++) block[i] = fh_heap_malloc(spans_heap, 200000);
    (void)fh_heap_of(piece);
    for (unsigned i = 0; i < 12; i++) fh_free(block[i]);
    fh_free(piece);
}

/* One more of these, from its beginning to its end. */
void stall_spans_life(void) {
    fh_heap_figures figures;
    fh_heap *h = fh_heap_new(&(fh_heap_options){.name = "named", .flags = FH_HEAP_NAMED | FH_HEAP_HUGE});
    if (!h) return;
    for (unsigned i = 0; i < 12; i++) (void)fh_heap_of(fh_heap_malloc(h, 300000));
    (void)fh_heap_of(fh_heap_malloc(h, 1200000));
    fh_heap_stats(h, &figures);
    fh_heap_reset(h);
    fh_heap_destroy(h);
}

/* ── Heaps over memory from callbacks ────────────────────────────────────────────────────────────────────────────── */

static _Alignas(65536) char source[24 << 20];
static size_t sourced;
static fh_heap *paged_heap;

static void *get_pages(void *arg, size_t size, size_t alignment) {
    (void)arg, (void)alignment;
    size_t at = __atomic_fetch_add(&sourced, size, __ATOMIC_RELAXED);
    if (at + size <= sizeof source) return source + at;
    __atomic_fetch_sub(&sourced, size, __ATOMIC_RELAXED);
    return NULL;
}

static void not_needed(void *arg, void *p, size_t size) {
    (void)arg, (void)p, (void)size;
}

/* The newest one can be given again. */
static void give_back(void *arg, void *p, size_t size) {
    (void)arg;
    size_t end = (size_t)((char *)p - source) + size, begin = end - size;
    (void)__atomic_compare_exchange_n(&sourced, &end, begin, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static const fh_heap_pages pages = {get_pages, not_needed, give_back, NULL};

void stall_paged_before(void) {
    stall_heap_before();
    paged_heap = fh_heap_new(&(fh_heap_options){.pages = &pages});
    CHECK(paged_heap, "no heap");
}

/* More than a region has, until the callback has no more; and back. */
void stall_paged_blocks(void) {
    void *block[12];
    for (unsigned i = 0; i < 12; i++) block[i] = fh_heap_malloc(paged_heap, i % 2 ? 3000 : 400000);
    for (unsigned i = 0; i < 12; i++) fh_free(block[i]);
}

/* Another one, whose limit is in the way, from its beginning to its end. */
void stall_paged_life(void) {
    fh_heap_figures figures;
    fh_heap *h = fh_heap_new(&(fh_heap_options){.pages = &pages, .hard_limit = 2 << 20});
    if (!h) return;
    for (unsigned i = 0; i < 6; i++) (void)fh_heap_of(fh_heap_malloc(h, 500000));
    fh_heap_stats(h, &figures);
    fh_heap_reset(h);
    fh_free(fh_heap_malloc(h, 100));
    fh_heap_destroy(h);
}

/* ── Given memory, and what ends with a heap ─────────────────────────────────────────────────────────────────────── */

static char given_memory[256 << 10], other_memory[64 << 10];
static fh_heap *given_heap;

void stall_given_before(void) {
    stall_heap_before();
    given_heap = fh_heap_new(&(fh_heap_options){.memory = given_memory, .memory_size = sizeof given_memory});
    CHECK(given_heap, "no heap");
}

/* Blocks within a word and of several, until it is full; and back. */
void stall_given_blocks(void) {
    static const size_t sizes[] = {40, 1000, 5000, 30000, 100000};
    void *block[sizeof sizes / sizeof *sizes][6];
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (unsigned k = 0; k < 6; k++) block[i][k] = fh_heap_malloc(given_heap, sizes[i]);
        if (block[i][1]) (void)fh_heap_of((char *)block[i][1] + sizes[i] - 1);
        if (block[i][0]) block[i][0] = fh_heap_realloc(given_heap, block[i][0], 2 * sizes[i]);
    }
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (unsigned k = 0; k < 6; k++) fh_free(block[i][k]);
    }
}

/* A heap over other memory, with a scope and a callback, from its beginning to its end. */
void stall_given_life(void) {
    fh_heap_figures figures;
    fh_heap *h = fh_heap_new(&(fh_heap_options){.memory = other_memory, .memory_size = sizeof other_memory});
    if (!h) return;
    (void)fh_heap_on_destroy(h, nothing, NULL);
    if (fh_heap_enter(h) == 0) {
        fh_free(fh_malloc(100));
        (void)fh_heap_reset(h);
        (void)fh_heap_leave();
    }
    (void)fh_heap_of(fh_heap_malloc(h, 3000));
    fh_heap_stats(h, &figures);
    fh_heap_reset(h);
    fh_heap_destroy(h);
}
