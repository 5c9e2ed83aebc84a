/* The changes of a heap's bitmaps: atomic, or plain on a private heap, which one thread has. */
#ifndef FH_HEAP_WORDS_H
#define FH_HEAP_WORDS_H

#include "base/classes.h"
#include "heap/types.h"

/* Claims bits that were seen set: acquire, so that what the last holder of the block wrote comes before what the next one does.
 * False: *seen is what is there now. */
static inline bool fh_bits_claim(const fh_heap *h, fh_word *w, uint64_t *seen, uint64_t bits) {
    if (!fh_heap_is_private(h)) return fh_cas_acquire(w, seen, *seen & ~bits);
    fh_store(w, *seen & ~bits);
    return true;
}

/* Release: what the holder wrote, before the next claim. Returns what was there. */
static inline uint64_t fh_bits_set(const fh_heap *h, fh_word *w, uint64_t bits) {
    if (!fh_heap_is_private(h)) return fh_or_release(w, bits);
    uint64_t before = fh_load(w);
    fh_store(w, before | bits);
    return before;
}

/* Acquire and release: it decides which of two frees of a block is the first. */
static inline uint64_t fh_bits_clear(const fh_heap *h, fh_word *w, uint64_t bits) {
    if (!fh_heap_is_private(h)) return fh_and_acq_rel(w, ~bits);
    uint64_t before = fh_load(w);
    fh_store(w, before & ~bits);
    return before;
}

/* Bits of the blocks of an extent in its word w: not those where the header is. */
static inline uint64_t fh_extent_all(const fh_extent *e, unsigned w) {
    unsigned below = e->blocks - w * 64, header = (unsigned)e->begin;
    uint64_t bits = fh_low_mask(below < 64 ? below : 64);
    return header <= w * 64 ? bits : bits & ~fh_low_mask(header - w * 64 < 64 ? header - w * 64 : 64);
}

/* Where an extent of class c has the bytes of its blocks at the earliest, and how many there are: one more, for what is behind the
 * last block. Each is some cache lines further on than the one before, so that these bytes fall into different cache sets. */
static inline size_t fh_extent_out_at(unsigned c) {
    return offsetof(fh_extent, free) + (fh_class_table[c].blocks + 63u) / 64 * sizeof(fh_word);
}

static inline size_t fh_extent_bytes_out(unsigned c) {
    return fh_round_up(fh_class_table[c].blocks + 1u, sizeof(fh_word));
}

/* Block i: 1 = the program has it. */
static inline fh_byte *fh_extent_out(const fh_extent *e, unsigned i) {
    return (fh_byte *)((uintptr_t)e + e->out) + i;
}

/* Who has claimed it gives it to the program. Nodes are not the program's. */
static inline void fh_extent_hand_out(const fh_extent *e, unsigned i) {
    if (FH_LIKELY(e->list != 0)) fh_byte_store(fh_extent_out(e, i), 1);
}

#endif
