/* Whether an address is a heap, and the calling thread may use it.
 *
 * Thread-safety: any thread. Progress: wait-free. */
#ifndef FH_HEAP_VALID_H
#define FH_HEAP_VALID_H

#include "heap/types.h"

/* What a private heap knows its thread by. */
uint64_t fh_heap_this_thread(void);

/* True if h is a heap, and this thread may use it. Else it reports that. */
bool fh_heap_is_valid(const char *call, const fh_heap *h);

/* True if h is a heap, whoever may use it. */
bool fh_heap_exists(const fh_heap *h);

/* True unless it is private to another thread. */
bool fh_heap_is_mine(const fh_heap *h);

#endif
