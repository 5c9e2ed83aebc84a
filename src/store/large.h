/* Large blocks, 64 KiB < size ≤ 2 MiB: a run of slots, with its length in the state of the first one. Up to 1 MiB they have
 * a class and are cached in magazines; freeing one into the store is fh_large_free.
 *
 * Thread-safety: any thread, for blocks of its own. Progress: lock-free, as chunk.h. */
#ifndef FH_STORE_LARGE_H
#define FH_STORE_LARGE_H

#include "base/types.h"

/* At least `size` bytes at a multiple of align (a power of two up to 4 MiB); NULL: no memory. *clean: reads as zero. */
void *fh_large_alloc(size_t size, size_t align, bool *clean);
void fh_large_free(void *p);

/* Frees the block at p that comes out of a magazine of run class c, after checking that it is one. */
void fh_large_give(unsigned c, void *p);

/* Bytes of the large block that begins at p, 0 if none does. */
size_t fh_large_size(const void *p);

/* The large block that p points into (its beginning), or NULL. Slow; for messages. */
void *fh_large_around(const void *p);

/* Makes the large block n bytes (64 KiB < n ≤ 2 MiB) without moving it, if that can be done. */
bool fh_large_resize(void *p, size_t n);

#endif
