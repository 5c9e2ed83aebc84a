/* The life of a slab: equal blocks with one bit each, shared by all threads, owned by none.
 *
 * State word and words of types.h:
 *
 *              claim slots            take: claim bits, or bump         last block given
 *     free ──────────────────▶ in use ─────────────────────────▶ … ──────────────────────▶ all free
 *      ▲   state := class,bump    │ give: or the bits, then hint if enough is free            │
 *      └──────────────────────────┴───────────────────────────────────────────────────────────┘
 *            release: claim every word, ascending, then state: compare-and-swap to 0
 *
 * What was never handed out becomes free as if it had been: bump to the end, which makes those blocks the thread's, then give.
 *
 * A thread that holds a block of a slab keeps the slab alive: it cannot be released, because one of its words is not
 * full. So
 *   - give sets the bits first: after the last one it holds nothing, and from then on only reads the slab and hints at it
 *     (and counts, by compare-and-swap with the state of a slab of that class);
 *   - take reads the class *after* it got bits: it may have followed a stale hint into a slab of another class, and then
 *     puts them back. While it holds them the class cannot change;
 *   - "all free" is judged by reading the words after the own bits are set (full barrier between), by every giver whose
 *     bits made a word full: the last of several givers is one of them, and sees all;
 *   - a slab that is hinted is found anyway, so its frees are not counted: one locked instruction a word, no other. One
 *     that is not gets its hint when a few blocks are free (hint_at): hinting at the first made random replacement
 *     2.2 × slower in other designs, because every refill got one block from each of many slabs;
 *   - two releasers: both begin at word 0, so one of them gets nothing.
 *
 * Thread-safety: any thread. Progress: lock-free: a compare-and-swap fails only because another thread's succeeded, and no
 * step waits for another thread. */
#ifndef FH_STORE_SLAB_LIFE_H
#define FH_STORE_SLAB_LIFE_H

#include "base/classes.h"
#include "store/hints.h"

/* Words that hold bits of blocks below `bump`. */
static inline unsigned fh_slab_words(unsigned bump) {
    return (bump + 63) / 64;
}

/* The first slot of the slab of class c that a slot belongs to. */
static inline size_t fh_slab_head(unsigned c, size_t slot) {
    return slot & ~(size_t)(fh_class_table[c].slots - 1);
}

/* True if a block of a slab of class c, which p is in, begins at p. By arithmetic: the slab's metadata is not read, which is usually
 * in no cache of the CPU. Nor is it asked whether that block was ever handed out. */
static inline bool fh_slab_begins_at(unsigned c, const void *p) {
    size_t offset = ((uintptr_t)p - fh_window_base()) & (fh_class_table[c].slots * FH_SLOT_SIZE - 1);
    return fh_block_index(c, offset) * (size_t)fh_class_size(c) == offset;
}

/* Hints at a slab of class c that this thread has reason to believe all free, or releases it if the class has others (or if
 * release_last). The thread holds nothing of it: the slab may be of another class by now, or none. */
void fh_slab_settle(size_t slot, unsigned c, bool release_last);

/* n blocks of a slab of class c were given: their bits are set, and a full barrier is behind that. The thread holds nothing
 * of the slab any more. If no hint leads to it, counts them and sets the hint when there are enough. `filled`: a word
 * became full, so all may be free. */
void fh_slab_count(fh_slab *slab, size_t slot, unsigned c, unsigned n);
static inline void fh_slab_given(fh_slab *slab, size_t slot, unsigned c, unsigned n, bool filled) {
    if (!fh_hint_is_set(c, slot)) fh_slab_count(slab, slot, c, n);
    if (filled) fh_slab_settle(slot, c, false);
}

/* Puts bits of word w back that were claimed for what turned out to be nothing. The thread holds nothing of the slab
 * afterwards. */
void fh_slab_put_back(size_t slot, unsigned w, uint64_t bits);

/* Blocks of a slab of class c that were never handed out are free ones from now on, so that their pages can be purged as those of any.
 * False: there are none, or it is of another class by now. */
bool fh_slab_free_fresh(size_t slot, unsigned c);

/* The slab had fewer blocks than were wanted: its hint is cleared, unless there is something after all. */
void fh_slab_unhint(fh_slab *slab, size_t slot, unsigned c);

/* The beginning of the block that p (in a slot of class c) points into, NULL if it was never handed out. */
void *fh_slab_block_of(unsigned c, const void *p);

/* True if the block at p is free in its slab. A hint when other threads are active. */
bool fh_slab_is_free(unsigned c, const void *p);

/* Releases all slabs of class c that are all free. Returns how many. */
unsigned fh_slab_release_empty(unsigned c);

#endif
