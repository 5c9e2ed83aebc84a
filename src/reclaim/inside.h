/* Free pages inside slabs count against the budget (budget.h). How many there are is in no counter: freeing a block sets a
 * bit and looks at nothing else. So when an eighth of what is alive was flushed, some slots are sampled. If the sample says
 * that more is free than the budget allows, all free pages inside slabs are purged, half a chunk after the other.
 *
 *     flushed: an eighth of what is alive ──▶ sample ──▶ too much is free ──▶ purge a few halves at each safe point
 *              at least 64 KiB                  │                                  │
 *     waiting ◀─────────────────────────────────┴──── enough, or all halves done ──┘
 *
 * What is refilled soon after adds to the refault credit, so a heap that hovers stops purging.
 *
 * Thread-safety: any thread. Memory orders: relaxed: figures to steer by. Progress: lock-free, except what the kernel does.
 * Cost: a sample reads the records of some 64 slots, and asks the kernel about those with a free page. */
#ifndef FH_RECLAIM_INSIDE_H
#define FH_RECLAIM_INSIDE_H

#include "base/types.h"

/* So much was flushed that a sample is due, or a purge goes on. For the safe point. */
void fh_inside_check(void);

#endif
