// SPDX-License-Identifier: MIT OR Apache-2.0
// Call frames of an interpreter, as MoarVM's fixed size allocator served them: each thread keeps a stack of 8
// to 64 live cells and pushes and pops at random. Sizes are 8·(1 + x·y/96) with x and y from 0 to 95, so
// small ones are common and 760 bytes is the largest; above=1 takes 770 to 1,024 bytes instead, which are
// just beyond MoarVM's bins.
//
// With sized=1 the caller tells the size on release, where the allocator has free_sized.
// Arguments: n= pushes and pops of all threads, threads=, above=, sized=, seed=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"frames-1t", "n=20000000 threads=1", "quick"},
    {"frames-2t", "n=40000000 threads=2", "full"},
    {"frames-8t", "n=160000000 threads=8", "full"},
    {"frames-sized-1t", "n=20000000 threads=1 sized=1", "full"},
    {"frames-above-1t", "n=20000000 threads=1 above=1", "quick"},
    {"frames-above-2t", "n=40000000 threads=2 above=1", "full"},
};

// C23's free_sized; glibc 2.36 does not have it, and then the block goes by free.
extern void free_sized(void *block, size_t size) __attribute__((weak));

enum { LOW = 8, HIGH = 64 };

static struct {
    uint64_t each, seed;
    bool above, sized;
} all;

static uint32_t pick_size(struct bench_rng *rng) {
    if (all.above) {
        return bench_between(rng, 770, 1024);
    }
    uint64_t draw = bench_random(rng);
    uint32_t x = (uint32_t)((draw >> 32 & 0xffff) * 96 >> 16), y = (uint32_t)((draw >> 48) * 96 >> 16);
    return 8 * (1 + x * y / 96);
}

static uint64_t pop(bench_slot slot, uint8_t stamp) {
    if (!all.sized || free_sized == NULL) {
        return bench_give_slot(slot, stamp);
    }
    uint64_t seen = bench_verify(bench_slot_block(slot), bench_slot_size(slot), stamp);
    free_sized(bench_slot_block(slot), bench_slot_size(slot));
    return seen;
}

static void work(void *context, unsigned index) {
    (void)context;
    struct bench_rng rng = bench_rng_make(all.seed, index);
    bench_slot stack[HIGH];
    uint32_t depth = 0;
    uint64_t sum = 0, turns = 0;
    for (uint64_t i = 0; i < all.each; i++) {
        // One bit of a word of randomness decides, 64 decisions a word.
        if ((i & 63) == 0) {
            turns = bench_random(&rng);
        }
        bool push = depth < LOW || (depth < HIGH && (turns & 1) != 0);
        turns >>= 1;
        if (push) {
            stack[depth] = bench_take_slot(pick_size(&rng), (uint8_t)depth);
            depth++;
        } else {
            depth--;
            sum += bench_slot_size(stack[depth]) + pop(stack[depth], (uint8_t)depth);
        }
    }
    while (depth-- > 0) {
        sum += bench_slot_size(stack[depth]) + pop(stack[depth], (uint8_t)depth);
    }
    bench_tallies[index].sum = sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 1);
    all.each = bench_arg("n", 20000000) / threads;
    all.above = bench_arg("above", 0) != 0;
    all.sized = bench_arg("sized", 0) != 0;
    all.seed = bench_arg("seed", 1);
    bench_live((uint64_t)threads * HIGH * (all.above ? 900 : 200));
    struct bench_plan plan = {.work = work};
    bench_team_run(threads, &plan, all.each * threads);
    return bench_finish(bench_tally_sum(threads));
}
