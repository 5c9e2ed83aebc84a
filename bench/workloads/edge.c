// SPDX-License-Identifier: MIT OR Apache-2.0
// Flutter: a program holds some blocks, and makes and drops a few more, over and over, while what it holds grows by
// one at a time. Somewhere on the way the few more begin on a page, a slab or a chunk of their own, and an allocator
// that gives that back as soon as it is empty asks the system for it at each turn. Page faults and system time tell.
//
// Arguments: size=, swing= blocks made and dropped, hold= positions tried, step= between them, turns= at each.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"edge-64B", "size=64 swing=1024 hold=2048 step=64 turns=300", "quick"},
    {"edge-64KiB", "size=64k swing=1 hold=256 step=1 turns=40000", "quick"},
    {"edge-1MiB", "size=1m swing=2 hold=16 step=1 turns=20000", "full"},
    {"edge-8KiB", "size=8k swing=8 hold=1024 step=1 turns=1000", "full"},
};

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    size_t size = bench_arg("size", 64);
    uint64_t swing = bench_arg("swing", 1024), hold = bench_arg("hold", 2048), step = bench_arg("step", 1);
    uint64_t turns = bench_arg("turns", 100), ops = 0, check = 0;
    void **held = (void **)bench_map((hold + step) * sizeof(void *));
    void **more = (void **)bench_map(swing * sizeof(void *));
    uint64_t count = 0;
    bench_live((hold + swing) * size);
    bench_clock_start();
    while (count < hold) {
        for (uint64_t i = 0; i < step; i++, count++) {
            held[count] = bench_take(size, (uint8_t)count);
        }
        for (uint64_t turn = 0; turn < turns; turn++) {
            for (uint64_t i = 0; i < swing; i++) {
                more[i] = bench_take(size, (uint8_t)(i + turn));
            }
            for (uint64_t i = swing; i-- > 0;) {
                check += bench_give(more[i], size, (uint8_t)(i + turn));
            }
        }
        ops += turns * swing;
    }
    bench_clock_stop(ops);
    for (uint64_t i = 0; i < count; i++) {
        check += bench_give(held[i], size, (uint8_t)i);
    }
    return bench_finish(check);
}
