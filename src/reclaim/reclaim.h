/* The policy: when memory returns to the OS, what may be kept, what a limit means. It is polled at one safe point, the end of
 * a slow path with nothing held (base/hooks.h: fh_hook_reclaim), and acts on the due bits of store/events.h.
 *
 *     IDLE        idle.c          free slots above the budget are purged
 *     REFAULT     credit.c        what was purged and soon used again raises the budget
 *     GROWTH      trim.c, cold.c  holes of a heap that grows: pages inside of slabs, cold classes
 *     FLOW        cold.c          the same, in a heap whose holes are being filled
 *     LIMIT       limits.c        the own limit: pressure, purging, the callback
 *     GROWTH, GROUP  limits.c     the control group's
 *     HUGE_PAGE   huge_pages.c    how fast huge pages come
 *     BACKGROUND  background.c    the optional thread */
#ifndef FH_RECLAIM_RECLAIM_H
#define FH_RECLAIM_RECLAIM_H

/* The options have been read, or one was changed: all orders are given again. */
void fh_reclaim_configure(void);

#endif
