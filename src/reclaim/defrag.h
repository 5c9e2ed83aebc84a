/* Which blocks are worth moving, so that slabs become empty, and where to.
 *
 * A class whose slabs are half empty needs half of them. Its *bar* is the fill below which a slab is to be emptied: the blocks
 * of all slabs below it have room in the free blocks of those above it. The bar comes from a sample of the class's slabs, taken
 * once for as many blocks asked about as it has looked at slabs. So a question costs a constant, over all.
 *
 * The words are figures to steer by. Threads that race for them judge by an older bar, or take the sample twice: nothing
 * else. What a block's memory may do depends on store/slab.h alone.
 *
 * Thread-safety: any thread. Memory orders: relaxed. Progress: lock-free, as the store. */
#ifndef FH_RECLAIM_DEFRAG_H
#define FH_RECLAIM_DEFRAG_H

#include <stdbool.h>
#include <stddef.h>

/* True if the block at p is in a slab that is to be emptied. p may be any address. Cost: a load for each 64 blocks of its slab,
 * and now and then a sample. */
bool fh_defrag_pays(const void *p);

/* A block of n bytes out of a slab above the bar, past the thread's cache. NULL: there is none. */
void *fh_defrag_take(size_t n);

/* Gives the block at p to its slab, past the thread's cache. False: it is in none, and nothing was done. */
bool fh_defrag_give(void *p);

#endif
