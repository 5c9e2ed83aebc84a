// SPDX-License-Identifier: MIT OR Apache-2.0
// Zeroed blocks that are kept and not used yet: tables sized for the worst day, sparse arrays, arenas, bitmaps. The heap
// has freed memory that was written before, so an allocator may give that and clear it, or take pages that the kernel
// clears only when they are touched.
//
// rss@kept is what the untouched blocks cost; rss@written and rss@emptied say what the heap had before. The same of the
// last round begin with "last_". A block is read, and written at both ends, just before it is freed. With untouched=1 it
// is only read, so that no page of it was ever written.
// Arguments: dirty= bytes written and freed in each round, kept= bytes by calloc, min= and max= bytes of a block, each
// doubling equally likely, rounds=, untouched=1, seed=.
#include "large.h"

static const struct bench_variant variants[] = {
    {"calloc-kept", "dirty=64m kept=512m min=125000 max=4000000 rounds=8", "quick"},
    {"calloc-kept-100000", "dirty=64m kept=512m min=100000 max=100000 rounds=8", "full"},
    {"calloc-kept-1g", "dirty=256m kept=1024m min=125000 max=4000000 rounds=8", "full"},
    {"calloc-kept-untouched", "dirty=64m kept=512m min=125000 max=4000000 rounds=8 untouched=1", "full"},
};

struct heap {
    struct large *table;
    uint32_t count, min, max;
    uint64_t live, sum, ops;
    struct bench_rng rng;
    bool untouched;
};

static void dirty(struct heap *heap, uint64_t bytes) {
    while (heap->live < bytes) {
        size_t size = large_log_between(&heap->rng, heap->min, heap->max);
        heap->table[heap->count++] = large_take(size, (uint8_t)size);
        heap->live += size;
    }
    heap->ops += heap->count;
}

// In random order, so that what is free is in pieces for a while.
static void clear(struct heap *heap) {
    while (heap->count > 0) {
        struct large *picked = &heap->table[bench_below(&heap->rng, heap->count)];
        heap->sum += large_give(*picked, (uint8_t)picked->size);
        *picked = heap->table[--heap->count];
    }
    heap->live = 0;
}

static void keep(struct heap *heap, uint64_t bytes) {
    while (heap->live < bytes) {
        size_t size = large_log_between(&heap->rng, heap->min, heap->max);
        void *block = calloc(1, size);
        if (block == NULL) {
            bench_fail("calloc_kept: calloc(%zu) failed", size);
        }
        heap->table[heap->count++] = (struct large){(uint8_t *)block, size};
        heap->live += size;
    }
    heap->ops += heap->count;
}

// Both ends and a byte somewhere between must be zero.
static void release(struct heap *heap) {
    for (uint32_t i = 0; i < heap->count; i++) {
        struct large block = heap->table[i];
        const volatile uint8_t *bytes = block.bytes;
        uint32_t between = bench_below(&heap->rng, (uint32_t)block.size);
        if (bytes[0] != 0 || bytes[between] != 0 || bytes[block.size - 1] != 0) {
            bench_fail("calloc_kept: block %p of %zu is not zero", (void *)block.bytes, block.size);
        }
        heap->sum += block.size;
        if (!heap->untouched) {
            bench_stamp(block.bytes, block.size, (uint8_t)i);
            heap->sum += bench_verify(block.bytes, block.size, (uint8_t)i);
        }
        free(block.bytes);
    }
    heap->count = 0;
    heap->live = 0;
}

// With moments, says what is resident after each part; the clock is stopped meanwhile.
static void run_round(struct heap *heap, uint64_t dirty_bytes, uint64_t kept_bytes, const char *const moments[3]) {
    for (int part = 0; part < 3; part++) {
        bench_clock_start();
        if (part == 0) {
            dirty(heap, dirty_bytes);
        } else if (part == 1) {
            clear(heap);
        } else {
            keep(heap, kept_bytes);
        }
        bench_clock_stop(0);
        bench_live(heap->live);
        if (moments != NULL) {
            bench_moment(moments[part]);
        }
    }
    bench_clock_start();
    release(heap);
    bench_clock_stop(0);
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    uint64_t dirty_bytes = bench_arg("dirty", 64 << 20), kept_bytes = bench_arg("kept", 512 << 20);
    uint64_t rounds = bench_arg("rounds", 8), most = dirty_bytes > kept_bytes ? dirty_bytes : kept_bytes;
    struct heap heap = {.min = (uint32_t)bench_arg("min", 100000), .max = (uint32_t)bench_arg("max", 4 << 20)};
    if (heap.min == 0 || heap.max < heap.min) {
        bench_fail("calloc_kept: min is 1 at least and max at most");
    }
    heap.untouched = bench_arg("untouched", 0) != 0;
    heap.rng = bench_rng_make(bench_arg("seed", 1), 0);
    heap.table = (struct large *)bench_map((most / heap.min + 1) * sizeof(struct large));
    static const char *const first[] = {"written", "emptied", "kept"};
    static const char *const last[] = {"last_written", "last_emptied", "last_kept"};
    for (uint64_t i = 0; i < rounds; i++) {
        run_round(&heap, dirty_bytes, kept_bytes, i == 0 ? first : i + 1 == rounds ? last : NULL);
    }
    bench_clock.ops = heap.ops;
    return bench_finish(heap.sum);
}
