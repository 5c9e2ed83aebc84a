/* Giving memory back: which free slots, and when. The policy is arithmetic over four counters (policy.h); purge.c claims
 * the slots like an allocation, so that it never meets anybody. */
#ifndef FH_STORE_PURGE_H
#define FH_STORE_PURGE_H

#include "base/types.h"

/* Bookkeeping, called by run.c. */
void fh_purge_claimed(unsigned slots, unsigned dirty, unsigned purged);
void fh_purge_released(unsigned slots);
void fh_purge_dropped(unsigned slots); /* claimed ones that go back to the system with their address space */

/* Called after each release, with nothing held: gives back a bounded piece if there is more than the budget. */
void fh_purge_over_budget(void);

/* Gives back free memory until at most `keep` bytes of it are left; returns the bytes given back. Does not look at what
 * threads, depot and slabs hold. */
size_t fh_purge_to(size_t keep);

/* fh_purge_to for what the background thread finds unused: no huge page is split where it does not pay. */
size_t fh_purge_aged(size_t keep);

/* For the background thread, and counted only while the option purge is background: the least that
 * fh_purge_dirty_bytes was since this was called last, and how often slots have been claimed or released. */
size_t fh_purge_lowest_bytes(void);
uint64_t fh_purge_moves(void);

/* Bytes free with memory behind them; bytes in slabs and runs. */
size_t fh_purge_dirty_bytes(void);
size_t fh_purge_used_bytes(void);

/* For run.c's neighbours only: the chunk's free word was `before` and this thread changed it. */
void fh_run_changed(size_t chunk, uint64_t before);

#endif
