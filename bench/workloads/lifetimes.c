// SPDX-License-Identifier: MIT OR Apache-2.0
// Mixed lifetimes, in the manner of the sh6 and sh8 benchmarks. Each round makes a batch of blocks of falling
// likelihood with size, keeps a few of them for long in a ring of survivors, and frees the rest forwards,
// backwards, or by strides, one order after another. In the second form threads exchange survivors, so a
// long-lived block is freed by a stranger.
//
// Arguments: threads=, batch= blocks, rounds= of each thread, keep= one in so many survives, shared=1, seed=.
#include "bench.h"

#include <stdatomic.h>

static const struct bench_variant variants[] = {
    {"sh6-like-1t", "threads=1 rounds=4000", "quick"},
    {"sh6-like-2t", "threads=2 rounds=20000", "full"},
    {"sh8-like-2t", "threads=2 rounds=4000 shared=1", "quick"},
    {"sh8-like-8t", "threads=8 rounds=8000 shared=1", "full"},
};

enum { MAX_BATCH = 4096, SURVIVORS = 16384 };

static struct {
    uint32_t batch, rounds, keep, threads;
    bool shared;
    uint64_t seed;
    _Atomic(bench_slot) *survivors; // one ring for each thread, or one for all
} all;

// The block knows its stamp by its size, since whoever frees a survivor knows nothing else of it.
static bench_slot make(struct bench_rng *rng) {
    static const uint16_t limits[] = {32, 64, 64, 128, 128, 256, 512, 1000};
    uint32_t limit = limits[bench_below(rng, 8)];
    uint32_t size = bench_between(rng, limit / 4, limit);
    return bench_take_slot(size, (uint8_t)size);
}

static uint64_t drop(bench_slot slot) {
    size_t size = bench_slot_size(slot);
    return size + bench_give_slot(slot, (uint8_t)size);
}

// The three orders: an odd stride visits every place once because the batch is a power of two.
static uint32_t place(uint32_t round, uint32_t i) {
    switch (round % 3) {
    case 0:
        return i;
    case 1:
        return all.batch - 1 - i;
    default:
        return (i * 97) & (all.batch - 1);
    }
}

static void work(void *context, unsigned index) {
    (void)context;
    struct bench_rng rng = bench_rng_make(all.seed, index);
    _Atomic(bench_slot) *ring = all.survivors + (all.shared ? 0 : (size_t)index * SURVIVORS);
    bench_slot batch[MAX_BATCH];
    uint64_t sum = 0;
    for (uint32_t round = 0; round < all.rounds; round++) {
        for (uint32_t i = 0; i < all.batch; i++) {
            batch[i] = make(&rng);
        }
        for (uint32_t i = 0; i < all.batch; i += all.keep) {
            batch[i] = atomic_exchange_explicit(&ring[bench_below(&rng, SURVIVORS)], batch[i], memory_order_acq_rel);
        }
        for (uint32_t i = 0; i < all.batch; i++) {
            bench_slot slot = batch[place(round, i)];
            sum += slot != 0 ? drop(slot) : 0;
        }
    }
    bench_tallies[index].sum = sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    all.threads = (uint32_t)bench_arg("threads", 1);
    all.batch = (uint32_t)bench_arg("batch", 1024);
    all.rounds = (uint32_t)bench_arg("rounds", 4000);
    all.keep = (uint32_t)bench_arg("keep", 16);
    all.shared = bench_arg("shared", 0) != 0;
    all.seed = bench_arg("seed", 1);
    if (all.batch == 0 || all.batch > MAX_BATCH || (all.batch & (all.batch - 1)) != 0 || all.keep == 0) {
        bench_fail("lifetimes: a batch is a power of two, at most %d", MAX_BATCH);
    }
    size_t slots = (size_t)SURVIVORS * (all.shared ? 1 : all.threads);
    all.survivors = (_Atomic(bench_slot) *)bench_map(slots * sizeof(_Atomic(bench_slot)));
    struct bench_plan plan = {.work = work};
    bench_team_run(all.threads, &plan, (uint64_t)all.rounds * all.batch * all.threads);
    uint64_t check = bench_tally_sum(all.threads), live = 0;
    for (size_t i = 0; i < slots; i++) {
        bench_slot slot = atomic_load(&all.survivors[i]);
        if (slot != 0) {
            live += bench_slot_size(slot);
            check += drop(slot);
        }
    }
    bench_live(live + (uint64_t)all.threads * all.batch * 170);
    return bench_finish(check);
}
