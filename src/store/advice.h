/* Which parts of the window are on huge pages. A huge page makes memory faster to reach, and its first touch costs less
 * than that of 512 small ones; but only where the kernel has one at hand, and only while nearly all of it is used. So the
 * kernel is advised by what a chunk is:
 *
 *     young        the first chunks of a process          small pages: a small process pays for what it touches
 *     grown        the others                             huge pages
 *     in a while   chunks and halves that begin when      small pages
 *                  huge pages have just proved slow
 *     split        halves of which pages went back        small pages, until all of the half has gone
 *                  one by one
 *
 * A half of a chunk, 2 MiB, is a huge page. Thread-safety: the functions that take a chunk or slots say what the caller
 * must hold. Progress: wait-free but for the kernel's calls. */
#ifndef FH_STORE_ADVICE_H
#define FH_STORE_ADVICE_H

#include "base/types.h"

/* A chunk is started, by a caller who has not shown it to anybody yet. */
void fh_advice_new_chunk(size_t chunk);

/* True if the heap has nearly filled its young chunks. The next one would cost 2 MiB with its first block, so slabs that are
 * kept apart for speed alone had better be shared. */
bool fh_advice_huge_is_near(void);

/* True if the chunk was advised to be on huge pages. */
bool fh_advice_is_huge(size_t chunk);

/* The caller has claimed this slot for small blocks, and nobody had any other of its half, which has no memory: the first
 * touch brings a huge page, if the kernel was asked for one. Does that touch and sees how long it takes. */
void fh_advice_opened(size_t slot);

/* May pages of this half (0 or 1) of a chunk on huge pages go back one by one, when `free` bytes could? If so, the half
 * counts as split from now on, until all of it goes. */
bool fh_advice_may_split(size_t chunk, unsigned half, size_t free);

/* Pages of this half, or of these slots, are about to go back while neighbours on their huge pages stay: tells the kernel
 * to leave it so. The caller holds slots, or blocks of a slab, on each huge page that they touch. */
void fh_advice_stay_split(size_t chunk, unsigned half);
void fh_advice_splits(size_t first_slot, size_t last_slot);

/* These halves, as bits 0 and 1, have gone back whole, and the caller holds all of their slots: huge pages once more. */
void fh_advice_whole_again(size_t chunk, uint64_t halves);

#endif
