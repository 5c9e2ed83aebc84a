// SPDX-License-Identifier: MIT OR Apache-2.0
// A few live blocks of several MiB, sizes random over a range of five; one picked at random is replaced by one of
// another size, which is written whole. Images, columns, tensors, message batches.
//
// An allocator that maps each such block and unmaps it again pays a page fault for every 4 KiB that is written. One
// that keeps memory only for blocks of the same size does the same here, because no size comes twice.
// The figure is that of the replacements alone; the heap is filled before the clock starts.
// Arguments: live= blocks of a thread, min= and max= bytes, log=1 makes each doubling equally likely, total= bytes that
// a thread has at most, n= replacements for all threads together, realloc= per cent of them by realloc, threads=, seed=.
#include "large.h"

static const struct bench_variant variants[] = {
    {"huge-replace-2-10MiB", "live=20 min=2m max=10m n=500", "quick"},
    {"huge-replace-3-15MiB", "live=16 min=3m max=15m n=1000", "full"},
    {"huge-replace-4t", "live=16 min=3m max=15m n=1000 threads=4", "full"},
    {"huge-replace-4-20MiB", "live=20 min=4m max=20m n=500", "full"},
    {"huge-replace-64KiB-256MiB", "live=20 min=64k max=256m log=1 total=400m n=400", "full"},
    {"huge-replace-realloc", "live=16 min=3m max=15m n=1000 realloc=30", "full"},
    {"huge-replace-8t", "live=7 min=2m max=10m n=480 threads=8", "quick"},
    {"huge-replace-8t-across", "live=20 min=768k max=3840k n=2000 threads=8", "full"},
};

static struct {
    struct large *table;
    struct bench_rng rngs[BENCH_MAX_THREADS];
    uint32_t live, min, max, by_realloc;
    uint64_t each, total;
    bool is_log;
} all;

// A size that fits into the room, which is never below min. A larger one is halved until it fits.
static size_t pick_size(struct bench_rng *rng, uint64_t room) {
    size_t size = all.is_log ? large_log_between(rng, all.min, all.max) : bench_between(rng, all.min, all.max);
    while (size > room) {
        size = size / 2 > all.min ? size / 2 : all.min;
    }
    return size;
}

static void fill(void *context, unsigned index) {
    (void)context;
    struct large *table = all.table + (size_t)index * all.live;
    uint64_t live = 0;
    for (uint32_t i = 0; i < all.live; i++) {
        // The smallest size is kept free for each block that is still to come.
        uint64_t room = all.total - live - (uint64_t)(all.live - 1 - i) * all.min;
        table[i] = large_take(pick_size(&all.rngs[index], room), (uint8_t)i);
        live += table[i].size;
    }
    bench_tallies[index].live = live;
    large_live_add(live);
}

// What the block had before must still be there; then all of it is written again.
static struct large resize(struct large block, size_t size, uint8_t stamp) {
    uint8_t *bytes = (uint8_t *)realloc(block.bytes, size);
    if (bytes == NULL) {
        bench_fail("huge_replace: realloc(%zu) failed", size);
    }
    size_t kept = size < block.size ? size : block.size;
    uint8_t last = size < block.size ? stamp : (uint8_t)(stamp ^ 0xa5);
    if (bytes[0] != stamp || bytes[kept - 1] != last) {
        bench_fail("huge_replace: realloc from %zu to %zu lost bytes", block.size, size);
    }
    block = (struct large){bytes, size};
    large_write(block, stamp);
    return block;
}

static void replace(void *context, unsigned index) {
    (void)context;
    struct large *table = all.table + (size_t)index * all.live;
    struct bench_rng rng = all.rngs[index];
    uint64_t sum = 0, live = bench_tallies[index].live;
    for (uint64_t i = 0; i < all.each; i++) {
        uint32_t at = bench_below(&rng, all.live);
        struct large *block = &table[at];
        size_t old = block->size, size = pick_size(&rng, all.total - (live - old));
        if (bench_below(&rng, 100) < all.by_realloc) {
            sum += large_verify(*block, (uint8_t)at);
            *block = resize(*block, size, (uint8_t)at);
        } else {
            sum += large_give(*block, (uint8_t)at);
            *block = large_take(size, (uint8_t)at);
        }
        live += size - old;
        large_live_add(size - old);
    }
    bench_tallies[index].sum = sum;
}

static void empty(void *context, unsigned index) {
    (void)context;
    struct large *table = all.table + (size_t)index * all.live;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < all.live; i++) {
        sum += large_give(table[i], (uint8_t)i);
    }
    bench_tallies[index].sum += sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 1);
    if (threads == 0 || threads > BENCH_MAX_THREADS) {
        bench_fail("huge_replace: 1 to %d threads", BENCH_MAX_THREADS);
    }
    all.live = (uint32_t)bench_arg("live", 20);
    all.min = (uint32_t)bench_arg("min", 2 << 20);
    all.max = (uint32_t)bench_arg("max", 10 << 20);
    all.by_realloc = (uint32_t)bench_arg("realloc", 0);
    all.is_log = bench_arg("log", 0) != 0;
    all.each = bench_arg("n", 500) / threads;
    all.total = bench_arg("total", (uint64_t)all.live * all.max);
    if (all.live == 0 || all.min == 0 || all.max < all.min || all.total < (uint64_t)all.live * all.min) {
        bench_fail("huge_replace: one block at least, min at most max, total at least live * min");
    }
    all.table = (struct large *)bench_map((size_t)all.live * threads * sizeof(struct large));
    for (unsigned i = 0; i < threads; i++) {
        all.rngs[i] = bench_rng_make(bench_arg("seed", 1), i);
    }
    struct bench_plan plan = {.prepare = fill, .work = replace, .clean = empty};
    bench_team_run(threads, &plan, all.each * threads);
    bench_live(large_live.peak);
    return bench_finish(bench_tally_sum(threads));
}
