/* Releasing all that can be released at once: what malloc_trim does, and what happens when memory is short.
 *
 * Thread-safety: any thread, any number at once. Progress: lock-free, except what the kernel does. Cost: all of the heap's
 * records are read, and a system call made for each stretch of free pages: rare occasions, not hot paths. */
#ifndef FH_RECLAIM_TRIM_H
#define FH_RECLAIM_TRIM_H

#include "base/types.h"

/* Empties the depots and releases the slabs that are all free, then purges free slots until at most `keep` bytes of them have
 * memory, and the free pages inside of slabs. The metadata of chunks that are all free goes too. Returns the bytes purged. What
 * threads have in their magazines is not touched. */
size_t fh_trim(size_t keep);

/* Parts of it: the depots and the slabs that are all free; the free pages inside of slabs. */
void fh_trim_caches(void);
size_t fh_trim_inside(void);

/* The heap has grown. If by much since the last time, and half of what its slabs hold is free, purges free pages inside of
 * slabs, where that pays. */
void fh_trim_grown(void);

#endif
