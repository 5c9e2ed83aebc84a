// SPDX-License-Identifier: MIT OR Apache-2.0
// A spike, and then nothing: the program allocates much memory within a second, frees all of it, and sleeps.
// Does the memory go home while it sleeps? OctAlloc's "stress and release", and the complaint heard most
// often about servers.
//
// RSS is taken at once, after 0.1 s, 1 s and on, and after a request to trim; and as a series over the whole
// of it.
// Arguments: total= bytes, min=, max=, sleep= tenths of a second, random=1 frees in random order, threads=,
// seed=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"spike-64B-256m", "total=256m min=64 max=64 sleep=10", "quick"},
    {"spike-64B-512m", "total=512m min=64 max=64 sleep=50", "full"},
    {"spike-mixed-512m", "total=512m min=16 max=32768 sleep=100 random=1", "full"},
    {"spike-small-1g", "total=1024m min=16 max=512 sleep=50", "full"},
    {"spike-small-2t", "total=512m min=16 max=512 sleep=10 threads=2", "full"},
};

struct job {
    bench_slot *slots;
    uint32_t *order;
    uint32_t each, min, max;
    bool random;
    uint64_t seed;
};

// Sizes lean to the small end when the range is wide: the square of a uniform draw.
static uint32_t pick_size(struct bench_rng *rng, const struct job *job) {
    if (job->max <= 4096) {
        return bench_between(rng, job->min, job->max);
    }
    uint64_t draw = bench_below(rng, 65536);
    return job->min + (uint32_t)((draw * draw >> 16) * (job->max - job->min) >> 16);
}

static void fill(void *context, unsigned index) {
    struct job *job = (struct job *)context;
    struct bench_rng rng = bench_rng_make(job->seed, index);
    bench_slot *slots = job->slots + (size_t)index * job->each;
    uint64_t live = 0;
    for (uint32_t i = 0; i < job->each; i++) {
        uint32_t size = pick_size(&rng, job);
        uint8_t *block = (uint8_t *)bench_take(size, (uint8_t)i);
        // The memory counts only when its pages are there: one byte in each of them.
        for (uint32_t at = 4096; at + 1 < size; at += 4096) {
            block[at] = 1;
        }
        slots[i] = bench_pack(block, size);
        live += size;
    }
    bench_tallies[index].live = live;
}

static void drain(void *context, unsigned index) {
    struct job *job = (struct job *)context;
    bench_slot *slots = job->slots + (size_t)index * job->each;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < job->each; i++) {
        uint32_t at = job->random ? job->order[i] : i;
        sum += bench_give_slot(slots[at], (uint8_t)at);
    }
    bench_tallies[index].sum = sum;
}

static void shuffle(uint32_t *order, uint32_t count, uint64_t seed) {
    struct bench_rng rng = bench_rng_make(seed, 1000);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = bench_below(&rng, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
}

// With several threads each drains what it filled itself, in one thread, and threads meet between the two.
static pthread_barrier_t full;

static void fill_and_drain(void *context, unsigned index) {
    fill(context, index);
    pthread_barrier_wait(&full);
    drain(context, index);
}

static void after(uint64_t tenths) {
    static const struct {
        double at;
        const char *name;
    } moments[] = {{0.1, "after_0.1s"}, {1, "after_1s"}, {5, "after_5s"}, {10, "after_10s"}};
    double slept = 0;
    bench_moment("after_0s");
    for (size_t i = 0; i < sizeof moments / sizeof *moments && moments[i].at <= (double)tenths / 10 + 0.001; i++) {
        bench_series_wait(moments[i].at - slept, 0.05);
        slept = moments[i].at;
        bench_moment(moments[i].name);
    }
    bench_trim();
    bench_moment("after_trim");
    bench_series_point();
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    static struct job job;
    unsigned threads = (unsigned)bench_arg("threads", 1);
    uint64_t total = bench_arg("total", 512 << 20);
    job.min = (uint32_t)bench_arg("min", 64);
    job.max = (uint32_t)bench_arg("max", 64);
    job.random = bench_arg("random", 0) != 0;
    job.seed = bench_arg("seed", 1);
    uint32_t mean = job.max <= 4096 ? (job.min + job.max) / 2 : job.min + (job.max - job.min) / 3;
    job.each = (uint32_t)(total / mean / threads);
    job.slots = (bench_slot *)bench_map((size_t)job.each * threads * sizeof(bench_slot));
    job.order = (uint32_t *)bench_map(job.random ? job.each * sizeof(uint32_t) : 4096);
    if (job.random) {
        shuffle(job.order, job.each, job.seed);
    }
    pthread_barrier_init(&full, NULL, threads);
    bench_series_point();
    struct bench_plan plan = {.work = fill_and_drain, .context = &job};
    if (threads == 1) {
        // The only thread may look at the peak between the two halves.
        bench_clock_start();
        fill(&job, 0);
        bench_clock_stop(job.each);
        bench_moment("full");
        bench_series_point();
        bench_clock_start();
        drain(&job, 0);
        bench_clock_stop(job.each);
    } else {
        bench_team_run(threads, &plan, 2 * (uint64_t)job.each * threads);
    }
    bench_series_point();
    after(bench_arg("sleep", 10));
    bench_live(bench_tally_live(threads));
    bench_series_print("rss");
    return bench_finish(bench_tally_sum(threads));
}
