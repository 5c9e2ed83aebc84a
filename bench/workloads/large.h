// SPDX-License-Identifier: MIT OR Apache-2.0
// What the workloads with large blocks share: blocks that are written whole, as request bodies, images and columns are,
// and sizes that are spread over many doublings.
#ifndef FREEHOLD_BENCH_LARGE_H
#define FREEHOLD_BENCH_LARGE_H

#include "bench.h"

#include <stdatomic.h>

// A block and its size. Sizes here do not fit beside the address in a bench_slot.
struct large {
    uint8_t *bytes;
    size_t size;
};

// Every byte but the last is the stamp, so memory that is lost or mixed up in the middle of a block is found too.
static inline void large_write(struct large block, uint8_t stamp) {
    memset(block.bytes, stamp, block.size);
    bench_stamp(block.bytes, block.size, stamp);
}

static inline struct large large_take(size_t size, uint8_t stamp) {
    struct large block = {(uint8_t *)latency_malloc(size), size};
    if (__builtin_expect(block.bytes == NULL, 0)) {
        bench_fail("bench: malloc(%zu) failed", size);
    }
    large_write(block, stamp);
    return block;
}

// Reads both ends and one byte of each 64 KiB; the stamp says on which of the 16 pages that byte is. Returns what a
// checksum should depend on: what was read, and the size.
static inline uint64_t large_verify(struct large block, uint8_t stamp) {
    for (size_t at = (size_t)(stamp % 16) * 4096 + 1; at + 1 < block.size; at += 64 << 10) {
        if (__builtin_expect(((volatile uint8_t *)block.bytes)[at] != stamp, 0)) {
            bench_fail("bench: byte %zu of block %p of %zu is not %#x", at, (void *)block.bytes, block.size, stamp);
        }
    }
    return block.size + bench_verify(block.bytes, block.size, stamp);
}

static inline uint64_t large_give(struct large block, uint8_t stamp) {
    uint64_t seen = large_verify(block, stamp);
    latency_free(block.bytes);
    return seen;
}

// The payload of all threads together, and the most that it ever was. Blocks are so large that one shared word is no cost.
static struct { _Atomic uint64_t now, peak; } large_live;

// Adds to the payload. A difference below zero wraps around, and so takes away.
static inline void large_live_add(uint64_t bytes) {
    uint64_t now = atomic_fetch_add_explicit(&large_live.now, bytes, memory_order_relaxed) + bytes;
    uint64_t peak = atomic_load_explicit(&large_live.peak, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak_explicit(&large_live.peak, &peak, now, memory_order_relaxed,
                                                                memory_order_relaxed)) {
    }
}

// A size from low to high in which each doubling is as likely as any other: first the doubling, then a place in it. A
// high end that is not low times a power of two is rounded down to one.
static inline size_t large_log_between(struct bench_rng *rng, uint32_t low, uint32_t high) {
    uint32_t doublings = 0;
    while ((uint64_t)low << (doublings + 1) <= high) {
        doublings++;
    }
    if (doublings == 0) {
        return bench_between(rng, low, high);
    }
    uint32_t from = low << bench_below(rng, doublings);
    return from + bench_below(rng, from);
}

#endif
