/* Purging free slots: their memory returns to the OS, their addresses stay. The slots are claimed like an allocation first,
 * so a purge never meets another thread. When to purge, and how much, is the policy's (reclaim/idle.h).
 *
 * Thread-safety: any thread. Progress: lock-free, except what the kernel does. */
#ifndef FH_STORE_PURGE_H
#define FH_STORE_PURGE_H

#include "base/types.h"

/* How much of a chunk on huge pages is taken: what is a whole huge page; or also parts of one, where it pays; or all. */
typedef enum { FH_PURGE_WHOLE_ONES, FH_PURGE_WHERE_IT_PAYS, FH_PURGE_EVERYTHING } fh_purge_extent;

/* Purges the dirty free slots of one chunk. Returns the slots purged. */
unsigned fh_chunk_purge(size_t index, fh_purge_extent most);

#endif
