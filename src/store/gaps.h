/* Gaps: slots behind each slab and each large block of a hardened partition in which nothing is, and which cannot be touched. A
 * write that runs over the end of a slab faults there, and never comes to blocks of another size.
 *
 *     ┌──────────────────────┬──────────────────────┬──────────────────────┬──────────────────────┐
 *     │ slab of 96 bytes     │ gap                  │ slab of 320 bytes    │ gap                  │
 *     └──────────────────────┴──────────────────────┴──────────────────────┴──────────────────────┘
 *
 * A slab has a gap as long as itself, so that the two begin at a multiple of their length; a large block has one of a slot. Gaps
 * have no memory, and count as nothing. Since 6.13 Linux marks pages (MADV_GUARD_INSTALL), and all gaps are in the mapping of
 * their chunk. Before, access is taken away (mprotect), which is two mappings more for each: then FH_GAPS_MOST gaps are made so,
 * and the others can be written to, where no block is.
 *
 * Thread-safety: the caller has the slots. Progress: wait-free, except the kernel's calls. */
#ifndef FH_STORE_GAPS_H
#define FH_STORE_GAPS_H

#include "base/types.h"

/* Looks whether the kernel can mark pages. Before the first gap. True if it can. */
bool fh_gaps_start(void);

/* Slots of the gap behind a slab or large block of `slots` slots in that partition. */
static inline size_t fh_gap_slots(unsigned partition, size_t slots, bool slab) {
    return !(partition & FH_PARTITION_HARDENED) ? 0 : slab ? slots : 1;
}

/* These slots cannot be touched from now on. */
void fh_gap_close(size_t slot, size_t slots);

/* They can again, read as zero, and are released. */
void fh_gap_release(size_t slot, size_t slots);

#endif
