// SPDX-License-Identifier: MIT OR Apache-2.0
// Many threads that allocate a little and then wait: servers with a thread for each connection, thread pools,
// runtimes. The figure is private dirty memory while all of them are idle, and the same with one thread for
// what is not theirs.
//
// Thread stacks are part of it, about 8 KiB each, for every allocator alike.
// Arguments: threads=, blocks= for each thread, seed=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"idle-1", "threads=1", "quick"},
    {"idle-64", "threads=64", "full"},
    {"idle-256", "threads=256", "quick"},
    {"idle-1000", "threads=1000", "full"},
};

enum { MAX_BLOCKS = 4096 };

static struct {
    pthread_barrier_t filled, leave;
    uint32_t blocks;
    uint64_t seed;
} all;

// Sizes 16 to 400 B: what a connection holds, a few names, a buffer's header, a table or two.
static void *live(void *argument) {
    unsigned index = (unsigned)(uintptr_t)argument;
    struct bench_rng rng = bench_rng_make(all.seed, index);
    bench_slot slots[MAX_BLOCKS];
    uint64_t bytes = 0, sum = 0;
    for (uint32_t i = 0; i < all.blocks; i++) {
        uint32_t size = bench_between(&rng, 16, 400);
        slots[i] = bench_take_slot(size, (uint8_t)i);
        bytes += size;
    }
    bench_tallies[index].live = bytes;
    pthread_barrier_wait(&all.filled);
    pthread_barrier_wait(&all.leave);
    for (uint32_t i = 0; i < all.blocks; i++) {
        sum += bench_give_slot(slots[i], (uint8_t)i);
    }
    bench_tallies[index].sum = sum;
    return NULL;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 256);
    all.blocks = (uint32_t)bench_arg("blocks", 40);
    all.seed = bench_arg("seed", 1);
    if (threads == 0 || threads > BENCH_MAX_THREADS || all.blocks > MAX_BLOCKS) {
        bench_fail("idle_threads: at most %d threads of %d blocks", BENCH_MAX_THREADS, MAX_BLOCKS);
    }
    static pthread_t handles[BENCH_MAX_THREADS];
    pthread_barrier_init(&all.filled, NULL, threads + 1);
    pthread_barrier_init(&all.leave, NULL, threads + 1);
    bench_moment("start");
    bench_clock_start();
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&handles[i], NULL, live, (void *)(uintptr_t)i) != 0) {
            bench_fail("idle_threads: cannot create thread %u", i);
        }
    }
    pthread_barrier_wait(&all.filled);
    bench_moment("idle");
    pthread_barrier_wait(&all.leave);
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(handles[i], NULL);
    }
    bench_clock_stop((uint64_t)threads * all.blocks);
    bench_live(bench_tally_live(threads));
    return bench_finish(bench_tally_sum(threads));
}
