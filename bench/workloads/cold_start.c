// SPDX-License-Identifier: MIT OR Apache-2.0
// A fresh process allocates 200 MB in blocks of 64 to 512 bytes, touches them once, and exits without
// freeing: compilers, command line tools, build steps. What counts is how memory comes from the system:
// faults, huge pages, set-up.
//
// Every byte is written, not only the ends: the program exists in order to use that memory.
// Arguments: total= bytes, min=, max=, seed=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"cold-start", "total=200000000", "quick"},
    {"cold-start-1g", "total=1000000000", "full"},
    {"cold-start-20m", "total=20000000", "full"},
};

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    uint64_t total = bench_arg("total", 200000000), used = 0, count = 0, sum = 0;
    uint32_t min = (uint32_t)bench_arg("min", 64), max = (uint32_t)bench_arg("max", 512);
    struct bench_rng rng = bench_rng_make(bench_arg("seed", 1), 0);
    void *last = NULL;
    bench_clock_start();
    while (used < total) {
        uint32_t size = bench_between(&rng, min, max);
        uint8_t *block = (uint8_t *)bench_take(size, (uint8_t)count);
        // Blocks are chained, newest first, so that all of them can be visited and checked in the end.
        memset(block + 1, (int)(uint8_t)count, size - 1);
        memcpy(block + 16, &last, sizeof last);
        memcpy(block + 24, &size, sizeof size);
        last = block;
        used += size;
        count++;
    }
    bench_clock_stop(count);
    bench_live(used);
    bench_moment("full");
    for (uint64_t i = count; i-- > 0;) {
        uint8_t *block = (uint8_t *)last;
        uint32_t size;
        memcpy(&last, block + 16, sizeof last);
        memcpy(&size, block + 24, sizeof size);
        if (block[0] != (uint8_t)i || block[size - 1] != (uint8_t)i) {
            bench_fail("cold_start: block %" PRIu64 " was overwritten", i);
        }
        sum += size ^ block[0];
    }
    return bench_finish(sum);
}
