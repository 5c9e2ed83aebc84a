// SPDX-License-Identifier: MIT OR Apache-2.0
// threadtest: each thread makes many small blocks, then frees them all, over and over. (Berger and others,
// "Hoard", ASPLOS 2000; written from the description.) It tells how blocks get from thread caches to shared
// memory and back in bulk.
//
// Arguments: threads=, blocks= for all threads together, size=, rounds=, order=0 first made first freed, 1
// last made first.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"threadtest-1t", "threads=1 blocks=30000 size=64 rounds=500", "quick"},
    {"threadtest-2t", "threads=2 blocks=30000 size=64 rounds=500", "quick"},
    {"threadtest-8t", "threads=8 blocks=120000 size=64 rounds=500", "full"},
    {"threadtest-8B-2t", "threads=2 blocks=100000 size=8 rounds=400", "full"},
    {"threadtest-1t-lifo", "threads=1 blocks=15000 size=64 rounds=4000 order=1", "full"},
};

struct job {
    uint32_t each, rounds, order;
    size_t size;
    void **blocks;
};

static void work(void *context, unsigned index) {
    const struct job *job = (const struct job *)context;
    void **blocks = job->blocks + (size_t)index * job->each;
    uint64_t sum = 0;
    for (uint32_t round = 0; round < job->rounds; round++) {
        for (uint32_t i = 0; i < job->each; i++) {
            blocks[i] = bench_take(job->size, (uint8_t)(i + round));
        }
        for (uint32_t i = 0; i < job->each; i++) {
            uint32_t at = job->order != 0 ? job->each - 1 - i : i;
            sum += bench_give(blocks[at], job->size, (uint8_t)(at + round));
        }
    }
    bench_tallies[index].sum = sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 1);
    struct job job = {(uint32_t)bench_arg("blocks", 30000) / threads, (uint32_t)bench_arg("rounds", 500),
                      (uint32_t)bench_arg("order", 0), bench_arg("size", 64), NULL};
    job.blocks = (void **)bench_map((size_t)job.each * threads * sizeof(void *));
    bench_live((uint64_t)job.each * threads * job.size);
    struct bench_plan plan = {.work = work, .context = &job};
    bench_team_run(threads, &plan, (uint64_t)job.each * job.rounds * threads);
    return bench_finish(bench_tally_sum(threads));
}
