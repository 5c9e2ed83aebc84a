// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads that follow each other, each of which fills its share of a heap and ends. With reuse=1 the next thread first
// frees what its predecessor left: the blocks come from a pool that all threads share. With reuse=0 everything stays until
// the last one has ended: each thread gets fresh memory and abandons it.
//
// Both forms allocate and free the same blocks, so the two rows show what re-use costs in time and saves in page faults
// and memory. Several lanes run at once with threads=.
// Arguments: threads= lanes, generations= of each lane, blocks= of a thread, min= and max= bytes, reuse=, seed=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"generations-reuse", "threads=2 generations=40 blocks=20000 reuse=1", "quick"},
    {"generations-abandon", "threads=2 generations=40 blocks=20000 reuse=0", "quick"},
    {"generations-reuse-8t", "threads=8 generations=20 blocks=20000 reuse=1", "full"},
    {"generations-abandon-8t", "threads=8 generations=20 blocks=20000 reuse=0", "full"},
};

static struct {
    bench_slot *slots;
    uint64_t seed;
    uint32_t blocks, generations, min, max;
    bool reuse;
} all;

struct life {
    unsigned lane, generation;
    uint64_t sum, live;
};

static bench_slot *share_of(unsigned lane, unsigned generation) {
    return all.slots + ((size_t)lane * all.generations + generation) * all.blocks;
}

static uint64_t free_share(unsigned lane, unsigned generation) {
    bench_slot *slots = share_of(lane, generation);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < all.blocks; i++) {
        // An odd stride, so that blocks are not freed in the order in which they were allocated.
        bench_slot slot = slots[(uint64_t)i * 97 % all.blocks];
        sum += bench_give_slot(slot, (uint8_t)bench_slot_size(slot));
    }
    return sum;
}

static void *live_once(void *argument) {
    struct life *life = (struct life *)argument;
    if (all.reuse && life->generation > 0) {
        life->sum = free_share(life->lane, life->generation - 1);
    }
    struct bench_rng rng = bench_rng_make(all.seed, (uint64_t)life->lane << 32 | life->generation);
    bench_slot *slots = share_of(life->lane, life->generation);
    for (uint32_t i = 0; i < all.blocks; i++) {
        uint32_t size = bench_between(&rng, all.min, all.max);
        slots[i] = bench_take_slot(size, (uint8_t)size);
        life->live += size;
    }
    return NULL;
}

// A lane waits for each of its threads, so that at most one of them allocates at a time.
static void work(void *context, unsigned lane) {
    (void)context;
    for (unsigned g = 0; g < all.generations; g++) {
        struct life life = {lane, g, 0, 0};
        pthread_t thread;
        if (pthread_create(&thread, NULL, live_once, &life) != 0) {
            bench_fail("generations: cannot create a thread");
        }
        pthread_join(thread, NULL);
        bench_tallies[lane].sum += life.sum;
        bench_tallies[lane].live = all.reuse ? life.live : bench_tallies[lane].live + life.live;
    }
    for (unsigned g = all.reuse ? all.generations - 1 : 0; g < all.generations; g++) {
        bench_tallies[lane].sum += free_share(lane, g);
    }
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 2);
    all.generations = (uint32_t)bench_arg("generations", 40);
    all.blocks = (uint32_t)bench_arg("blocks", 20000);
    all.min = (uint32_t)bench_arg("min", 16);
    all.max = (uint32_t)bench_arg("max", 512);
    all.reuse = bench_arg("reuse", 1) != 0;
    all.seed = bench_arg("seed", 1);
    if (threads == 0 || threads > BENCH_MAX_THREADS || all.generations == 0 || all.blocks == 0 ||
        all.blocks % 97 == 0 || all.min == 0 || all.max < all.min) {
        bench_fail("generations: one of each at least, min at most max, and blocks no multiple of 97");
    }
    uint64_t made = (uint64_t)threads * all.generations * all.blocks;
    all.slots = (bench_slot *)bench_map(made * sizeof(bench_slot));
    struct bench_plan plan = {.work = work};
    bench_team_run(threads, &plan, made);
    bench_live(bench_tally_live(threads));
    bench_calls(made, made);
    return bench_finish(bench_tally_sum(threads));
}
