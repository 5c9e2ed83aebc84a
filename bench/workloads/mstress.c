// SPDX-License-Identifier: MIT OR Apache-2.0
// A stress in phases, in the manner of mstress: in each phase fresh threads come, allocate blocks of all
// sizes (now and then a large one), keep some, drop some, exchange some with each other through a shared
// table, and go, leaving what is in the table to the next phase. Half of the table is emptied between phases.
//
// Which thread frees a block depends on timing, but all blocks that were made are freed and checked exactly
// once, so the sum over them does not.
// Arguments: threads= of a phase, phases=, load= blocks of a thread, large= one in so many is large, seed=.
#include "bench.h"

#include <stdatomic.h>

static const struct bench_variant variants[] = {
    {"mstress-2t", "threads=2 phases=20 load=20000", "quick"},
    {"mstress-8t", "threads=8 phases=30 load=20000", "full"},
    {"mstress-32t", "threads=32 phases=10 load=10000", "full"},
};

enum { TABLE = 8192, MAX_KEEP = 1 << 17 };

struct cell {
    void *block;
    uint32_t size;
};

// A large block's size does not fit beside its address, so table entries are blocks that carry their size in
// the front.
static struct {
    _Atomic(void *) table[TABLE];
    uint32_t threads, load, large, phase;
    uint64_t seed;
    struct cell *keeps;
} all;

static void *make(struct bench_rng *rng) {
    uint32_t shape = bench_below(rng, all.large), size;
    if (shape == 0) {
        size = bench_between(rng, 32 << 10, 1 << 20);
    } else if (shape < all.large / 16) {
        size = bench_between(rng, 1024, 32 << 10);
    } else {
        size = bench_between(rng, 16, 1024);
    }
    uint8_t *block = (uint8_t *)bench_take(size, (uint8_t)size);
    memcpy(block + 4, &size, sizeof size);
    return block;
}

static uint64_t drop(void *block) {
    uint32_t size;
    memcpy(&size, (uint8_t *)block + 4, sizeof size);
    return size + bench_give(block, size, (uint8_t)size);
}

// A thread's phase: in each step it makes a block and keeps it, and then drops one of its own or exchanges
// one.
static void work(void *context, unsigned index) {
    (void)context;
    struct bench_rng rng = bench_rng_make(all.seed + all.phase, index);
    struct cell *keep = all.keeps + (size_t)index * all.load;
    uint32_t kept = 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < all.load; i++) {
        keep[kept++].block = make(&rng);
        uint32_t chance = bench_below(&rng, 100), at = bench_below(&rng, kept);
        if (chance < 60) {
            sum += drop(keep[at].block);
            keep[at] = keep[--kept];
        } else if (chance < 85) {
            void *other = atomic_exchange(&all.table[bench_below(&rng, TABLE)], keep[at].block);
            keep[at].block = other;
            if (other == NULL) {
                keep[at] = keep[--kept];
            }
        }
    }
    while (kept > 0) {
        sum += drop(keep[--kept].block);
    }
    bench_tallies[index].sum += sum;
}

static uint64_t sweep(uint32_t step) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < TABLE; i += step) {
        void *block = atomic_exchange(&all.table[i], NULL);
        sum += block != NULL ? drop(block) : 0;
    }
    return sum;
}

static void *run(void *argument) {
    work(NULL, (unsigned)(uintptr_t)argument);
    return NULL;
}

// Birth and death of the threads are part of this test, so it does not use the team.
static void run_phase(void) {
    static pthread_t threads[BENCH_MAX_THREADS];
    for (uint32_t i = 0; i < all.threads; i++) {
        if (pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i) != 0) {
            bench_fail("mstress: cannot create a thread");
        }
    }
    for (uint32_t i = 0; i < all.threads; i++) {
        pthread_join(threads[i], NULL);
    }
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    uint32_t phases = (uint32_t)bench_arg("phases", 20);
    all.threads = (uint32_t)bench_arg("threads", 2);
    all.load = (uint32_t)bench_arg("load", 20000);
    all.large = (uint32_t)bench_arg("large", 1000);
    all.seed = bench_arg("seed", 1);
    if (all.threads == 0 || all.threads > BENCH_MAX_THREADS || all.load > MAX_KEEP) {
        bench_fail("mstress: 1 to %d threads, load up to %d", BENCH_MAX_THREADS, MAX_KEEP);
    }
    all.keeps = (struct cell *)bench_map((size_t)all.threads * all.load * sizeof(struct cell));
    uint64_t check = 0;
    bench_clock_start();
    for (all.phase = 0; all.phase < phases; all.phase++) {
        run_phase();
        check += sweep(2);
    }
    bench_clock_stop((uint64_t)phases * all.threads * all.load);
    bench_moment("end");
    check += sweep(1) + bench_tally_sum(all.threads);
    bench_live((uint64_t)all.threads * all.load * 3 / 20 * 2000);
    return bench_finish(check);
}
