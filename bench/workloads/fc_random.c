// SPDX-License-Identifier: MIT OR Apache-2.0
// fc_malloc's random producer and consumer (2013). There are arrays of 524,288 slots. A worker fills random
// empty slots of the array it produces into, then empties random full slots of the array it consumes from,
// 262,144 picks each, and again. "single": one worker, one array. "ring": worker i passes to i + 1. "pair":
// worker i exchanges with n + 1 − i.
//
// Picks are the operations, because how many of them hit depends on timing; in the end the rest is freed and
// the counts of blocks made and dropped must agree. Sizes: 60 B (the published figures), 128 B (the published
// text), or a range.
// Arguments: mode=single|ring|pair, threads=, rounds= (0: as published), min=, max=, seed=.
#include "bench.h"

#include <stdatomic.h>

static const struct bench_variant variants[] = {
    {"fc-single", "mode=single threads=1 rounds=10 min=60 max=60", "quick"},
    {"fc-single-128", "mode=single threads=1 min=128 max=128", "full"},
    {"fc-ring-2", "mode=ring threads=2 min=60 max=60", "full"},
    {"fc-ring-4", "mode=ring threads=4 min=60 max=60", "full"},
    {"fc-ring-10", "mode=ring threads=10 rounds=10 min=60 max=60", "full"},
    {"fc-pair-2-short", "mode=pair threads=2 rounds=10 min=60 max=60", "quick"},
    {"fc-pair-2", "mode=pair threads=2 min=60 max=60", "full"},
    {"fc-pair-4", "mode=pair threads=4 rounds=30 min=60 max=60", "full"},
    {"fc-pair-10", "mode=pair threads=10 rounds=12 min=60 max=60", "full"},
    {"fc-pair-2-256", "mode=pair threads=2 rounds=30 min=1 max=256", "full"},
    {"fc-pair-2-32k", "mode=pair threads=2 rounds=2 min=32 max=32768", "full"},
};

enum { SLOTS = 524288, PICKS = 262144, MAX_WORKERS = 16 };

// Only one thread fills an array and only one empties it, so a slot needs no compare-and-swap: the filler
// stores where it saw zero, the emptier stores zero where it saw a block, and neither can meet itself.
static struct {
    _Atomic(bench_slot) *arrays[MAX_WORKERS];
    uint32_t produce_into[MAX_WORKERS], consume_from[MAX_WORKERS];
    uint32_t threads, rounds, min, max;
    uint64_t seed;
} all;

static uint64_t fill_some(_Atomic(bench_slot) *array, struct bench_rng *rng) {
    uint64_t made = 0;
    for (uint32_t i = 0; i < PICKS; i++) {
        uint32_t at = bench_below(rng, SLOTS);
        if (atomic_load_explicit(&array[at], memory_order_acquire) == 0) {
            uint32_t size = all.min == all.max ? all.min : bench_between(rng, all.min, all.max);
            atomic_store_explicit(&array[at], bench_take_slot(size, (uint8_t)at), memory_order_release);
            made++;
        }
    }
    return made;
}

static uint64_t empty_some(_Atomic(bench_slot) *array, struct bench_rng *rng) {
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < PICKS; i++) {
        uint32_t at = bench_below(rng, SLOTS);
        bench_slot slot = atomic_load_explicit(&array[at], memory_order_acquire);
        if (slot != 0) {
            bench_give_slot(slot, (uint8_t)at);
            atomic_store_explicit(&array[at], 0, memory_order_release);
            dropped++;
        }
    }
    return dropped;
}

static void work(void *context, unsigned index) {
    (void)context;
    struct bench_rng rng = bench_rng_make(all.seed, index);
    for (uint32_t round = 0; round < all.rounds; round++) {
        bench_tallies[index].ops += fill_some(all.arrays[all.produce_into[index]], &rng);
        bench_tallies[index].extra += empty_some(all.arrays[all.consume_from[index]], &rng);
    }
}

static void configure(void) {
    const char *mode = bench_arg_text("mode", "pair");
    all.threads = (uint32_t)bench_arg("threads", 2);
    if (all.threads == 0 || all.threads > MAX_WORKERS) {
        bench_fail("fc_random: 1 to %d threads", MAX_WORKERS);
    }
    bool ring = strcmp(mode, "ring") == 0;
    all.rounds = (uint32_t)bench_arg("rounds", 0);
    if (all.rounds == 0) {
        all.rounds = ring ? 30 : 60;
    }
    all.min = (uint32_t)bench_arg("min", 60);
    all.max = (uint32_t)bench_arg("max", 60);
    all.seed = bench_arg("seed", 1);
    for (uint32_t i = 0; i < all.threads; i++) {
        all.produce_into[i] = i;
        all.consume_from[i] = ring ? (i + 1) % all.threads : all.threads - 1 - i;
        all.arrays[i] = (_Atomic(bench_slot) *)bench_map(SLOTS * sizeof(_Atomic(bench_slot)));
    }
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    configure();
    struct bench_plan plan = {.work = work};
    bench_team_run(all.threads, &plan, 2ull * PICKS * all.rounds * all.threads);
    uint64_t made = 0, dropped = 0, live = 0;
    for (uint32_t i = 0; i < all.threads; i++) {
        made += bench_tallies[i].ops;
        dropped += bench_tallies[i].extra;
        for (uint32_t at = 0; at < SLOTS; at++) {
            bench_slot slot = atomic_load(&all.arrays[i][at]);
            if (slot != 0) {
                live += bench_slot_size(slot);
                bench_give_slot(slot, (uint8_t)at);
                dropped++;
            }
        }
    }
    if (made != dropped) {
        bench_fail("fc_random: %" PRIu64 " blocks made, %" PRIu64 " dropped", made, dropped);
    }
    bench_print("blocks %" PRIu64 "\n", made);
    bench_live(live);
    return bench_finish(bench_clock.ops);
}
