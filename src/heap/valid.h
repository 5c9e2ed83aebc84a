/* Whether an address is a heap, and whether the calling thread may use it. Wait-free. */
#ifndef FH_HEAP_VALID_H
#define FH_HEAP_VALID_H

#include "heap/types.h"

/* A number that no other living thread has. */
uint64_t fh_heap_this_thread(void);

/* The same with the process's generation: who makes a private heap now. */
uint64_t fh_heap_owner(void);

/* True if h is a heap, in use or not. */
bool fh_heap_exists(const fh_heap *h);

/* True unless it is private to another thread of this process. One from before a fork is of each thread that is there now. */
bool fh_heap_is_mine(const fh_heap *h);

/* True if h is a heap, and, in checked builds, this thread may use it. Else it reports that. */
bool fh_heap_is_valid(const char *call, const fh_heap *h);

#endif
