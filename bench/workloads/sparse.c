// SPDX-License-Identifier: MIT OR Apache-2.0
// A heap of which one block in a hundred is still alive, spread at random, and which then has to hold blocks
// of other sizes: a cache that was emptied, a session store after the rush. Nearly every page has a live
// block on it.
//
// Arguments: total= bytes at first, then= bytes of other sizes afterwards, alive= one in so many stays,
// seed=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"sparse-128m", "total=128m then=64m alive=100", "quick"},
    {"sparse-1g", "total=1024m then=512m alive=100", "full"},
};

struct heap {
    bench_slot *slots;
    uint32_t count;
    uint64_t live, sum;
};

static void fill(struct heap *heap, uint64_t bytes, uint32_t min, uint32_t max, struct bench_rng *rng) {
    uint64_t made = 0;
    bench_clock_start();
    for (heap->count = 0; made < bytes; heap->count++) {
        uint32_t size = bench_between(rng, min, max);
        heap->slots[heap->count] = bench_take_slot(size, (uint8_t)size);
        made += size;
    }
    bench_clock_stop(heap->count);
    heap->live += made;
}

// Frees all but one in so many, in random order: the live ones are gathered at the front of the table.
static void thin_out(struct heap *heap, uint32_t alive, struct bench_rng *rng) {
    for (uint32_t i = heap->count; i > 1; i--) {
        uint32_t at = bench_below(rng, i);
        bench_slot slot = heap->slots[i - 1];
        heap->slots[i - 1] = heap->slots[at];
        heap->slots[at] = slot;
    }
    uint32_t keep = alive != 0 ? heap->count / alive : 0;
    bench_clock_start();
    for (uint32_t i = keep; i < heap->count; i++) {
        heap->live -= bench_slot_size(heap->slots[i]);
        heap->sum += bench_give_slot(heap->slots[i], (uint8_t)bench_slot_size(heap->slots[i]));
    }
    bench_clock_stop(heap->count - keep);
    heap->count = keep;
}

static void report(const char *moment, uint64_t live) {
    uint64_t resident = bench_rss();
    bench_moment(moment);
    bench_print("live@%s %" PRIu64 "\n", moment, live);
    bench_print("rss_over_live@%s %.3f\n", moment, (double)(resident - bench_own_bytes) / (double)live);
    bench_series_point();
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    uint64_t total = bench_arg("total", 1024u << 20), then = bench_arg("then", 512 << 20);
    uint32_t alive = (uint32_t)bench_arg("alive", 100);
    struct bench_rng rng = bench_rng_make(bench_arg("seed", 1), 0);
    struct heap first = {.slots = (bench_slot *)bench_map((total / 64 + 1) * sizeof(bench_slot))};
    struct heap second = {.slots = (bench_slot *)bench_map((then / 300 + 1) * sizeof(bench_slot))};
    fill(&first, total, 64, 256, &rng);
    bench_live(first.live);
    report("filled", first.live);
    thin_out(&first, alive, &rng);
    report("sparse", first.live);
    bench_series_wait(0.2, 0.05);
    report("sparse_0.2s", first.live);
    fill(&second, then, 300, 2000, &rng);
    bench_live(first.live + second.live);
    report("refilled", first.live + second.live);
    thin_out(&second, 0, &rng);
    thin_out(&first, 0, &rng);
    bench_series_print("rss");
    return bench_finish(first.sum + second.sum);
}
