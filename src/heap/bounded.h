/* A bounded heap: all that it will ever have is there when it begins, with pages behind it. A call takes a bounded number of steps,
 * whatever other threads do, and asks the system for nothing.
 *
 *     memory  ┌──────┬──────┬──────┬─ ─┬────────┬───────┬───────┬───────────────────────┐
 *             │ slab │ slab │ slab │   │ header │ seats │ marks │ state and bits of each │
 *             └──────┴──────┴──────┴─ ─┴────────┴───────┴───────┴───────────────────────┘
 *
 * A slab is a slot, which begins at a multiple of 64 KiB. It has blocks of one class, or is part of a run: a block above 32 KiB. Its word
 * `state` says of which kind it is, and how many hold on to it: who has a block, and who is about to take or to leave one.
 *
 *     a slab     empty ──(compare-and-swap, nobody holds on to it)──▶ being made ──(add)──▶ of a class, or of a run
 *                of a class ──(the last holder leaves)──▶ empty: it stays of its class until somebody wants it for another one
 *                of a run ──(subtract: no kind, and one holder fewer)──▶ empty
 *     a holder   state + 1 ── of another kind, or as many holders as blocks? state − 1
 *     a block    free ──(clear its bit: one thread wins; it is a holder)──▶ live ──(set its bit; state − 1)──▶ free
 *     a run      its first slab's first bit: cleared before it is shown, set by who frees it
 *
 * While a class has a slab, holders ≥ blocks that are not free. So who becomes a holder finds a block, unless others are faster,
 * and a slab without a holder has all of them. Marks (marks.h) lead to slabs with room, for each class, and to empty ones: set by who
 * leaves a full slab, or as the last holder; cleared by who fills it, or is the first holder.
 *
 * Each call has STEPS steps, or RUN_STEPS, of some eight instructions. A look at a word or at a bit is one, and becoming a holder is some. If they
 * are used up there is no block, as if there was no room: then others have taken what this call was about to take, several times. Nothing
 * is tried again for ever, and a compare-and-swap that fails is a slab passed over.
 *
 * Memory orders: becoming a holder acquires, and leaving releases: so who finds a slab empty finds all bits set. A block's bit is
 * cleared and set with both, so that what was written to the block comes before the next holder's. New bits are written before
 * the add that shows the kind.
 *
 * In the child of a fork, slabs that other threads were holding on to for a moment are never empty: one each at most.
 *
 * Rejected: a queue or a stack of free blocks: to take from one is to try again. Rejected: a word of 64 bits claimed by compare-and-swap,
 * as in extents: a neighbour's change makes it fail. Rejected: a piece for each thread: memory would be where nobody wants it, and
 * there is no bound for how many threads there are.
 *
 * Thread-safety: any thread. Progress: wait-free. Cost: see docs/heaps.md. */
#ifndef FH_HEAP_BOUNDED_H
#define FH_HEAP_BOUNDED_H

#include "heap/types.h"

/* A block is as long as that at most, and as aligned. */
#define FH_BOUNDED_LARGEST ((size_t)1 << 20)
/* What such a heap has at least and at most, its header included. */
#define FH_BOUNDED_LEAST ((size_t)256 << 10)
#define FH_BOUNDED_MOST ((size_t)16 << 30)

/* All that the heap may have below its hard limit is taken and charged. NULL: there is no memory, or the limit of *full is in the way. */
fh_bounded *fh_bounded_begin(fh_heap *h, fh_heap **full);

/* All that it has, for the store. */
void *fh_bounded_memory(const fh_bounded *b, size_t *bytes);

/* No block is live from now on. No other call is on the heap. */
void fh_bounded_clear(fh_bounded *b);

/* n bytes at a multiple of align, a power of two. NULL: there is no room, or it was not found in time. */
void *fh_bounded_take(fh_bounded *b, size_t align, size_t n);

/* The live block that p points to or into. */
void *fh_bounded_block(const fh_bounded *b, const void *p, size_t *size);

/* Frees the block that begins at p. False: none does (any more). */
bool fh_bounded_free(fh_bounded *b, void *p);

/* Holds on to each slab while it is looked at. Cost: all bits. */
void fh_bounded_each(fh_bounded *b, fh_heap_seen *see, void *arg);

#endif
