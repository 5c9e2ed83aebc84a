/* The check of the whole heap: every equation, over every slab, chunk, hint, depot, cache and counter.
 *
 * It is true of a heap at rest: no other thread is inside the allocator, and none was when the process was forked. What is
 * read is not changed, but a copy in bits of which blocks were seen in magazines is mapped for the time.
 *
 * Checked builds check by themselves what can be checked while other threads run, which is the calling thread's own cache;
 * and the whole heap when the process ends with one thread left. Stress builds also check the whole heap now and then while
 * there is no other thread. */
#ifndef FH_CHECK_VERIFY_H
#define FH_CHECK_VERIFY_H

#include "check/report.h"

/* Checks the heap as `check` says, and counts in it. The caller provides what check->seen needs. */
void fh_check_heap(fh_verification *check);

/* The same of everything, with `found` told of each violation. Returns their number, and in *live, unless it is NULL, how many
 * blocks the program holds. Does not allocate blocks. */
size_t fh_check_all(void (*found)(const fh_violation *v), size_t *live);

/* For option check=2, in any build: the end of a call, with nothing held. Checks the calling thread's cache when eight refills and
 * flushes are over; and now and then all of the heap, if no other thread is there: then true. Says what is wrong, and aborts
 * unless on_error says otherwise. */
bool fh_check_edge(void);

/* The process ends. Checked builds check the heap if that can be done, say what is wrong and abort. */
void fh_check_at_end(void);

#endif
