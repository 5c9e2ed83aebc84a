/* Ebb: what the caches keep while the program gives memory back. When it drops a large structure, what magazines and depots
 * keep of it is strewn over all of its slabs, and one block is enough to hold a slab of 64 KiB: a server that had forgotten
 * everything held 50 MiB by 40,000 blocks of some dozens of bytes. So caches have to become thin at the right moment, which
 * is seen in two ways:
 *
 *     a class     from 4 MiB on that found their depot full since somebody wanted a block of the class last
 *     the heap    when threads have given back half of what they had when that was most, and enough of it: a retreat.
 *                 Then 64 KiB of a class are enough, and a hand goes round over the classes and finds those that nobody
 *                 flushes any more
 *
 * A class that ebbs has no depot, and bins shrink as they are flushed. The next refill ends it for the class.
 *
 *     word of a class:   0, flowing ── flushes count ──▶ bytes ── at the limit, by one thread ──▶ bytes | EBBED
 *                        ▲                                 │                                         │
 *                        └──────── a refill ───────────────┴─────────────────────────────────────────┘
 *
 *     retreat:           0 ──(given back ≥ threshold)──▶ blocks a bin may hold ──(wanted again: 1/16 of it)──▶ 0
 *
 * What was wanted again within a second or so of its ebb raises the threshold (the regret): a program that drops and makes
 * the same 100 MiB over and over pays for the first time.
 *
 * Thread-safety: any thread. Memory orders: relaxed would do throughout, as these are figures to steer by and the memory that
 * they speak of goes through the depot's and the slabs' own words; the exchanges are acq_rel as there is no other. Progress:
 * wait-free but for emptying a depot, which is lock-free. Cost: a load for a flush; in a retreat a locked instruction. */
#ifndef FH_CACHE_EBB_H
#define FH_CACHE_EBB_H

#include "base/types.h"

extern fh_word fh_ebb_class[FH_BINS] FH_HIDDEN;
extern fh_word fh_retreat FH_HIDDEN;

#define FH_EBBED (UINT64_C(1) << 63)

static inline bool fh_is_ebbing(unsigned c) {
    return fh_load(&fh_ebb_class[c]) & FH_EBBED;
}

static inline bool fh_is_retreat(void) {
    return fh_load(&fh_retreat) != 0;
}

/* Blocks that each magazine of a bin may hold whose class ebbs. */
unsigned fh_ebb_bin_blocks(void);

/* So many bytes of class c came out of a bin that is full, and are not wanted at present. True if the class ebbs now. The
 * thread that makes it so empties the depot. */
bool fh_ebb_count(unsigned c, size_t bytes);

/* In a retreat: the hand comes by class c. True if it ebbs from now on. The first time it only leaves its sign, which
 * a refill takes away. */
bool fh_ebb_pass(unsigned c);

/* Somebody wants blocks of class c. */
void fh_ebb_ends(unsigned c);
static inline void fh_ebb_wanted(unsigned c) {
    if (FH_UNLIKELY(fh_load(&fh_ebb_class[c]) != 0)) fh_ebb_ends(c);
}

/* Thread t has given back so many bytes out of its bins, or taken them (negative). */
void fh_retreat_note(int64_t bytes);
#define FH_RETREAT_STEP ((int64_t)(256 * FH_KIB)) /* the thread's own sum, up to which the others need not know */
static inline void fh_gave_back(fh_thread *t, int64_t bytes) {
    t->given_back += bytes;
    if (FH_LIKELY(t->given_back < FH_RETREAT_STEP && t->given_back > -FH_RETREAT_STEP)) return;
    bytes = t->given_back;
    t->given_back = 0;
    fh_retreat_note(bytes);
}

#endif
