// SPDX-License-Identifier: MIT OR Apache-2.0
// Times each malloc and free of a workload. A workload that is compiled with BENCH_LATENCY=1 does this and is slower;
// in all others these functions are malloc and free, and nothing else.
//
//     thread ──▶ two histograms of its own ──┐
//     thread ──▶ two histograms of its own ──┴──▶ latency_print: percentiles of all threads together
//
// Only what the workload's clock covers is timed. What two readings of the clock cost with nothing between them is
// measured first, and taken off each time.
#ifndef FREEHOLD_BENCH_LATENCY_H
#define FREEHOLD_BENCH_LATENCY_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#ifndef BENCH_LATENCY
#define BENCH_LATENCY 0
#endif

enum latency_call { LATENCY_MALLOC, LATENCY_FREE, LATENCY_CALLS };

// Times below 64 ticks have a bucket each; above, each doubling has 64. So a bucket is never wider than 1/64 of its times.
enum { LATENCY_FINE_BITS = 6, LATENCY_FINE = 1 << LATENCY_FINE_BITS, LATENCY_DOUBLINGS = 36 };
enum { LATENCY_BUCKETS = LATENCY_FINE * (LATENCY_DOUBLINGS + 1) };

struct latency_histogram {
    uint64_t counts[LATENCY_BUCKETS];
    uint64_t most;
};

struct latency_thread {
    struct latency_histogram calls[LATENCY_CALLS];
    struct latency_thread *next;
};

static struct {
    struct latency_thread *threads; // all that ever ran; the memory of one that ended is read at the end
    uint64_t clock_cost, ticks_at;
    double seconds_at;
    bool is_on;
} latency;

static __thread struct latency_thread *latency_own;

static inline uint64_t latency_bucket(uint64_t ticks) {
    if (ticks < LATENCY_FINE) {
        return ticks;
    }
    unsigned top = 63 - (unsigned)__builtin_clzll(ticks);
    uint64_t doubling = top - LATENCY_FINE_BITS + 1;
    if (doubling > LATENCY_DOUBLINGS) {
        return LATENCY_BUCKETS - 1;
    }
    return doubling * LATENCY_FINE + ((ticks >> (top - LATENCY_FINE_BITS)) & (LATENCY_FINE - 1));
}

// The shortest time that belongs into the bucket.
static inline uint64_t latency_bucket_begin(uint64_t bucket) {
    uint64_t doubling = bucket / LATENCY_FINE;
    if (doubling == 0) {
        return bucket;
    }
    return (LATENCY_FINE + bucket % LATENCY_FINE) << (doubling - 1);
}

// No instruction of the call may move across a reading of the counter, in either direction.
static inline uint64_t latency_ticks(void) {
#if defined(__x86_64__)
    unsigned cpu;
    _mm_lfence();
    uint64_t ticks = __rdtscp(&cpu);
    _mm_lfence();
    return ticks;
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
#endif
}

static inline double latency_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void latency_count(struct latency_histogram *histogram, uint64_t ticks) {
    histogram->counts[latency_bucket(ticks)]++;
    histogram->most = ticks > histogram->most ? ticks : histogram->most;
}

// Memory from the kernel, present before it is used: the first call of a thread must not pay for it.
__attribute__((noinline, unused)) static struct latency_thread *latency_join(void) {
    void *memory = mmap(NULL, sizeof(struct latency_thread), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        _exit(2);
    }
    latency_own = (struct latency_thread *)memory;
    latency_own->next = __atomic_load_n(&latency.threads, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&latency.threads, &latency_own->next, latency_own, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
    }
    return latency_own;
}

static inline void latency_note(enum latency_call call, uint64_t ticks) {
    struct latency_thread *own = latency_own != NULL ? latency_own : latency_join();
    latency_count(&own->calls[call], ticks > latency.clock_cost ? ticks - latency.clock_cost : 0);
}

static inline bool latency_is_on(void) {
    return BENCH_LATENCY && __atomic_load_n(&latency.is_on, __ATOMIC_RELAXED);
}

static inline void *latency_malloc(size_t size) {
    if (!latency_is_on()) {
        return malloc(size);
    }
    uint64_t begin = latency_ticks();
    void *block = malloc(size);
    latency_note(LATENCY_MALLOC, latency_ticks() - begin);
    return block;
}

static inline void latency_free(void *block) {
    if (!latency_is_on()) {
        free(block);
        return;
    }
    uint64_t begin = latency_ticks();
    free(block);
    latency_note(LATENCY_FREE, latency_ticks() - begin);
}

// The time, in ticks, that so many of ten thousand calls do not exceed: the middle of the bucket that holds it, and never
// more than the longest time of all.
__attribute__((unused)) static uint64_t latency_percentile(const struct latency_histogram *histogram,
                                                           uint64_t of_10000) {
    uint64_t total = 0, seen = 0;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        total += histogram->counts[i];
    }
    // Rounded up, and never the call before the first.
    uint64_t rank = (total / 10000) * of_10000 + (total % 10000 * of_10000 + 9999) / 10000;
    rank = rank != 0 ? rank : 1;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        seen += histogram->counts[i];
        if (seen >= rank) {
            uint64_t begin = latency_bucket_begin(i), width = latency_bucket_begin(i + 1) - begin;
            uint64_t middle = begin + width / 2;
            return middle < histogram->most ? middle : histogram->most;
        }
    }
    return histogram->most;
}

// The median of many pairs of readings: some are longer because the processor was taken away between them.
__attribute__((unused)) static uint64_t latency_clock_cost(void) {
    static struct latency_histogram pairs;
    for (int i = 0; i < 20000; i++) {
        uint64_t begin = latency_ticks();
        latency_count(&pairs, latency_ticks() - begin);
    }
    return latency_percentile(&pairs, 5000);
}

__attribute__((unused)) static void latency_start(void) {
    if (!BENCH_LATENCY) {
        return;
    }
    if (latency.ticks_at == 0) {
        latency.clock_cost = latency_clock_cost();
        latency.seconds_at = latency_seconds();
        latency.ticks_at = latency_ticks();
    }
    __atomic_store_n(&latency.is_on, true, __ATOMIC_RELAXED);
}

__attribute__((unused)) static void latency_stop(void) {
    __atomic_store_n(&latency.is_on, false, __ATOMIC_RELAXED);
}

// Adds up what all threads counted for one kind of call.
__attribute__((unused)) static void latency_sum(enum latency_call call, struct latency_histogram *sum) {
    for (struct latency_thread *t = __atomic_load_n(&latency.threads, __ATOMIC_ACQUIRE); t != NULL; t = t->next) {
        const struct latency_histogram *own = &t->calls[call];
        for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
            sum->counts[i] += own->counts[i];
        }
        sum->most = own->most > sum->most ? own->most : sum->most;
    }
}

__attribute__((unused)) static uint64_t latency_total(const struct latency_histogram *histogram) {
    uint64_t total = 0;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        total += histogram->counts[i];
    }
    return total;
}

// Writes lines "malloc_p99_ns 12.5", and none for a call that was not made. The length of a tick is known best at the end, from the time of the whole run.
__attribute__((unused)) static void latency_print(void (*print)(const char *format, ...)) {
    static const struct {
        const char *name;
        uint64_t of_10000;
    } shown[] = {{"p50", 5000}, {"p99", 9900}, {"p99.9", 9990}, {"p99.99", 9999}};
    static const char *const names[LATENCY_CALLS] = {"malloc", "free"};
    static struct latency_histogram sums[LATENCY_CALLS];
    if (!BENCH_LATENCY || latency.ticks_at == 0) {
        return;
    }
    uint64_t ticks = latency_ticks() - latency.ticks_at;
    double ns = (latency_seconds() - latency.seconds_at) * 1e9 / (double)(ticks != 0 ? ticks : 1);
    print("clock_cost_ns %.2f\n", (double)latency.clock_cost * ns);
    for (unsigned call = 0; call < LATENCY_CALLS; call++) {
        latency_sum((enum latency_call)call, &sums[call]);
        print("%s_calls %" PRIu64 "\n", names[call], latency_total(&sums[call]));
        if (latency_total(&sums[call]) == 0) {
            continue;
        }
        for (unsigned i = 0; i < sizeof shown / sizeof *shown; i++) {
            uint64_t time = latency_percentile(&sums[call], shown[i].of_10000);
            print("%s_%s_ns %.2f\n", names[call], shown[i].name, (double)time * ns);
        }
        print("%s_max_ns %.2f\n", names[call], (double)sums[call].most * ns);
    }
}

#endif
