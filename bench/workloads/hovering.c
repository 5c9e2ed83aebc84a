// SPDX-License-Identifier: MIT OR Apache-2.0
// A heap that hovers: its live bytes go up and down between 60 and 100 MiB in teeth of 50 ms to 2 s. Blocks have skewed
// sizes, and random ones are freed. Servers between two peaks are like this, and so are caches that are trimmed.
//
// An allocator that returns what is free pays for each page again in the next tooth; one that keeps everything has a
// larger mean RSS. The teeth are the same in each run. A tooth is first work and then waiting, and only the work is
// timed. mean_rss is taken over the whole time, waiting included.
// Arguments: low= and high= bytes, teeth=, shortest= and longest= milliseconds of a tooth, seed=.
#include "skewed.h"

static const struct bench_variant variants[] = {
    {"hovering", "low=60m high=100m teeth=12 shortest=50 longest=300", "quick"},
    {"hovering-slow", "low=60m high=100m teeth=16 shortest=50 longest=2000", "full"},
};

struct heap {
    bench_slot *table;
    size_t count, room;
    uint64_t live, sum, made;
    struct bench_rng rng;
};

static void grow(struct heap *heap, uint64_t to) {
    uint64_t before = heap->made;
    bench_clock_start();
    while (heap->live < to) {
        if (heap->count == heap->room) {
            bench_fail("hovering: more than %zu blocks", heap->room);
        }
        bench_slot slot = skewed_take(&heap->rng);
        heap->table[heap->count++] = slot;
        heap->live += bench_slot_size(slot);
        heap->made++;
    }
    bench_clock_stop(heap->made - before);
    bench_live(heap->live);
    bench_series_point();
}

static void shrink(struct heap *heap, uint64_t to) {
    bench_clock_start();
    while (heap->count > 0 && heap->live > to) {
        bench_slot *picked = &heap->table[bench_below(&heap->rng, (uint32_t)heap->count)];
        heap->live -= bench_slot_size(*picked);
        heap->sum += skewed_give(*picked);
        *picked = heap->table[--heap->count];
    }
    bench_clock_stop(0);
    bench_series_point();
}

// Half of the tooth's time passes at the top and half at the bottom.
static void tooth(struct heap *heap, uint64_t top, uint64_t bottom, double seconds) {
    double begun = bench_now();
    grow(heap, top);
    double left = seconds / 2 - (bench_now() - begun);
    bench_series_wait(left > 0 ? left : 0, 0.02);
    begun = bench_now();
    shrink(heap, bottom);
    left = seconds / 2 - (bench_now() - begun);
    bench_series_wait(left > 0 ? left : 0, 0.02);
}

// Each sample counts for the time until the next one.
static uint64_t mean_rss(void) {
    double sum = 0, time = 0;
    for (size_t i = 0; i + 1 < bench_series.count; i++) {
        double span = bench_series.time[i + 1] - bench_series.time[i];
        sum += span * (double)bench_series.bytes[i];
        time += span;
    }
    return time > 0 ? (uint64_t)(sum / time) : 0;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    uint64_t low = bench_arg("low", 60 << 20), high = bench_arg("high", 100 << 20), teeth = bench_arg("teeth", 12);
    uint64_t shortest = bench_arg("shortest", 50), longest = bench_arg("longest", 300);
    if (high <= low || (high - low) >> 32 != 0 || longest < shortest) {
        bench_fail("hovering: low is below high, and shortest is at most longest");
    }
    struct heap heap = {.room = (size_t)(high / 64 + 1)};
    heap.rng = bench_rng_make(bench_arg("seed", 1), 0);
    heap.table = (bench_slot *)bench_map(heap.room * sizeof(bench_slot));
    grow(&heap, low);
    uint32_t half = (uint32_t)((high - low) / 2);
    for (uint64_t i = 0; i < teeth; i++) {
        uint64_t top = high - bench_below(&heap.rng, half + 1), bottom = low + bench_below(&heap.rng, half + 1);
        tooth(&heap, top, bottom, (double)bench_between(&heap.rng, (uint32_t)shortest, (uint32_t)longest) * 1e-3);
    }
    bench_print("mean_rss %" PRIu64 "\n", mean_rss());
    shrink(&heap, 0);
    bench_series_print("rss");
    bench_calls(heap.made, heap.made);
    return bench_finish(heap.sum);
}
