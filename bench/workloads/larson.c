// SPDX-License-Identifier: MIT OR Apache-2.0
// larson: a server whose requests outlive the thread that accepted them. Each thread owns 1,000 blocks of 7
// to 1,000 bytes and replaces random ones; after a while it hands all of them to a successor thread and ends.
// (Larson and Krishnan, "Memory allocation for long-running server applications", 1998; written from the
// description.)
//
// With seconds= it runs for that time and the figure is the processor time of a replacement; with
// generations= the amount of work is fixed. The checksum covers what does not depend on time.
// Arguments: threads=, blocks=, min=, max=, rounds= replacements before a hand-over, seconds= or
// generations=, seed=.
#include "bench.h"

#include <stdatomic.h>

static const struct bench_variant variants[] = {
    {"larson-1t", "threads=1 generations=100 rounds=100000", "full"},
    {"larson-2t", "threads=2 generations=60 rounds=100000", "quick"},
    {"larson-8t", "threads=8 generations=30 rounds=50000", "quick"},
    {"larson-8t-10s", "threads=8 rounds=50000 seconds=10", "full"},
};

struct lane {
    bench_slot *slots;
    struct bench_rng rng;
    uint64_t done, sum;
    uint32_t generation;
};

static struct {
    uint32_t threads, blocks, min, max, rounds, generations;
    double until;
    struct lane *lanes;
    _Atomic(uint32_t) lanes_open;
    pthread_attr_t detached;
} all;

static void *serve(void *argument);

// The successor takes the lane over with everything in it. The predecessor ends at once: nobody joins it.
static void hand_over(struct lane *lane) {
    pthread_t next;
    if (pthread_create(&next, &all.detached, serve, lane) != 0) {
        bench_fail("larson: cannot create a successor");
    }
}

static void *serve(void *argument) {
    struct lane *lane = (struct lane *)argument;
    struct bench_rng rng = lane->rng;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < all.rounds; i++) {
        uint32_t at = bench_below(&rng, all.blocks);
        sum += bench_give_slot(lane->slots[at], (uint8_t)at);
        lane->slots[at] = bench_take_slot(bench_between(&rng, all.min, all.max), (uint8_t)at);
    }
    lane->rng = rng;
    lane->sum += sum;
    lane->done += all.rounds;
    lane->generation++;
    bool more = all.generations != 0 ? lane->generation < all.generations : bench_now() < all.until;
    if (more) {
        hand_over(lane);
    } else {
        atomic_fetch_sub(&all.lanes_open, 1);
    }
    return NULL;
}

static void fill(struct lane *lane, uint64_t seed, uint32_t index) {
    lane->rng = bench_rng_make(seed, index);
    lane->slots = (bench_slot *)bench_map(all.blocks * sizeof(bench_slot));
    for (uint32_t i = 0; i < all.blocks; i++) {
        lane->slots[i] = bench_take_slot(bench_between(&lane->rng, all.min, all.max), (uint8_t)i);
    }
}

static void configure(void) {
    all.threads = (uint32_t)bench_arg("threads", 8);
    all.blocks = (uint32_t)bench_arg("blocks", 1000);
    all.min = (uint32_t)bench_arg("min", 7);
    all.max = (uint32_t)bench_arg("max", 1000);
    all.rounds = (uint32_t)bench_arg("rounds", 50000);
    all.generations = (uint32_t)bench_arg("generations", 0);
    all.lanes = (struct lane *)bench_map(all.threads * sizeof(struct lane));
    pthread_attr_init(&all.detached);
    pthread_attr_setdetachstate(&all.detached, PTHREAD_CREATE_DETACHED);
    atomic_store(&all.lanes_open, all.threads);
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    configure();
    for (uint32_t i = 0; i < all.threads; i++) {
        fill(&all.lanes[i], bench_arg("seed", 1), i);
    }
    bench_live((uint64_t)all.threads * all.blocks * (all.min + all.max) / 2);
    all.until = bench_now() + (double)bench_arg("seconds", 10);
    bench_clock_start();
    for (uint32_t i = 0; i < all.threads; i++) {
        hand_over(&all.lanes[i]);
    }
    while (atomic_load(&all.lanes_open) != 0) {
        bench_sleep(0.001);
    }
    uint64_t done = 0, check = 0;
    for (uint32_t i = 0; i < all.threads; i++) {
        done += all.lanes[i].done;
    }
    bench_clock_stop(done);
    bench_moment("end");
    for (uint32_t i = 0; i < all.threads; i++) {
        uint64_t sum = all.lanes[i].sum;
        for (uint32_t at = 0; at < all.blocks; at++) {
            sum += bench_give_slot(all.lanes[i].slots[at], (uint8_t)at);
        }
        check += all.generations != 0 ? sum : all.blocks;
    }
    return bench_finish(check);
}
