/* Refill and flush: a bin's two magazines, and the way to the depot and the slabs. */
#ifndef FH_CACHE_MAGAZINE_H
#define FH_CACHE_MAGAZINE_H

#include "base/classes.h"
#include "base/tuning.h"
#include "base/types.h"

/* A block of class c (1 … FH_RUN_LAST) for thread t whose bin is empty; NULL when there is no memory. */
void *fh_refill(fh_thread *t, unsigned c);

/* Takes p, of class c, whose bin is full. */
void fh_flush(fh_thread *t, unsigned c, void *p);

/* Pushes p, of class c, whose bin is not full, and notes its place if the thread has a table of them (twice.h). */
void fh_push_noted(fh_thread *t, unsigned c, void *p);

/* The two magazines of a bin change places. There is a previous one. */
void fh_bin_exchange(fh_thread *t, unsigned c);

/* One block straight from the store and back, for threads that have no cache (any more). */
void *fh_take_one(unsigned c);
void fh_give_one(unsigned c, void *p);

/* Flushes all blocks and magazines of a bin to the store. */
void fh_bin_empty(fh_thread *t, unsigned c);

/* Halves what a bin may hold, but not below what it begins with, and flushes one of its magazines at least. */
void fh_bin_halve(fh_thread *t, unsigned c);

/* Checks a bin. True if it was not used since so many checks. */
static inline bool fh_bin_is_unused(fh_rack *rack, unsigned checks) {
    rack->unused_ticks = rack->used ? 0 : (uint8_t)(rack->unused_ticks + 1);
    rack->used = 0;
    if (rack->unused_ticks < checks) return false;
    rack->unused_ticks = 0;
    return true;
}

/* Counts again what the bins of t may hold, because t was interrupted for good while that changed. */
void fh_cache_recount(fh_thread *t);

/* Blocks above 32 KiB are bulky: a bin of them is bounded more strictly, and for all threads together. */
static inline bool fh_class_is_bulky(unsigned c) {
    return fh_class_size(c) > FH_BULKY_FROM;
}

/* Σ bulky_used over all caches, what bins may hold of bulky blocks.
 *
 *     the thread's own sum grows: fetch_add before it      it shrinks: fetch_sub after it
 *
 * relaxed: a figure that no block is reached through. Two threads that read it at once may both find room where there is some
 * for one. A thread that is interrupted for good in between leaves it too high by one bin, never too low. */
extern fh_word fh_bulky_cached FH_HIDDEN;

/* Points a bin at the magazine that is full and empty at once. */
void fh_bin_reset(fh_bin *bin);

/* That magazine's first block: the top and end of every bin that has no magazine. */
extern void *const fh_empty_magazine[2];

#endif
