// SPDX-License-Identifier: MIT OR Apache-2.0
// Firebird's class_perf: a million small items, the half of them freed in the order of their keys, larger
// ones put into the holes, and the rest freed. Keys are the sequence n ← n·47163 − 57412 in 32 bits with
// wrap-around; sizes come from n with C's remainder, which takes the sign of n: 1 to 50 bytes, then 1 to 250.
//
// Each phase is timed apart, in nanoseconds of wall time for an operation.
// Arguments: rounds=, items=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"class-perf", "rounds=2", "quick"},
    {"class-perf-long", "rounds=8", "full"},
};

struct item {
    int32_t key;
    uint32_t size;
    void *block;
};

static struct {
    struct item *small, *spare, *big;
    uint32_t items, bigs;
    double phases[4];
} all;

static int32_t next_key(int32_t n) {
    return (int32_t)((uint32_t)n * 47163u - 57412u);
}

// Sorts by key, eight bits a round, with the sign bit turned so that negative keys come first. Stable, so
// equal keys keep the order of birth on every machine; and it needs no memory but the spare array.
static void sort_by_key(struct item *items, struct item *spare, uint32_t count) {
    for (int shift = 0; shift < 32; shift += 8) {
        uint32_t starts[257] = {0};
        for (uint32_t i = 0; i < count; i++) {
            starts[((((uint32_t)items[i].key ^ UINT32_C(0x80000000)) >> shift) & 255) + 1]++;
        }
        for (int i = 0; i < 256; i++) {
            starts[i + 1] += starts[i];
        }
        for (uint32_t i = 0; i < count; i++) {
            spare[starts[(((uint32_t)items[i].key ^ UINT32_C(0x80000000)) >> shift) & 255]++] = items[i];
        }
        struct item *swap = items;
        items = spare;
        spare = swap;
    }
}

static void make(struct item *items, uint32_t count, int32_t modulus, int32_t *n) {
    for (uint32_t i = 0; i < count; i++) {
        *n = next_key(*n);
        items[i].key = *n;
        items[i].size = (uint32_t)((*n % modulus + modulus) / 2 + 1);
        items[i].block = bench_take(items[i].size, (uint8_t)items[i].key);
    }
}

static uint64_t drop(const struct item *items, uint32_t from, uint32_t to) {
    uint64_t sum = 0;
    for (uint32_t i = from; i < to; i++) {
        sum += bench_give(items[i].block, items[i].size, (uint8_t)items[i].key) * i;
    }
    return sum;
}

static uint64_t bytes_of(const struct item *items, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += items[i].size;
    }
    return bytes;
}

static uint64_t run_round(int32_t *n) {
    uint64_t sum;
    double times[5];
    bench_clock_start();
    times[0] = bench_now();
    make(all.small, all.items, 50, n);
    times[1] = bench_now();
    bench_clock_stop(all.items);
    bench_live(bytes_of(all.small, all.items));
    sort_by_key(all.small, all.spare, all.items);
    bench_clock_start();
    double resumed = bench_now();
    sum = drop(all.small, 0, all.items / 2);
    times[2] = bench_now();
    make(all.big, all.bigs, 250, n);
    times[3] = bench_now();
    sum += drop(all.small, all.items / 2, all.items);
    sum += drop(all.big, 0, all.bigs);
    times[4] = bench_now();
    bench_clock_stop(all.items + 2 * all.bigs);
    all.phases[0] += times[1] - times[0];
    all.phases[1] += times[2] - resumed;
    all.phases[2] += times[3] - times[2];
    all.phases[3] += times[4] - times[3];
    return sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    uint32_t rounds = (uint32_t)bench_arg("rounds", 3);
    all.items = (uint32_t)bench_arg("items", 1000000);
    all.bigs = all.items / 10;
    all.small = (struct item *)bench_map(all.items * sizeof(struct item));
    all.spare = (struct item *)bench_map(all.items * sizeof(struct item));
    all.big = (struct item *)bench_map(all.bigs * sizeof(struct item));
    int32_t n = 0;
    uint64_t check = 0;
    for (uint32_t i = 0; i < rounds; i++) {
        check += run_round(&n);
    }
    const char *names[] = {"make_small", "drop_half", "make_big", "drop_rest"};
    double ops[] = {all.items, all.items / 2.0, all.bigs, all.items / 2.0 + all.bigs};
    for (int i = 0; i < 4; i++) {
        bench_print("phase_%s_ns %.2f\n", names[i], all.phases[i] * 1e9 / (ops[i] * rounds));
    }
    return bench_finish(check);
}
