// SPDX-License-Identifier: MIT OR Apache-2.0
// The histogram of the latency workloads, on times that are known: the places of buckets, percentiles, the sum over threads.
#define _GNU_SOURCE
#define BENCH_LATENCY 1
#include "../workloads/latency.h"

#include <pthread.h>
#include <stdio.h>

static int failures;

static void expect(bool holds, const char *what, uint64_t value) {
    if (!holds) {
        printf("%s: %" PRIu64 "\n", what, value);
        failures++;
    }
}

// A bucket begins where the one before ends, holds its own beginning, and is narrow.
static void buckets(void) {
    for (uint64_t i = 0; i + 1 < LATENCY_BUCKETS; i++) {
        uint64_t begin = latency_bucket_begin(i), end = latency_bucket_begin(i + 1);
        expect(begin < end, "buckets do not rise", i);
        expect(latency_bucket(begin) == i && latency_bucket(end - 1) == i, "a time is in another bucket", i);
        expect(end - begin == 1 || (end - begin) * LATENCY_FINE <= begin, "a bucket is too wide", i);
    }
    expect(latency_bucket(UINT64_MAX) == LATENCY_BUCKETS - 1, "the longest time", latency_bucket(UINT64_MAX));
}

// 10,000 calls of 1 to 50 ticks, 200 times each; one of them 1,000,000.
static void percentiles(void) {
    static struct latency_histogram known;
    for (uint64_t i = 0; i < 9999; i++) {
        latency_count(&known, i / 200 + 1);
    }
    latency_count(&known, 1000000);
    expect(latency_total(&known) == 10000, "calls", latency_total(&known));
    expect(latency_percentile(&known, 5000) == 25, "p50 is not 25", latency_percentile(&known, 5000));
    expect(latency_percentile(&known, 9900) == 50, "p99 is not 50", latency_percentile(&known, 9900));
    expect(latency_percentile(&known, 9999) == 50, "p99.99 is not 50", latency_percentile(&known, 9999));
    expect(latency_percentile(&known, 10000) <= known.most, "p100 is above the longest",
           latency_percentile(&known, 10000));
    expect(known.most == 1000000, "the longest", known.most);
    static struct latency_histogram one;
    latency_count(&one, 7);
    expect(latency_percentile(&one, 5000) == 7 && latency_percentile(&one, 9999) == 7, "one call",
           latency_percentile(&one, 1));
}

static void *note(void *argument) {
    for (uint64_t i = 0; i < 1000; i++) {
        latency_note(LATENCY_MALLOC, latency.clock_cost + *(uint64_t *)argument);
        latency_free(latency_malloc(40));
    }
    return NULL;
}

// Threads that ended count as well, and what the clock costs is taken off. Outside of the section nothing is timed.
static void threads(void) {
    static struct latency_histogram mallocs, frees;
    uint64_t ticks[2] = {3, 40};
    latency_start();
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        expect(pthread_create(&thread, NULL, note, &ticks[i]) == 0, "no thread", 0);
        pthread_join(thread, NULL);
    }
    latency_stop();
    latency_free(latency_malloc(40));
    latency_sum(LATENCY_MALLOC, &mallocs);
    latency_sum(LATENCY_FREE, &frees);
    expect(latency_total(&mallocs) == 4000, "calls of malloc", latency_total(&mallocs));
    expect(latency_total(&frees) == 2000, "calls of free", latency_total(&frees));
    expect(mallocs.counts[latency_bucket(3)] >= 1000, "calls of 3 ticks", mallocs.counts[latency_bucket(3)]);
    expect(mallocs.counts[latency_bucket(40)] >= 1000, "calls of 40 ticks", mallocs.counts[latency_bucket(40)]);
}

int main(void) {
    buckets();
    percentiles();
    threads();
    return failures != 0;
}
