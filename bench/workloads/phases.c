// SPDX-License-Identifier: MIT OR Apache-2.0
// A heap that grows by 64 or 512 MiB of small blocks and shrinks again, over and over, with or without a pause.
// Returning memory at once costs much time here, keeping all of it costs memory. With random=1 blocks are freed
// in random order, so that whole pages become free only late.
//
// Arguments: total= bytes of a phase, phases=, min=, max=, pause= milliseconds after each half, random=1,
// seed=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"phases-random", "total=64m phases=6 min=16 max=1024 pause=0 random=1", "quick"},
    {"phases-512m", "total=512m phases=8 min=16 max=1024 pause=0 random=0", "full"},
    {"phases-512m-random", "total=512m phases=4 min=16 max=1024 pause=0 random=1", "full"},
    {"phases-512m-100ms", "total=512m phases=8 min=16 max=1024 pause=100 random=0", "full"},
};

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    uint64_t total = bench_arg("total", 512 << 20), phases = bench_arg("phases", 8), check = 0;
    uint32_t min = (uint32_t)bench_arg("min", 16), max = (uint32_t)bench_arg("max", 1024);
    double pause = (double)bench_arg("pause", 0) * 1e-3;
    bool shuffled = bench_arg("random", 0) != 0;
    uint32_t count = (uint32_t)(total / ((min + max) / 2));
    bench_slot *slots = (bench_slot *)bench_map(count * sizeof(bench_slot));
    struct bench_rng rng = bench_rng_make(bench_arg("seed", 1), 0);
    for (uint64_t phase = 0; phase < phases; phase++) {
        uint64_t live = 0;
        bench_clock_start();
        for (uint32_t i = 0; i < count; i++) {
            uint32_t size = bench_between(&rng, min, max);
            slots[i] = bench_take_slot(size, (uint8_t)size);
            live += size;
        }
        bench_clock_stop(count);
        bench_live(live);
        bench_series_point();
        // The shuffle is the harness's work and stays outside of the clock.
        for (uint32_t i = 0; shuffled && i < count; i++) {
            uint32_t at = bench_below(&rng, i + 1);
            bench_slot slot = slots[i];
            slots[i] = slots[at];
            slots[at] = slot;
        }
        bench_series_wait(pause, 0.02);
        bench_clock_start();
        for (uint32_t i = 0; i < count; i++) {
            check += bench_give_slot(slots[i], (uint8_t)bench_slot_size(slots[i]));
        }
        bench_clock_stop(count);
        bench_series_point();
        bench_series_wait(pause, 0.02);
    }
    bench_series_print("rss");
    return bench_finish(check);
}
