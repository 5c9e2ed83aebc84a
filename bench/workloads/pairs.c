// SPDX-License-Identifier: MIT OR Apache-2.0
// One block, made and dropped, over and over: the shortest way through an allocator, and nothing else.
//
// Arguments: size= bytes of a block, n= pairs for all threads together, threads=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"pairs-64B", "size=64 n=40000000", "quick"},
    {"pairs-1KiB", "size=1024 n=20000000", "quick"},
    {"pairs-16KiB", "size=16k n=10000000", "full"},
    {"pairs-64B-long", "size=64 n=240000000", "full"},
    {"pairs-64B-2t", "size=64 n=40000000 threads=2", "quick"},
    {"pairs-64B-8t", "size=64 n=240000000 threads=8", "full"},
    // Lever and Boreham's linux-scalability is this test with 512 bytes.
    {"linux-scalability-1t", "size=512 n=60000000 threads=1", "full"},
    {"linux-scalability-2t", "size=512 n=60000000 threads=2", "full"},
    {"linux-scalability-8t", "size=512 n=60000000 threads=8", "full"},
};

struct job {
    size_t size;
    uint64_t each;
};

static void work(void *context, unsigned index) {
    const struct job *job = (const struct job *)context;
    size_t size = job->size;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < job->each; i++) {
        void *block = bench_take(size, (uint8_t)i);
        sum += bench_give(block, size, (uint8_t)i);
    }
    bench_tallies[index].sum = sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 1);
    struct job job = {bench_arg("size", 64), bench_arg("n", 20000000) / threads};
    bench_live(job.size * threads);
    struct bench_plan plan = {.work = work, .context = &job};
    bench_team_run(threads, &plan, job.each * threads);
    return bench_finish(bench_tally_sum(threads));
}
