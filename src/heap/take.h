/* Blocks out of a heap: out of its first slot, out of extents, or large ones.
 *
 * Thread-safety: any thread, except on a private heap. Progress: lock-free, except the program's callback and the kernel. */
#ifndef FH_HEAP_TAKE_H
#define FH_HEAP_TAKE_H

#include "heap/types.h"

/* n bytes at a multiple of align, a power of two. *clean: they read as zero. NULL with errno ENOMEM. */
void *fh_heap_take(fh_heap *h, size_t align, size_t n, bool *clean);

/* n bytes for h, or for a heap below it, were refused at the limit of `full`, after so many refusals before in the same call. True:
 * there may be room now. Empty extents were retired, or the callback of `full` has freed something. */
bool fh_heap_find_room(fh_heap *h, fh_heap *full, size_t n, unsigned asked);

#endif
