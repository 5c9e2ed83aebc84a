// SPDX-License-Identifier: MIT OR Apache-2.0
// A large heap in which a random block is replaced by one of a random size: what a cache, a graph or an
// interpreter does to its allocator. Almost every free meets a cold block, so an allocator that writes into
// freed blocks pays for it here.
//
// The figure is that of the replacements alone; the heap is filled before the clock starts and emptied after
// it stops.
// Arguments: live= blocks, min= and max= bytes, n= replacements for all threads together, threads=, seed=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"replace-16-255", "live=1000000 min=16 max=255 n=4000000", "quick"},
    {"replace-16-4000", "live=500000 min=16 max=4000 n=2000000", "full"},
    {"replace-16-4000-small", "live=200000 min=16 max=4000 n=1500000", "quick"},
    {"replace-16-255-long", "live=1000000 min=16 max=255 n=15000000", "full"},
    {"replace-16-255-4m", "live=4000000 min=16 max=255 n=8000000", "full"},
    {"replace-16-255-2t", "live=1000000 min=16 max=255 n=10000000 threads=2", "full"},
};

struct job {
    bench_slot *table;
    uint32_t each_live, min, max;
    uint64_t each;
    struct bench_rng rngs[BENCH_MAX_THREADS];
};

// A thread's own part of the table is filled, changed and emptied by that thread.
static void fill(void *context, unsigned index) {
    struct job *job = (struct job *)context;
    bench_slot *table = job->table + (size_t)index * job->each_live;
    struct bench_rng rng = job->rngs[index];
    for (uint32_t i = 0; i < job->each_live; i++) {
        uint32_t size = bench_between(&rng, job->min, job->max);
        table[i] = bench_take_slot(size, (uint8_t)i);
        bench_tallies[index].live += size;
    }
    job->rngs[index] = rng;
}

static void replace(void *context, unsigned index) {
    struct job *job = (struct job *)context;
    bench_slot *table = job->table + (size_t)index * job->each_live;
    struct bench_rng rng = job->rngs[index];
    uint64_t sum = 0, live = bench_tallies[index].live, peak = live;
    for (uint64_t i = 0; i < job->each; i++) {
        uint32_t at = bench_below(&rng, job->each_live);
        uint32_t size = bench_between(&rng, job->min, job->max);
        live += size - bench_slot_size(table[at]);
        peak = live > peak ? live : peak;
        sum += bench_give_slot(table[at], (uint8_t)at);
        table[at] = bench_take_slot(size, (uint8_t)at);
    }
    bench_tallies[index].sum = sum;
    bench_tallies[index].live = peak;
}

static void empty(void *context, unsigned index) {
    struct job *job = (struct job *)context;
    bench_slot *table = job->table + (size_t)index * job->each_live;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < job->each_live; i++) {
        sum += bench_give_slot(table[i], (uint8_t)i);
    }
    bench_tallies[index].sum += sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    static struct job job;
    unsigned threads = (unsigned)bench_arg("threads", 1);
    job.each_live = (uint32_t)(bench_arg("live", 1000000) / threads);
    job.min = (uint32_t)bench_arg("min", 16);
    job.max = (uint32_t)bench_arg("max", 255);
    job.each = bench_arg("n", 3000000) / threads;
    job.table = (bench_slot *)bench_map(sizeof *job.table * job.each_live * threads);
    for (unsigned i = 0; i < threads; i++) {
        job.rngs[i] = bench_rng_make(bench_arg("seed", 1), i);
    }
    struct bench_plan plan = {.prepare = fill, .work = replace, .clean = empty, .context = &job};
    bench_team_run(threads, &plan, job.each * threads);
    bench_live(bench_tally_live(threads));
    return bench_finish(bench_tally_sum(threads));
}
