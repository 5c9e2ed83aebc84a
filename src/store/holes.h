/* Slabs whose free blocks are open to other sizes. A program whose sizes drift leaves slabs behind in which one block in
 * five is alive. No request of that size comes, so nothing fills the holes, and no slab gets all free. When a class has
 * become cold (reclaim/cold.h), its slabs are opened to larger classes: a *guest* is a block of another class on two or more
 * of the slab's blocks in a row, its *parts*.
 *
 *     a slab of 96-byte blocks, three of them alive (■), with two guests of 176 and 272 bytes:
 *
 *         part      0   1   2   3   4   5   6   7   8   9
 *                 ┌───┬───┬───────┬───┬───────────┬───┬───┐
 *                 │ ■ │   │ 176   │ ■ │ 272       │   │ ■ │
 *                 └───┴───┴───────┴───┴───────────┴───┴───┘
 *         free      0   1   0   0   0   0   0   0   1   0      words 0 … 31: bit = this part is free
 *         joined    0   0   0   1   0   0   1   1   0   0      words 32 … 63: bit = this part belongs to the one before
 *
 * The life of a slab (types.h), beyond that of slab.h:
 *
 *              open: hold a free block, class bytes := 0, compare-and-swap       last part given
 *     in use ─────────────────────────────────────────────────────────▶ borrowed ─────────────────▶ all free ─▶ released
 *      of class h                                                        of owner h
 *
 *     equations of a borrowed slab:  bump = all its blocks
 *                                    [holes.joined] a joined bit of a part is only set while the part belongs to a guest
 *                                    [holes.empty] one of them at most is all free
 *                                  the class byte of each of its slots is 0: to free, its blocks are special
 *
 * A slab never goes from borrowed to in use, but is released when all of it is free. So nothing changes for the hot path: it
 * finds class 0, whose bin is full for ever, and the slow path finds this file. A block of the owner itself is a guest of one
 * part; one that is in a magazine of its class at the moment of the opening may be handed out once more, and comes here when
 * it is freed.
 *
 * Why the bytes first, then the state: a guest can only be handed out when the state says borrowed, and by then its class byte
 * is 0 for all threads, so that none takes it for a block of h. A block of h that is freed between the two finds byte 0 in
 * a slab of class h, and is given as such.
 *
 * Thread-safety: any thread. Progress: lock-free, as slab.h. */
#ifndef FH_STORE_HOLES_H
#define FH_STORE_HOLES_H

#include "base/types.h"

/* Blocks of these classes are parts. Below, the second half of the words has no space for joined bits. Above, a page with a
 * survivor on it is the exception, and the others are purged (reclaim/trim.h). */
#define FH_OWNER_FIRST 2u /* 32 bytes: 2,048 parts at most */
#define FH_OWNER_LAST 72u /* 2 KiB */

/* May a guest of `size` bytes be on parts of `on` bytes together? Of 100 bytes on two of 96 it would waste as much as it
 * saves: a quarter is the most. */
static inline bool fh_guest_fits(size_t size, size_t on) {
    return on <= size + size / 4;
}

/* Opens the slab of class c at this slot, if it has free blocks. The caller holds nothing of it. */
bool fh_holes_open(size_t slot, unsigned c);

/* Takes up to `want` blocks of class c out of holes. Returns how many: 0 when there are none that fit. They are aligned to
 * what the blocks of the class's own slabs are. */
unsigned fh_holes_take(unsigned c, unsigned want, void **out);

/* Gives a block of a borrowed slab. False: p is in none. A pointer that is no block's beginning and a block
 * that is free already are reported, in the name of `call` (NULL: found when a cache was flushed). */
bool fh_holes_give(const char *call, void *p);

/* True if p points into a borrowed slab. */
bool fh_holes_has(const void *p);

/* The beginning and the bytes of the block that p points into; NULL if it is in no borrowed slab, or in a free part. */
void *fh_holes_block_of(const void *p, size_t *bytes);

/* For the statistics, of part i of a borrowed slab: true if it belongs to the part before; and how many parts the block that
 * begins there has. */
bool fh_holes_is_joined(const fh_slab *slab, unsigned i);
unsigned fh_holes_parts(const fh_slab *slab, unsigned i);

/* And how many of its parts belong to the one before. */
unsigned fh_holes_joined(const fh_slab *slab, unsigned parts);

#endif
