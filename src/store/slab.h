/* Taking blocks out of slabs and giving them to slabs, by the batch. Slabs are found by hints. What may happen to one
 * meanwhile is in slab_life.h.
 *
 * Thread-safety: any thread. Progress: lock-free. Cost: a locked instruction for up to 64 blocks of one word. */
#ifndef FH_STORE_SLAB_H
#define FH_STORE_SLAB_H

#include "base/types.h"

/* Takes up to `want` blocks of class c into out[]. Returns how many: fewer when no more are found, 0 when the OS has no
 * more memory. Blocks out of one slab come with ascending addresses. */
unsigned fh_slab_take(unsigned c, unsigned want, void **out);

/* The same out of slabs of the class alone: never a guest block (holes.h), so the blocks are aligned as their size is. */
unsigned fh_slab_take_own(unsigned c, unsigned want, void **out);

/* One block of class c, which is one of small blocks, in a partition above 0. In a hardened one it is any of those that are free in
 * its slab. NULL: no memory. */
void *fh_slab_take_in(unsigned partition, unsigned c);

/* True if threads take their blocks from that slab just now. */
bool fh_slab_is_preferred(size_t slot, unsigned c);

/* Gives n blocks, of class c as far as the caller knows. A pointer that is no block's beginning and a block that is free
 * already are reported; the others are given all the same. */
void fh_slab_give(unsigned c, unsigned n, void **blocks);

#endif
