/* Slabs: equal blocks with one bit each, shared by all threads, owned by none.
 *
 * The life of a slab (state word and words of types.h):
 *
 *              claim slots            take: claim bits, or bump         last block given
 *     free ──────────────────▶ in use ─────────────────────────▶ … ──────────────────────▶ all free
 *      ▲   state := class,bump    │ give: count += n, then or the bits                        │
 *      └──────────────────────────┴───────────────────────────────────────────────────────────┘
 *            release: claim every word, ascending, then state: compare-and-swap to 0
 *
 * Who holds a block of a slab keeps the slab alive: it cannot be released, as one of its words is not full. So
 *   - give adds to the count *before* it sets the first bit: after the last bit it may no longer touch the slab;
 *   - take looks at the class *after* it got bits: it may have followed a stale mark into a slab of another class, and then
 *     puts them back. While it holds them the class cannot change;
 *   - "all free" is judged by reading the words after the own bits are set (full barrier between): the last of several
 *     givers sees all;
 *   - two releasers: both begin at word 0, so one of them gets nothing.
 *
 * Thread-safety: any thread. Progress: take and give are lock-free: a compare-and-swap fails only because another thread's
 * succeeded, and no step waits for another thread. */
#ifndef FH_STORE_SLAB_H
#define FH_STORE_SLAB_H

#include "base/types.h"

/* Takes up to `want` blocks of class c into out[]. Returns how many; 0 when the system has no more memory. Blocks out of
 * one slab come with ascending addresses. */
unsigned fh_slab_take(unsigned c, unsigned want, void **out);

/* Gives n blocks back, of class c as far as the caller knows. A pointer that is no block's beginning and a block that is
 * free already are reported; the others are given back all the same. */
void fh_slab_give(unsigned c, unsigned n, void **blocks);

/* The beginning of the block that p (in a slot of class c) points into, NULL if it was never handed out. */
void *fh_slab_block_of(unsigned c, const void *p);

/* True if the block at p is marked free. A hint when other threads are at it. */
bool fh_slab_is_free(unsigned c, const void *p);

/* Releases all slabs of class c that are all free. Returns how many. */
unsigned fh_slab_release_empty(unsigned c);

#endif
