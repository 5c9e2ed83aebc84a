// SPDX-License-Identifier: MIT OR Apache-2.0
// A ring of 8 blocks of one size; the oldest is replaced by a new one, over and over. Buffers, images,
// messages: sizes between "small" and "the system's business", where allocators tend to fall off a cliff.
//
// The figure should be flat over the sizes. Only the first and last byte of a block are touched, so what is
// measured is the allocator, and the page faults that it causes by giving memory back too early.
// Arguments: size=, ring= blocks, n= replacements for all threads, threads=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"ring-1KiB", "size=1k n=40000000", "full"},
    {"ring-2KiB", "size=2k n=40000000", "full"},
    {"ring-5000B", "size=5000 n=20000000 ring=32", "quick"},
    {"ring-16KiB", "size=16k n=20000000", "quick"},
    {"ring-32KiB", "size=32k n=20000000", "full"},
    {"ring-64KiB", "size=64k n=1000000", "full"},
    {"ring-128KiB", "size=128k n=1000000", "quick"},
    {"ring-512KiB", "size=512k n=600000", "full"},
    {"ring-1MiB", "size=1m n=600000", "quick"},
    {"ring-4MiB", "size=4m n=200000", "full"},
    {"ring-16MiB", "size=16m n=200000", "full"},
    {"ring-1MiB-2t", "size=1m n=600000 threads=2", "full"},
};

enum { MAX_RING = 1024 };

struct job {
    size_t size;
    uint32_t ring;
    uint64_t each;
};

static void work(void *context, unsigned index) {
    const struct job *job = (const struct job *)context;
    void *ring[MAX_RING];
    size_t size = job->size;
    uint64_t sum = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < job->ring; i++) {
        ring[i] = bench_take(size, (uint8_t)i);
    }
    for (uint64_t i = 0; i < job->each; i++) {
        sum += bench_give(ring[at], size, (uint8_t)at);
        ring[at] = bench_take(size, (uint8_t)at);
        at = at + 1 == job->ring ? 0 : at + 1;
    }
    for (uint32_t i = 0; i < job->ring; i++) {
        sum += bench_give(ring[i], size, (uint8_t)i);
    }
    bench_tallies[index].sum = sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 1);
    struct job job = {bench_arg("size", 1024), (uint32_t)bench_arg("ring", 8), bench_arg("n", 1000000) / threads};
    if (job.ring == 0 || job.ring > MAX_RING) {
        bench_fail("rings: a ring has 1 to %d blocks", MAX_RING);
    }
    bench_live(job.size * job.ring * threads);
    struct bench_plan plan = {.work = work, .context = &job};
    bench_team_run(threads, &plan, (job.each + job.ring) * threads);
    return bench_finish(bench_tally_sum(threads));
}
