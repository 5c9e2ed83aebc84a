/* Slabs whose free blocks are let to other sizes. A program whose sizes drift leaves slabs behind in which one block in
 * five is alive: nobody asks for that size any more, so nobody fills the holes, and no slab gets all free. When a class has
 * become idle (idle.h), its slabs are opened to larger classes: a *lodger* is a block of another class that lies on two or
 * more of the slab's blocks in a row, its *units*.
 *
 *     a slab of 96-byte blocks, three of them alive (■), with two lodgers of 176 and 272 bytes:
 *
 *         unit      0   1   2   3   4   5   6   7   8   9
 *                 ┌───┬───┬───────┬───┬───────────┬───┬───┐
 *                 │ ■ │   │ 176   │ ■ │ 272       │   │ ■ │
 *                 └───┴───┴───────┴───┴───────────┴───┴───┘
 *         free      0   1   0   0   0   0   0   0   1   0      words 0 … 31: bit = this unit is free
 *         joined    0   0   0   1   0   0   1   1   0   0      words 32 … 63: bit = this unit belongs to the one before
 *
 * The life of a slab (types.h), beyond that of slab.h:
 *
 *              open: hold a free block, class bytes := 0, compare-and-swap       last unit given
 *     in use ─────────────────────────────────────────────────────────▶ sublet ─────────────────▶ all free ─▶ released
 *      of class h                                                        of host h
 *
 *     equations of a sublet slab:  bump = all its blocks
 *                                  [sublet.joined] a joined bit of a unit is only set while the unit belongs to a lodger
 *                                  [sublet.empty] one that is all free goes when there is another
 *                                  the class byte of each of its slots is 0: to free, its blocks are special
 *
 * A slab never goes from sublet to in use, but is released when all of it is free. So nothing changes for the hot path: it
 * finds class 0, whose bin is full for ever, and the slow path finds this file. A block of the host itself is a lodger of one
 * unit; one that is in a magazine of its class at the moment of the opening may be handed out once more, and comes here when
 * it is freed.
 *
 * Why the bytes first, then the state: a lodger can only be handed out when the state says sublet, and by then its class byte
 * is 0 for everybody, so that no thread takes it for a block of h. A block of h that is freed between the two finds byte 0 in
 * a slab of class h, and is given back as such.
 *
 * Thread-safety: any thread. Progress: lock-free, as slab.h. */
#ifndef FH_STORE_SUBLET_H
#define FH_STORE_SUBLET_H

#include "base/types.h"

/* Blocks of these classes are units. Below there is no room for the second half of the words; above, a page that has a
 * survivor on it is the exception, and the others go back to the system (trim.h). */
#define FH_HOST_FIRST 2u /* 32 bytes: 2,048 units at most */
#define FH_HOST_LAST 72u /* 2 KiB */

/* Opens the slab of class c at this slot, if it has free blocks. The caller holds nothing of it. */
bool fh_sublet_open(size_t slot, unsigned c);

/* Takes up to `want` blocks of class c out of holes. Returns how many: 0 when there are none that fit. They are aligned to
 * what the blocks of the class's own slabs are. */
unsigned fh_sublet_take(unsigned c, unsigned want, void **out);

/* Gives a block back that lies in a sublet slab. False: p lies in none. A pointer that is no block's beginning and a block
 * that is free already are reported, in the name of `call` (NULL: found when a cache was handed in). */
bool fh_sublet_give(const char *call, void *p);

/* The beginning and the bytes of the block that p points into; NULL if it is in no sublet slab, or in a free unit. */
void *fh_sublet_block_of(const void *p, size_t *bytes);

/* For the statistics, of unit i of a sublet slab: true if it belongs to the unit before; and how many units the block that
 * begins there has. */
bool fh_sublet_is_joined(const fh_slab *slab, unsigned i);
unsigned fh_sublet_units(const fh_slab *slab, unsigned i);

/* And how many of its units belong to the one before. */
unsigned fh_sublet_joined(const fh_slab *slab, unsigned units);

#endif
