// SPDX-License-Identifier: MIT OR Apache-2.0
// Allocates d blocks and frees them in reverse, for each depth d from 1 to 600 and each of some sizes. A recursion, a
// parser's stack, a loop body with a few strings. A pair should cost the same at every depth.
//
// ns@SIZE-DEPTH is the CPU time of a pair at that size and depth. For instructions, which do not depend on the machine:
//
//     LD_PRELOAD=build/libfreehold.so valgrind --tool=callgrind build/bench/depth min=48 max=48 only=8 pairs=1000000
//
// Arguments: min= and max= bytes: the sizes of the list below that lie between them; only= one depth instead of all,
// pairs= for each size and depth.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"depth-small", "min=16 max=1024 pairs=300000", "quick"},
    {"depth-large", "min=2048 max=65536 pairs=60000", "quick"},
    {"depth-8-48B", "min=48 max=48 only=8 pairs=20000000", "full"},
    {"depth-8-30000B", "min=30000 max=30000 only=8 pairs=10000000", "full"},
};

enum { DEEPEST = 600 };

static const uint32_t sizes[] = {16, 48, 128, 256, 1024, 2048, 8192, 30000, 65536};
static const uint32_t depths[] = {1, 2, 4, 8, 12, 16, 32, 64, 128, 256, DEEPEST};

// Returns what was read of all blocks. Whole turns only, and one at least.
static uint64_t turns(uint32_t size, uint32_t depth, uint64_t count) {
    void *blocks[DEEPEST];
    uint64_t sum = 0;
    for (uint64_t turn = 0; turn < count; turn++) {
        for (uint32_t i = 0; i < depth; i++) {
            blocks[i] = bench_take(size, (uint8_t)i);
        }
        for (uint32_t i = depth; i-- > 0;) {
            sum += bench_give(blocks[i], size, (uint8_t)i);
        }
    }
    return sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    uint64_t min = bench_arg("min", 16), max = bench_arg("max", 65536), only = bench_arg("only", 0);
    uint64_t pairs = bench_arg("pairs", 300000), done = 0, check = 0;
    if (only > DEEPEST) {
        bench_fail("depth: the deepest is %d", DEEPEST);
    }
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t d = 0; d < sizeof depths / sizeof *depths && sizes[s] >= min && sizes[s] <= max; d++) {
            uint32_t depth = only != 0 ? (uint32_t)only : depths[d];
            uint64_t count = pairs / depth != 0 ? pairs / depth : 1;
            double before = bench_clock.user + bench_clock.system;
            bench_clock_start();
            check += turns(sizes[s], depth, count);
            bench_clock_stop(count * depth);
            double took = bench_clock.user + bench_clock.system - before;
            bench_print("ns@%u-%u %.2f\n", sizes[s], depth, took * 1e9 / (double)(count * depth));
            bench_live((uint64_t)sizes[s] * depth);
            done += count * depth;
            if (only != 0) {
                break;
            }
        }
    }
    if (done == 0) {
        bench_fail("depth: no size of the list lies between min and max");
    }
    bench_calls(done, done);
    return bench_finish(check);
}
