/* When to ask for huge pages: which chunks, how many halves to pass over while they are slow to come, and from how many free
 * bytes on one may be split. What the decisions mean is in store/thp.h. */
#ifndef FH_RECLAIM_HUGE_PAGES_H
#define FH_RECLAIM_HUGE_PAGES_H

#include <stddef.h>

/* The options or limits have changed: gives the orders again. */
void fh_huge_pages_configure(void);

/* The control group was read: its limit, 0: there is none that can be read. */
void fh_huge_pages_note_group(size_t limit);

/* A first touch was timed. */
void fh_huge_pages_touched(void);

#endif
