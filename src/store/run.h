/* Runs of slots: where slabs and large blocks come from. A run is consecutive slots, in one chunk or over several in a row:
 * one bit a slot all the same, so what is released joins what is free on both sides by itself.
 *
 * Best fit within a chunk: hints keep chunks by the length of their longest free run (chunk.h). The search begins with the
 * shortest bucket that will do, lowest address first, and takes the shortest run of that chunk that will do. What no chunk
 * has in one piece is looked for over their borders, lowest first.
 *
 *     chunk 7                chunk 8                chunk 9
 *     ┌───────────────────┬─┬────────────────────┬──────┬──────────────┐
 *     │ in use            │░│░░░░░░░░░░░░░░░░░░░░│░░░░░░│ in use       │    one free run: the end of 7, all of 8, the
 *     └───────────────────┴─┴────────────────────┴──────┴──────────────┘    beginning of 9
 *
 * A run over several chunks is claimed a chunk at a time, upwards. If another thread was first at one of them, the ones before
 * are released again: nothing was written to them and nothing counted. That thread has them then, so one of the two goes on.
 *
 * Thread-safety: any thread. Progress: lock-free; the kernel may block when new chunks are mapped. Cost: some 100 ns for a
 * run in one chunk; over several, some 50 ns for each. */
#ifndef FH_STORE_RUN_H
#define FH_STORE_RUN_H

#include "store/events.h"

/* Claims n slots from a slot on whose number is `phase` more than a multiple of `align`, a power of two above `phase`. With
 * align = n they are in one chunk. Returns the first slot, or FH_NONE: the OS has no more memory, or a limit is met.
 * *clean: it reads as zero. */
size_t fh_run_claim(size_t n, size_t align, size_t phase, bool *clean);

/* The same for a slab of n slots, of which much may never be used. So it is put where no memory is behind the slots, if a chunk
 * has such a place and address space was never refused: memory behind what a slab never hands out is of use to nobody, and stays until
 * a trim. */
size_t fh_run_claim_bare(size_t n, bool *clean);

/* The same for a block that moves: `held` of the n slots are in place of slots that it has, so only the others are asked of a
 * limit and counted. The caller releases the old ones with fh_run_release_held. So the counters and a limit know of each slot
 * that is in use once, at every moment. */
size_t fh_run_claim_for(size_t n, size_t held, size_t align, size_t phase, bool *clean);
void fh_run_release_held(size_t slot, size_t n, bool dirty);

/* Claims n slots of a partition, and so many behind them that nothing will be in: these are not counted, and are not asked of a
 * limit. The caller releases them with fh_run_release_held. */
size_t fh_run_claim_in(unsigned partition, size_t n, size_t behind, size_t align, size_t phase, bool *clean);

/* Claims exactly n slots from this one on, if they are free: how a run grows in place. */
bool fh_run_extend(size_t slot, size_t n, bool *clean);

/* The same, and chunks that are missing are brought if all other slots are free: chunks behind the last one, and dropped ones. So
 * nothing is asked of the OS but what the run grows by, where another place for all of it would count beside the old one. */
bool fh_run_extend_bringing(size_t slot, size_t n, bool *clean);

/* Tells the chunks from the second one on that a run is over their first slots, or no longer. */
void fh_run_set_over(size_t slot, size_t n, bool over);

/* True if the slot is free at this moment. */
bool fh_run_is_free(size_t slot);

/* Releases n slots, with memory behind them or without. */
void fh_run_release(size_t slot, size_t n, bool dirty);

/* Returns chunks of which no slot is in use to the OS, with their address space. Returns the bytes. */
size_t fh_run_drop_free_chunks(void);

/* ── The kept run ────────────────────────────────────────────────────────────────────────────────────────────────────
 *
 * The long block that was freed last is *kept* for the next one of as many slots. Its slots stay claimed, and its record as it is,
 * except that `pages` is 0. So a buffer that comes and goes costs two exchanges of one word. A claim and a release of its slots
 * take thousands of instructions.
 *
 *     fh_counts.kept    0 ──keep──▶ slots, first slot ──take: a block of as many slots──▶ 0
 *                       ▲                │      └──keep of another block: this one is released──▶ that one's
 *                       └─────settle─────┘
 *
 * Each claim of other slots settles first, and so does each purge of free slots. So nobody brings memory while a run waits: it is free in all but
 * name, and the policy counts it as free slots with memory behind them. Who takes it out of the word, by an exchange or a
 * compare-and-swap, owns the slots; that is one thread. Progress: wait-free, and what a release takes. Cost: a locked instruction. */

/* True if just these slots are kept. */
static inline bool fh_run_is_kept(size_t slot, size_t n) {
    return fh_load(&fh_counts.kept) == ((uint64_t)n << 32 | slot);
}

/* Keeps the caller's n slots, which may have memory, with the record of a run of which no block is any more. What was kept
 * before is released. */
void fh_run_keep(size_t slot, size_t n);

/* The first of n slots that were kept, at that alignment; FH_NONE: there are none. They may have memory, and the record of a run. */
size_t fh_run_take_kept(size_t n, size_t align, size_t phase);

/* Releases what is kept. */
void fh_run_settle(void);

#endif
