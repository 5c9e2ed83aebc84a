// SPDX-License-Identifier: MIT OR Apache-2.0
// A long-running program whose sizes drift: over 60 phases from 32–128 bytes to 512–2,048 and on to 8–64 KiB.
// Each phase allocates a fixed volume, and of its blocks one in twenty survives to the end. Memory that was
// cut for the small blocks must serve the larger ones later; resident memory over live memory tells how well
// that went.
//
// Arguments: volume= bytes of a phase, phases=, seed=.
#include "bench.h"

#include <math.h>

static const struct bench_variant variants[] = {
    {"drift-small", "volume=16m phases=60", "quick"},
    {"drift", "volume=96m phases=60", "full"},
};

// The range of a phase: two stretches of equal ratios, each over half of the phases.
static void range_of(uint64_t phase, uint64_t phases, uint32_t *min, uint32_t *max) {
    double at = phases > 1 ? 2.0 * (double)phase / (double)(phases - 1) : 0;
    if (at <= 1) {
        *min = (uint32_t)(32 * pow(512.0 / 32, at));
        *max = (uint32_t)(128 * pow(2048.0 / 128, at));
    } else {
        *min = (uint32_t)(512 * pow(8192.0 / 512, at - 1));
        *max = (uint32_t)(2048 * pow(65535.0 / 2048, at - 1));
    }
}

struct heap {
    bench_slot *slots, *survivors;
    uint64_t survivor_count, live, sum;
};

static uint64_t run_phase(struct heap *heap, struct bench_rng *rng, uint64_t volume, uint32_t min, uint32_t max) {
    uint64_t made = 0, count = 0;
    bench_clock_start();
    while (made < volume) {
        uint32_t size = bench_between(rng, min, max);
        uint8_t *block = (uint8_t *)bench_take(size, (uint8_t)size);
        for (uint32_t at = 4096; at + 1 < size; at += 4096) {
            block[at] = 1;
        }
        heap->slots[count++] = bench_pack(block, size);
        made += size;
    }
    bench_live(heap->live + made);
    for (uint64_t i = 0; i < count; i++) {
        if (bench_below(rng, 20) == 0) {
            heap->survivors[heap->survivor_count++] = heap->slots[i];
            heap->live += bench_slot_size(heap->slots[i]);
        } else {
            heap->sum += bench_give_slot(heap->slots[i], (uint8_t)bench_slot_size(heap->slots[i]));
        }
    }
    bench_clock_stop(count);
    return count;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    uint64_t volume = bench_arg("volume", 64 << 20), phases = bench_arg("phases", 60), ops = 0;
    struct heap heap = {0};
    // Room for the smallest sizes: 32 bytes at least in every phase, twice the expected number of survivors.
    heap.slots = (bench_slot *)bench_map((volume / 32 + 1) * sizeof(bench_slot));
    heap.survivors = (bench_slot *)bench_map((volume / 64 / 10 * phases + 4096) * sizeof(bench_slot));
    struct bench_rng rng = bench_rng_make(bench_arg("seed", 1), 0);
    for (uint64_t phase = 0; phase < phases; phase++) {
        uint32_t min, max;
        range_of(phase, phases, &min, &max);
        ops += run_phase(&heap, &rng, volume, min, max);
        bench_series_point();
    }
    uint64_t own = bench_own_bytes, resident = bench_rss();
    bench_print("live@drifted %" PRIu64 "\n", heap.live);
    bench_print("rss_over_live %.3f\n", (double)(resident > own ? resident - own : 0) / (double)heap.live);
    bench_moment("drifted");
    bench_series_wait(0.2, 0.1);
    bench_moment("drifted_0.2s");
    for (uint64_t i = 0; i < heap.survivor_count; i++) {
        heap.sum += bench_give_slot(heap.survivors[i], (uint8_t)bench_slot_size(heap.survivors[i]));
    }
    bench_series_print("rss");
    return bench_finish(heap.sum + ops);
}
