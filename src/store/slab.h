/* Slabs: equal blocks with one bit each, shared by all threads, owned by none.
 *
 * The life of a slab (state word and words of types.h):
 *
 *              claim slots            take: claim bits, or bump         last block given
 *     free ──────────────────▶ in use ─────────────────────────▶ … ──────────────────────▶ all free
 *      ▲   state := class,bump    │ give: or the bits, then mark if enough is free            │
 *      └──────────────────────────┴───────────────────────────────────────────────────────────┘
 *            release: claim every word, ascending, then state: compare-and-swap to 0
 *
 * Who holds a block of a slab keeps the slab alive: it cannot be released, as one of its words is not full. So
 *   - give sets the bits first: after the last one it holds nothing, and from then on only looks at the slab and marks it
 *     (and counts, by compare-and-swap with the state of a slab of that class);
 *   - take looks at the class *after* it got bits: it may have followed a stale mark into a slab of another class, and then
 *     puts them back. While it holds them the class cannot change;
 *   - "all free" is judged by reading the words after the own bits are set (full barrier between), by every giver whose
 *     bits made a word full: the last of several givers is one of them, and sees all;
 *   - a slab that is marked is found anyway, so its frees are not counted: one locked instruction a word, no other. One
 *     that is not gets its mark when a few blocks are free (mark_at): marking at the first made random replacement
 *     2.2 × slower in others' designs, as every refill got one block from each of many slabs;
 *   - two releasers: both begin at word 0, so one of them gets nothing.
 *
 * Thread-safety: any thread. Progress: take and give are lock-free: a compare-and-swap fails only because another thread's
 * succeeded, and no step waits for another thread. */
#ifndef FH_STORE_SLAB_H
#define FH_STORE_SLAB_H

#include "base/types.h"

/* Takes up to `want` blocks of class c into out[]. Returns how many: fewer when no more lie about, 0 when the system has no
 * more memory. Blocks out of one slab come with ascending addresses. */
unsigned fh_slab_take(unsigned c, unsigned want, void **out);

/* The same out of slabs of the class alone: never a lodger (sublet.h), so that the blocks are aligned as their size is. */
unsigned fh_slab_take_own(unsigned c, unsigned want, void **out);

/* Gives n blocks back, of class c as far as the caller knows. A pointer that is no block's beginning and a block that is
 * free already are reported; the others are given back all the same. */
void fh_slab_give(unsigned c, unsigned n, void **blocks);

/* The beginning of the block that p (in a slot of class c) points into, NULL if it was never handed out. */
void *fh_slab_block_of(unsigned c, const void *p);

/* True if the block at p is marked free. A hint when other threads are at it. */
bool fh_slab_is_free(unsigned c, const void *p);

/* Releases all slabs of class c that are all free. Returns how many. */
unsigned fh_slab_release_empty(unsigned c);

/* ── For sublet.c ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Puts bits of word w back that were claimed for what turned out to be nothing. The thread holds nothing of the slab
 * afterwards. */
void fh_slab_put_back(size_t slot, unsigned w, uint64_t bits);

/* Units of a slab were given back: marks it; if `filled`, a word became full, and the slab is released if all is free. */
void fh_slab_given(size_t slot, unsigned c, bool filled);

#endif
