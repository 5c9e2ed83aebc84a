/* COUNT blocks of 48 bytes out of a heap, for counting instructions: heap-price FORM COUNT. The loop of form `empty` is the
 * others' without the block. */
#include <freehold/freehold.h>
#include <freehold/heap.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* One of 20,000 blocks is replaced by another, of another size. */
static void run_long(size_t count) {
    enum { LIVE = 20000 };
    static void *live[LIVE];
    uint64_t random = 1;
    for (size_t i = 0; i < LIVE; i++) live[i] = fh_heap_malloc(heap, SIZE);
    for (; count > 0; count--) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        void **at = &live[(random >> 33) % LIVE];
        fh_free(*at);
        *at = fh_heap_malloc(heap, (size_t)(random >> 20 & 1023) + 1);
    }
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
                 {"long", run_long, 0},
                 {"sized", run_pair, FH_HEAP_SIZES},
                 {"frame", run_frame, FH_HEAP_PRIVATE},
                 {"type", run_type, 0}};
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
