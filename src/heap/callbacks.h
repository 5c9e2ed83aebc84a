/* The program's callbacks for the memory of a paged heap. While one runs, its thread is in a table. What the callback does with that
 * heap calls none of them again: it has what there is, and no more.
 *
 * Thread-safety: any thread. Progress: lock-free, except the callbacks. */
#ifndef FH_HEAP_CALLBACKS_H
#define FH_HEAP_CALLBACKS_H

#include "heap/types.h"

/* Threads that are in callbacks at a time. */
#define FH_CALLBACKS_MOST 64u

/* Memory of the program. NULL: it has none, too many threads are in callbacks, or this one is in one of this heap's. */
void *fh_callback_get(const fh_heap *h, size_t size);

/* Tells the program that the pages within are not needed at the moment: the caller has all of them. */
void fh_callback_purge(const fh_heap *h, char *p, size_t size);

void fh_callback_give_back(const fh_heap *h, void *p, size_t size);

/* True if this thread is in a callback of the heap. */
bool fh_callback_runs(const fh_heap *h);

#endif
