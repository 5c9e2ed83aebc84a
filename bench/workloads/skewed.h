// SPDX-License-Identifier: MIT OR Apache-2.0
// Sizes as programs ask for them: four of five blocks are below 128 bytes, and the rest has a tail to 8 KiB in which each
// doubling is equally likely.
#ifndef FREEHOLD_BENCH_SKEWED_H
#define FREEHOLD_BENCH_SKEWED_H

#include "bench.h"

// The mean follows from the law: four fifths of 67 bytes, and a fifth of six doublings of a middle of 1.5 times their start.
enum { SKEWED_MEAN = 457 };
enum { SKEWED_SMALLEST = 8, SKEWED_KNEE = 128, SKEWED_DOUBLINGS = 6, SKEWED_LARGEST = SKEWED_KNEE << SKEWED_DOUBLINGS };

static inline uint32_t skewed_size(struct bench_rng *rng) {
    if (bench_below(rng, 5) != 0) {
        return bench_between(rng, SKEWED_SMALLEST, SKEWED_KNEE - 1);
    }
    uint32_t from = (uint32_t)SKEWED_KNEE << bench_below(rng, SKEWED_DOUBLINGS);
    return from + bench_below(rng, from);
}

// The stamp follows from the size, because who frees a block may know nothing else of it.
static inline bench_slot skewed_take(struct bench_rng *rng) {
    uint32_t size = skewed_size(rng);
    return bench_take_slot(size, (uint8_t)size);
}

static inline uint64_t skewed_give(bench_slot slot) {
    return bench_slot_size(slot) + bench_give_slot(slot, (uint8_t)bench_slot_size(slot));
}

#endif
