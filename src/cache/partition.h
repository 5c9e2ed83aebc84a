/* Allocating in a partition (base/types.h): blocks of a hardened program, and blocks that hold pointers. They come straight from
 * the store, one by one, and go back to it so: no magazine has them, so none can be mistaken for another partition's.
 *
 * Thread-safety: any thread. Progress: lock-free, except the kernel's calls. Cost: some 500 instructions, and 1,000 to free it. */
#ifndef FH_CACHE_PARTITION_H
#define FH_CACHE_PARTITION_H

#include "base/types.h"

/* n bytes at a multiple of align, in that partition, which is above 0. *clean: it reads as zero. NULL with errno ENOMEM. Does what
 * is due, and tries again after a refusal. */
void *fh_alloc_in(unsigned partition, size_t align, size_t n, bool *clean);

/* n bytes for what is in the block at p now: in its partition. */
void *fh_alloc_like(const void *p, size_t n);

#endif
