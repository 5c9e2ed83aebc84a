// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocks between 64 KiB and 2 MiB, each written whole: request bodies, rows of a matrix, pieces of a file. A heap is
// filled with them, and then random ones are replaced, each new one written whole again.
//
// What is resident should be what was asked for: sizes that are no powers of two show what an allocator rounds to.
// rss_over_live@filled and rss_over_live@end are the resident bytes without the workload's own, divided by the payload.
// Arguments: total= bytes for all threads together, min= and max= bytes, rounds= replacements of a block on average,
// threads=, seed=.
#include "large.h"

static const struct bench_variant variants[] = {
    {"large-fill-66000", "total=200m min=66000 max=66000 rounds=8", "quick"},
    {"large-fill-100000", "total=200m min=100000 max=100000 rounds=8", "full"},
    {"large-fill-200000", "total=200m min=200000 max=200000 rounds=8", "quick"},
    {"large-fill-600000", "total=200m min=600000 max=600000 rounds=8", "full"},
    {"large-fill-1100000", "total=200m min=1100000 max=1100000 rounds=8", "quick"},
    {"large-fill-1900000", "total=200m min=1900000 max=1900000 rounds=8", "full"},
    {"large-fill-41000", "total=256m min=41000 max=41000 rounds=4", "full"},
    {"large-fill-50000", "total=256m min=50000 max=50000 rounds=4", "full"},
    {"large-fill-82000", "total=256m min=82000 max=82000 rounds=4", "full"},
    {"large-fill-140000", "total=256m min=140000 max=140000 rounds=4", "full"},
    {"large-fill-280000", "total=256m min=280000 max=280000 rounds=4", "full"},
    {"large-fill-420000", "total=256m min=420000 max=420000 rounds=4", "full"},
    {"large-fill-820000", "total=256m min=820000 max=820000 rounds=4", "full"},
    {"large-fill-2600000", "total=256m min=2600000 max=2600000 rounds=4", "full"},
    {"large-fill-4100000", "total=256m min=4100000 max=4100000 rounds=4", "full"},
    {"large-fill-mixed", "total=200m min=64k max=2m rounds=8", "quick"},
    {"large-fill-mixed-8t", "total=200m min=64k max=2m rounds=8 threads=8", "full"},
};

static struct {
    struct large *table;
    uint32_t room, min, max; // room: blocks that a thread's part of the table can have
    uint32_t counts[BENCH_MAX_THREADS];
    uint64_t each_bytes, each_replacements, seed;
    unsigned threads;
    pthread_barrier_t filled, reported, ended;
} all;

static void fill(unsigned index, struct bench_rng *rng) {
    struct large *table = all.table + (size_t)index * all.room;
    uint32_t count = 0;
    for (uint64_t live = 0; live < all.each_bytes; count++) {
        table[count] = large_take(bench_between(rng, all.min, all.max), (uint8_t)count);
        large_live_add(table[count].size);
        live += table[count].size;
    }
    all.counts[index] = count;
}

static void replace(unsigned index, struct bench_rng *rng) {
    struct large *table = all.table + (size_t)index * all.room;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < all.each_replacements; i++) {
        uint32_t at = bench_below(rng, all.counts[index]);
        size_t old = table[at].size;
        sum += large_give(table[at], (uint8_t)at);
        table[at] = large_take(bench_between(rng, all.min, all.max), (uint8_t)at);
        large_live_add(table[at].size - old);
    }
    bench_tallies[index].sum = sum;
}

static void print_ratio(const char *moment) {
    uint64_t live = large_live.now;
    bench_print("live@%s %" PRIu64 "\n", moment, live);
    bench_print("rss_over_live@%s %.3f\n", moment, (double)(bench_rss() - bench_own_bytes) / (double)live);
}

// Called between filling and replacing. The clock is stopped, and the other threads wait.
static void report_filled(void) {
    uint64_t ops = 0;
    for (unsigned i = 0; i < all.threads; i++) {
        ops += all.counts[i];
    }
    bench_clock_stop(ops);
    bench_moment("filled");
    print_ratio("filled");
    bench_clock_start();
}

static void work(void *context, unsigned index) {
    (void)context;
    struct bench_rng rng = bench_rng_make(all.seed, index);
    fill(index, &rng);
    if (all.threads == 1) {
        report_filled();
    } else {
        pthread_barrier_wait(&all.filled);
        pthread_barrier_wait(&all.reported);
    }
    replace(index, &rng);
}

static void report_between(void *context) {
    (void)context;
    pthread_barrier_wait(&all.filled);
    report_filled();
    pthread_barrier_wait(&all.reported);
}

// No thread frees before the first one has read what is resident.
static void empty(void *context, unsigned index) {
    (void)context;
    if (index == 0) {
        print_ratio("end");
    }
    pthread_barrier_wait(&all.ended);
    struct large *table = all.table + (size_t)index * all.room;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < all.counts[index]; i++) {
        sum += large_give(table[i], (uint8_t)i);
    }
    bench_tallies[index].sum += sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    all.threads = (unsigned)bench_arg("threads", 1);
    all.min = (uint32_t)bench_arg("min", 64 << 10);
    all.max = (uint32_t)bench_arg("max", 2 << 20);
    if (all.threads == 0 || all.threads > BENCH_MAX_THREADS || all.min == 0 || all.max < all.min) {
        bench_fail("large_fill: 1 to %d threads, and min at most max", BENCH_MAX_THREADS);
    }
    all.each_bytes = bench_arg("total", 200 << 20) / all.threads;
    all.each_replacements = bench_arg("rounds", 8) * all.each_bytes * 2 / ((uint64_t)all.min + all.max);
    all.seed = bench_arg("seed", 1);
    all.room = (uint32_t)(all.each_bytes / all.min + 1);
    all.table = (struct large *)bench_map((size_t)all.room * all.threads * sizeof(struct large));
    pthread_barrier_init(&all.filled, NULL, all.threads + 1);
    pthread_barrier_init(&all.reported, NULL, all.threads + 1);
    pthread_barrier_init(&all.ended, NULL, all.threads);
    struct bench_plan plan = {.work = work, .clean = empty, .during = all.threads > 1 ? report_between : NULL};
    bench_team_run(all.threads, &plan, all.each_replacements * all.threads);
    bench_live(large_live.peak);
    return bench_finish(bench_tally_sum(all.threads));
}
