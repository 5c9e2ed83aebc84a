/* One chunk: 64 slots, and one word that says which of them are free. Slots are claimed by compare-and-swap and released by
 * fetch_or, and join their free neighbours by that instruction. Runs of slots, which may go over several chunks, are in
 * run.h; all that is here is about one chunk, and knows nothing of limits and counters.
 *
 * Hints keep chunks by the length of their longest free run (the length buckets).
 *
 * Thread-safety: any thread. Progress: wait-free, except a claim: lock-free. */
#ifndef FH_STORE_CHUNK_H
#define FH_STORE_CHUNK_H

#include "base/types.h"

/* Slots of a chunk that are claimed, and what they were before: for the counters. */
typedef struct {
    size_t slots;
    size_t dirty;  /* with memory behind them */
    size_t purged; /* with memory once, but not now */
} fh_chunk_weight;

/* Claims the shortest free run of n ≤ 64 slots in this chunk, at a multiple of `align` ≤ 64 slots. Returns the first one, a
 * number below 64; 64: there is none. *free: what the chunk's free word was before. `bare`: only slots without memory behind
 * them, as far as can be seen; the caller counts what it has got (fh_chunk_weigh). */
unsigned fh_chunk_claim_fit(size_t chunk, unsigned n, unsigned align, bool bare, uint64_t *free);

/* Claims exactly these slots, if all of them are free. */
bool fh_chunk_claim_exactly(size_t chunk, uint64_t mask);

/* Adds what the claimed slots were. */
void fh_chunk_weigh(size_t chunk, uint64_t mask, fh_chunk_weight *sum);

/* Slots that the caller has claimed are about to be free, with memory behind them or without. */
void fh_chunk_note(size_t chunk, uint64_t mask, bool dirty);

/* Makes claimed slots free. */
void fh_chunk_release(size_t chunk, uint64_t mask);

/* Shows a chunk that was just taken from the window to all threads: all of it is free. */
void fh_chunk_open(size_t chunk);

/* The chunk's free word was `before`, and this thread has just changed it: keeps the length buckets right. */
void fh_chunk_changed(size_t chunk, uint64_t before);

/* The length bucket of a chunk whose free word is `free`; FH_LENGTHS: it has no free slot. */
unsigned fh_chunk_length(uint64_t free);

/* The bucket of a run of that length, and the shortest one in a bucket. */
unsigned fh_chunk_bucket_of(unsigned length);
unsigned fh_chunk_length_of(unsigned bucket);

/* The chunk does not belong into this bucket, or so it seemed: clears its bit, and enters it where it belongs. */
void fh_chunk_leave_bucket(size_t chunk, unsigned bucket);

#endif
