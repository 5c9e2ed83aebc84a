/* COUNT blocks of 48 bytes out of a heap, for counting instructions: heap-price FORM COUNT. The loop of form `empty` is the
 * others' without the block. heap-price time: what to replace one of 20,000 blocks takes, in a heap and by malloc. */
#define _POSIX_C_SOURCE 200809L
#include <freehold/freehold.h>
#include <freehold/heap.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 48, FRAME = 1000 };

static fh_heap *heap;

#define HIDE(p) __asm__ volatile("" : "+r"(p)::"memory")

static void run_empty(size_t count) {
    for (; count > 0; count--) {
        void *p = &count;
        HIDE(p);
    }
}

static void run_pair(size_t count) {
    for (; count > 0; count--) {
        void *p = fh_heap_malloc(heap, SIZE);
        HIDE(p);
        fh_free(p);
    }
}

/* The same in a heap whose units are used up: from extents. */
static void run_grown(size_t count) {
    for (size_t i = 0; i < 4000; i++) {
        if (!fh_heap_malloc(heap, SIZE)) abort();
    }
    run_pair(count);
}

/* The same by plain malloc, in a scope. */
static void run_scoped(size_t count) {
    run_grown(0);
    if (fh_heap_enter(heap) != 0) abort();
    for (; count > 0; count--) {
        void *volatile p = fh_malloc(SIZE);
        fh_free(p);
    }
    if (fh_heap_leave() != 0) abort();
}

enum { LIVE = 20000 };
static void *live[LIVE];

/* One of 20,000 blocks is replaced by another, of another size. */
static void run_long(size_t count) {
    uint64_t random = 1;
    for (size_t i = 0; i < LIVE; i++) live[i] = fh_heap_malloc(heap, SIZE);
    for (; count > 0; count--) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        void **at = &live[(random >> 33) % LIVE];
        fh_free(*at);
        *at = fh_heap_malloc(heap, (size_t)(random >> 20 & 1023) + 1);
    }
}

/* ── In time ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The same. h: NULL is malloc. touch: the block is written, and 16 others are read. Returns nanoseconds a block. */
static double replace(fh_heap *h, bool touch, size_t count) {
    uint64_t random = 1;
    unsigned sum = 0;
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (size_t i = 0; i < count; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        void **at = &live[(random >> 33) % LIVE];
        size_t n = (size_t)(random >> 20 & 1023) + 1;
        fh_free(*at);
        *at = h ? fh_heap_malloc(h, n) : fh_malloc(n);
        if (!touch) continue;
        memset(*at, (int)i, n);
        for (unsigned j = 0; j < 16; j++) {
            const unsigned char *other = live[(random >> j * 2) % LIVE];
            if (other) sum += *other;
        }
    }
    HIDE(sum);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / (double)count;
}

static double time_of(fh_heap *h, bool touch) {
    (void)replace(h, false, 100000); /* all are there */
    double each = replace(h, touch, 2000000);
    for (size_t i = 0; i < LIVE; i++) {
        fh_free(live[i]);
        live[i] = NULL;
    }
    return each;
}

static int print_times(void) {
    for (int turn = 0; turn < 8; turn++) {
        bool touch = turn % 2 != 0;
        fh_heap *h = fh_heap_new(NULL);
        double by_malloc = time_of(NULL, touch), of_heap = time_of(h, touch);
        printf("%s: %.1f ns by malloc, %.1f in a heap: %.2f times\n", touch ? "used" : "replaced", by_malloc, of_heap,
               of_heap / by_malloc);
        if (!h || fh_heap_destroy(h) != 0) return 1;
    }
    return 0;
}

/* Blocks that hold pointers are in no heap, but in no cache either. */
static void run_type(size_t count) {
    for (; count > 0; count--) {
        void *p = fh_malloc_type(SIZE, FH_TYPE_POINTERS);
        HIDE(p);
        fh_free(p);
    }
}

/* A thousand blocks a frame. */
static void run_frame(size_t count) {
    fh_heap *h = heap;
    for (; count >= FRAME; count -= FRAME) {
        fh_heap_mark mark = fh_mark(h);
        for (size_t i = 0; i < FRAME; i++) {
            void *p = fh_frame_malloc(h, SIZE);
            HIDE(p);
        }
        if (fh_release_to(h, mark) != 0) abort();
    }
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(size_t count);
        unsigned flags;
    } forms[] = {{"empty", run_empty, 0},
                 {"shared", run_pair, 0},
                 {"private", run_pair, FH_HEAP_PRIVATE},
                 {"grown", run_grown, 0},
                 {"scoped", run_scoped, 0},
                 {"long", run_long, 0},
                 {"sized", run_pair, FH_HEAP_SIZES},
                 {"frame", run_frame, FH_HEAP_PRIVATE},
                 {"type", run_type, 0}};
    if (count == 2 && strcmp(arguments[1], "time") == 0) return print_times();
    if (count != 3) return 2;
    size_t blocks = strtoull(arguments[2], NULL, 10);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(arguments[1], forms[i].name) != 0) continue;
        heap = fh_heap_new(&(fh_heap_options){.flags = forms[i].flags});
        if (!heap) return 1;
        forms[i].run(blocks);
        return fh_heap_destroy(heap) != 0;
    }
    return 2;
}
