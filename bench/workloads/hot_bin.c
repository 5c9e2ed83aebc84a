// SPDX-License-Identifier: MIT OR Apache-2.0
// The hot bin: all threads live on cells of one size, 64 bytes, each allocating and freeing in bursts. With
// one list for a size, as MoarVM had at first, every thread fights for the same cache line.
//
// Arguments: threads=, burst= cells made before they are dropped, size=, n= cells of all threads.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"hot-bin-1-2t", "burst=1 threads=2 n=60000000", "full"},
    {"hot-bin-32-1t", "burst=32 threads=1 n=60000000", "full"},
    {"hot-bin-32-2t", "burst=32 threads=2 n=40000000", "quick"},
    {"hot-bin-32-8t", "burst=32 threads=8 n=100000000", "full"},
};

enum { MAX_BURST = 4096 };

struct job {
    uint64_t rounds;
    uint32_t burst;
    size_t size;
};

static void work(void *context, unsigned index) {
    const struct job *job = (const struct job *)context;
    void *cells[MAX_BURST];
    uint64_t sum = 0;
    for (uint64_t round = 0; round < job->rounds; round++) {
        for (uint32_t i = 0; i < job->burst; i++) {
            cells[i] = bench_take(job->size, (uint8_t)(i ^ round));
        }
        for (uint32_t i = 0; i < job->burst; i++) {
            sum += bench_give(cells[i], job->size, (uint8_t)(i ^ round));
        }
    }
    bench_tallies[index].sum = sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 2);
    struct job job = {0, (uint32_t)bench_arg("burst", 32), bench_arg("size", 64)};
    if (job.burst == 0 || job.burst > MAX_BURST) {
        bench_fail("hot_bin: a burst has 1 to %d cells", MAX_BURST);
    }
    job.rounds = bench_arg("n", 60000000) / threads / job.burst;
    bench_live((uint64_t)threads * job.burst * job.size);
    struct bench_plan plan = {.work = work, .context = &job};
    bench_team_run(threads, &plan, job.rounds * job.burst * threads);
    return bench_finish(bench_tally_sum(threads));
}
