/* Huge pages: which parts of the window the kernel was asked to put on them. A half of a chunk, 2 MiB, is a huge page. It
 * makes memory faster to reach, and its first touch costs less than that of 512 small pages. But it is only worth having
 * where the kernel has one ready, and only while nearly all of it is used.
 *
 *     young        the first chunks of a process, more    small pages: a small process pays for what it touches
 *                  of them in a sparse heap, fewer in a
 *                  dense one
 *     in part      chunks behind others on small pages of  small pages
 *                  which the program touches less than half
 *     grown        the others                             huge pages
 *     passed over  chunks and halves that begin while     small pages
 *                  huge pages are slow to come
 *     unproven     chunks that were brought for a large   the kernel's own choice
 *                  block, until they are filled, purged
 *                  or taken for slabs
 *     split        halves of which single pages were      small pages, until the whole half is purged,
 *                  purged                                 or gathered: the heap grows back, and a
 *                                                         quarter of it at most has memory
 *
 * This file keeps the bits and advises the kernel. The orders (events.h) say from which chunk on, how many halves to pass
 * over, and from how many free bytes on a half may be split.
 *
 *     fh_chunk.split, for each half:
 *     bit 0, 1   whole ──▶ split          by fetch_or, by any thread that may purge single pages of it
 *     bit 2, 3   not advised ──▶ advised  by fetch_or, by a thread that purges pages of the half or begins it, and so
 *                                         holds a part of it
 *     bit 4, 5   not asked ──▶ asked      by fetch_or, by a thread that takes of a slab in the half: once for each time that
 *                asked ──▶ not asked      by fetch_and, by a thread that purges pages of the half
 *     back to 0                           by fetch_and, by the thread that purges the half whole, and so holds all of
 *                                         it; by the one that gathers it; or with a chunk that is started again
 *
 * Who purges the half whole meets nobody, so the kernel hears the advice in the order of the bits. Who gathers it may meet one
 * that purges pages, and the kernel may hear them in the other order. Then a half that counts as whole stays on small pages until it is
 * split again, or one that was split may be gathered once more. A second thread that purges pages at the same time may be ahead of the
 * advice; the kernel takes seconds to act on it.
 *
 * Thread-safety: the functions say what the caller must hold. Progress: wait-free, except the kernel's calls. */
#ifndef FH_STORE_THP_H
#define FH_STORE_THP_H

#include "base/types.h"

/* What a chunk is brought for: slabs and blocks of up to 2 MiB; a long block, of which it is not known what the program touches; a
 * long block of a program that fills such blocks. */
typedef enum { FH_FOR_SLABS, FH_FOR_LONG, FH_FOR_FILLED } fh_purpose;

/* True if a long block of so many slots, for which chunks from this one on were brought, is likely to be filled: of long blocks
 * before it, on small pages, nearly all has memory. Cost: some loads, and a system call or two. */
bool fh_thp_is_long_filled(size_t chunk, size_t slots);

/* A chunk is started by a caller who has not shown it to any other thread yet. Huge pages would give memory to all of what the
 * program touches in part. */
void fh_thp_begin_chunk(size_t chunk, fh_purpose purpose);

/* The caller has claimed n slots from this one on, of a chunk whose free word was `free`: one for small blocks, or those of a large
 * block. If all others of a half are free, and the half has no memory, the first touch brings a huge page if the kernel was asked for
 * one. Does that touch and reports how long it takes. While huge pages are quick that is done for some, and for fewer of those for
 * large blocks, which the program may not touch. */
void fh_thp_begin(size_t slot, unsigned n, uint64_t free, bool large);

/* The caller has these slots, and a program that grows a block fills them: the one case in which huge pages for a large block
 * are sure to pay. Not in a young heap nor in a hardened one, unless all is to be there. */
void fh_thp_fill(size_t slot, size_t n);

/* True if three quarters of the chunk's pages have memory, or nobody knows: what comes next is likely to be written to as well. Of a
 * program that touches little of its blocks, huge pages would make all of it resident. The caller has all of a chunk on small pages,
 * and is about to purge it. Cost: a system call. */
bool fh_thp_is_filled(size_t chunk);

/* The caller has all of a chunk that was purged: it had memory, so what comes next is likely to be written to too. */
void fh_thp_again(size_t chunk);

/* The caller holds a block of the slab at this slot, of which it takes from now on. If the half was split, the heap has grown
 * since, and most of the half has no memory, it is put on a huge page again. Cost: a load; at most one question to the kernel
 * for each time that the half was purged. */
void fh_thp_refill(size_t slot);

/* The caller's slots were mapped afresh. What was advised about their chunks is said again. */
void fh_thp_renewed(size_t slot, size_t n);

/* A heap of the embedding API begins (1) or ends (-1): of its first slot it touches a page or two. While such slots are half of
 * what is in use, chunks and halves begin on small pages, also those that an earlier use has made huge. */
void fh_thp_count_heap(int change);

/* Their number, for who looks from outside. */
const fh_word *fh_thp_heaps(void);

/* True if the heap has nearly filled its young chunks. The next one would cost 2 MiB with its first block, so slabs that are
 * kept apart for speed alone are better shared. */
bool fh_thp_is_near(void);

/* True if the heap uses less than its young chunks are. */
bool fh_thp_is_young(void);

/* True if the kernel was asked to put the chunk on huge pages. */
bool fh_thp_is_huge(size_t chunk);

/* True if this half (0 or 1) of a chunk was split: single pages of it may be purged. */
bool fh_thp_is_split(size_t chunk, unsigned half);

/* Splits this half of a chunk on huge pages, if `free` bytes are enough for that. True if single pages of it may be
 * purged now. */
bool fh_thp_split(size_t chunk, unsigned half, size_t free);

/* Pages of this half, or of these slots, are about to be purged while neighbours on their huge pages stay: advises the
 * kernel not to gather them again. From a single page in 2 MiB on it did so while the program slept: of 2.2 MiB that
 * were left after a burst it made 28. The caller holds slots, or blocks of a slab, on each huge page concerned. */
void fh_thp_keep_split(size_t chunk, unsigned half);
void fh_thp_keep_slots_split(size_t first_slot, size_t last_slot);

/* These halves, as bits 0 and 1, were purged whole, and the caller holds all of their slots: huge pages once more. */
void fh_thp_join(size_t chunk, uint64_t halves);

#endif
