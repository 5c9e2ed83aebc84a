/* Refault credit: how much memory was purged and soon in use again, in bytes. One figure for free slots and
 * caches. It raises what may be kept, so a program that returns to the same size again and again pays for the first time
 * only. It fades by half each second, so the memory of one that does not return is purged all the same (budget.h).
 *
 * The idea is Linux's refault distance and tcmalloc's demand-based release.
 *
 * Thread-safety: any thread. Memory orders: relaxed: figures to steer by. Progress: wait-free; what is lost to a race is a
 * little credit. */
#ifndef FH_RECLAIM_CREDIT_H
#define FH_RECLAIM_CREDIT_H

#include "base/types.h"

/* Adds what the store has counted since, and fades. Returns the credit, and publishes it as an order. */
size_t fh_credit_now(void);

#endif
