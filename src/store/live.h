/* Which blocks of a hardened partition the program has. Without caches in between, a bit for each block says it: of all that free a
 * block the first one clears the bit, and the others have freed it twice. Slabs of 32 bytes and more have words to spare.
 *
 *     a slab of a hardened partition:
 *         free   words 0 … 31: bit = this block is free in the slab
 *         live   words 32 … 63: bit = the program has it; never both. Neither: it waits (cache/hardened.h)
 *
 * Thread-safety: any thread. Progress: wait-free. */
#ifndef FH_STORE_LIVE_H
#define FH_STORE_LIVE_H

#include "base/assert.h"
#include "base/classes.h"
#include "store/slab_life.h"

/* Blocks of the first class are too many for a second bit: of hardened partitions none is smaller than this. */
#define FH_LIVE_FIRST_CLASS 2u
#define FH_LIVE_WORDS (FH_SLAB_WORDS / 2)

typedef struct {
    fh_word *word;
    uint64_t bit;
} fh_live;

/* The bit of the block of class c at p. */
static inline fh_live fh_live_of(unsigned c, const void *p) {
    size_t slot = fh_slab_head(c, fh_slot_of(p));
    unsigned i = fh_block_index(c, (size_t)((const char *)p - fh_slot_address(slot)));
    FH_ASSERT(c >= FH_LIVE_FIRST_CLASS && c <= FH_SMALL_LAST && i / 64 < FH_LIVE_WORDS);
    return (fh_live){&fh_slab_at(slot)->free[FH_LIVE_WORDS + i / 64], UINT64_C(1) << i % 64};
}

/* The program gets the block. Relaxed: who frees it has its address from the program. */
static inline void fh_live_begin(unsigned c, const void *p) {
    fh_live at = fh_live_of(c, p);
    uint64_t before = fh_or_relaxed(at.word, at.bit);
    FH_ASSERT((before & at.bit) == 0);
}

/* The program has freed it. False: another call was first. Relaxed: the block's last use is brought to the next one by what hands
 * it on. */
static inline bool fh_live_end(unsigned c, const void *p) {
    fh_live at = fh_live_of(c, p);
    return fh_and_relaxed(at.word, ~at.bit) & at.bit;
}

static inline bool fh_is_live(unsigned c, const void *p) {
    fh_live at = fh_live_of(c, p);
    return fh_load(at.word) & at.bit;
}

#endif
