// SPDX-License-Identifier: MIT OR Apache-2.0
// False sharing (Berger and others, "Hoard", 2000; written from the description). cache-thrash: each thread
// allocates a tiny block, writes it very often, and frees it; an allocator that puts blocks of two threads
// into one cache line makes them fight ("active"). cache-scratch: the main thread allocates the first blocks,
// neighbours in memory, and hands one to each thread, which frees it and goes on as before; reusing it brings
// the sharing back ("passive").
//
// Time is that of the writes; it should be that of one thread divided by the threads, as far as there are
// cores.
// Arguments: threads=, rounds= of allocation, size=, writes= of each block, scratch=1.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"cache-thrash-1t", "threads=1 rounds=1000 size=8 writes=1000000", "full"},
    {"cache-thrash-2t", "threads=2 rounds=1000 size=8 writes=1000000", "full"},
    {"cache-scratch-2t", "threads=2 rounds=1000 size=8 writes=1000000 scratch=1", "full"},
    {"cache-scratch-2t-short", "threads=2 rounds=1000 size=8 writes=100000 scratch=1", "quick"},
    {"cache-thrash-2t-short", "threads=2 rounds=1000 size=8 writes=100000", "quick"},
};

static struct {
    uint64_t rounds, writes;
    size_t size;
    void *first[BENCH_MAX_THREADS];
} all;

static uint64_t write_often(void *block, uint8_t seed) {
    volatile uint8_t *bytes = (volatile uint8_t *)block;
    for (size_t at = 0; at < all.size; at++) {
        bytes[at] = seed;
    }
    for (uint64_t i = 0; i < all.writes; i++) {
        for (size_t at = 0; at < all.size; at++) {
            bytes[at] = (uint8_t)(bytes[at] + 1);
        }
    }
    uint64_t sum = 0;
    for (size_t at = 0; at < all.size; at++) {
        if (bytes[at] != (uint8_t)(seed + all.writes)) {
            bench_fail("cache_lines: a byte was written by somebody else");
        }
        sum += bytes[at];
    }
    return sum;
}

static void work(void *context, unsigned index) {
    (void)context;
    uint64_t sum = 0;
    free(all.first[index]);
    for (uint64_t round = 0; round < all.rounds; round++) {
        void *block = malloc(all.size);
        if (block == NULL) {
            bench_fail("cache_lines: malloc failed");
        }
        sum += write_often(block, (uint8_t)round);
        free(block);
    }
    bench_tallies[index].sum = sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 2);
    all.rounds = bench_arg("rounds", 1000) / threads;
    all.writes = bench_arg("writes", 1000000);
    all.size = bench_arg("size", 8);
    if (bench_arg("scratch", 0) != 0) {
        for (unsigned i = 0; i < threads; i++) {
            all.first[i] = bench_take(all.size, 1);
        }
    }
    bench_live(threads * all.size);
    struct bench_plan plan = {.work = work};
    bench_team_run(threads, &plan, all.rounds * all.writes * threads);
    return bench_finish(bench_tally_sum(threads));
}
