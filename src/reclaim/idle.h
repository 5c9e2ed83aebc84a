/* Idle memory: free slots that still have memory. How much may stay is a budget
 * (budget.h); the rest is purged here, a bounded piece at a time.
 *
 * Thread-safety: any thread. Progress: lock-free, except what the kernel does. */
#ifndef FH_RECLAIM_IDLE_H
#define FH_RECLAIM_IDLE_H

#include "base/types.h"
#include "store/events.h"

/* The options or the pressure have changed: gives the orders again. */
void fh_idle_configure(void);

/* More is in use than was noted: notes it. */
void fh_idle_note_peak(void);

/* How many free slots may keep their memory now, while so many are in use. */
size_t fh_idle_budget_now(size_t used, fh_pressure pressure);

/* Purges a bounded piece if there is more than the budget allows. For the safe point. */
void fh_idle_purge_excess(void);

/* Purges free slots until at most `keep` bytes of them have memory; returns the bytes purged. Does not touch what threads,
 * depot and slabs hold. */
size_t fh_idle_purge_to(size_t keep);

/* The same for what the background thread finds unused: no huge page is split where it does not pay. */
size_t fh_idle_purge_unused(size_t keep);

#endif
