/* Huge blocks, above 2 MiB: a mapping each, at a multiple of 2 MiB, outside the window.
 *
 * They are known by a two-level table: address / 2 MiB → bytes (0: no block begins here). Freed ones are kept in a few
 * slots, bounded in bytes, and given out again for requests of about their size. A block that grows gets address space
 * ahead (half of its size; not memory), so that growing in steps costs a system call now and then and never a copy.
 *
 * Thread-safety: any thread. Progress: lock-free, except what the kernel does in mmap, munmap and mremap. */
#ifndef FH_STORE_HUGE_H
#define FH_STORE_HUGE_H

#include "base/tuning.h"
#include "base/types.h"

/* At least `size` bytes at a multiple of align (a power of two); NULL: no memory. *clean: reads as zero. */
void *fh_huge_alloc(size_t size, size_t align, bool *clean);

/* The same, out of what was freed last, or NULL. May be called without a cache, for any size above FH_RUN_MAX: a handful
 * of instructions and no other effect. The block does not read as zero. */
void *fh_huge_again(size_t size);

/* Frees the huge block that begins at p; false if none does. errno is kept. May be called without a cache. */
bool fh_huge_free(void *p);

/* Bytes of the huge block that begins at p, 0 if none does. */
size_t fh_huge_size(const void *p);

/* Bytes that were last asked for it, rounded up by less than 1/4,096 of the block; the whole block unless it grew into a much
 * larger mapping. */
size_t fh_huge_asked(const void *p);

/* The beginning of the huge block that p points into, or NULL. Slow; for messages. */
void *fh_huge_around(const void *p);

/* Makes the huge block at p `size` bytes (> 2 MiB), without copying: in place or by moving its pages. NULL: not
 * possible, and the block is as it was. */
void *fh_huge_resize(void *p, size_t size);

/* Unmaps cached blocks until at most `keep` bytes are cached; returns the bytes unmapped. */
size_t fh_huge_trim(size_t keep);

/* Calls `visit` for each huge block, by ascending address. Reads the whole table: some ms. */
void fh_huge_each(void (*visit)(void *context, uintptr_t begin, size_t size), void *context);

/* For the statistics. */
size_t fh_huge_bytes(void);
size_t fh_huge_cached_bytes(void);
size_t fh_huge_count(void);

/* For check/: what is kept at place i of FH_HUGE_KEPT, and its bytes; NULL if nothing. The last is the most recent one.
 *
 *     equations:  [huge.live]     bytes and number of live blocks: what the table says, and the most recent one
 *                 [huge.cached]   bytes cached: what the slots of the cache hold, and the most recent one
 *                 [huge.overlap]  a block is apart from every other one, kept ones among them, and from the window */
#define FH_HUGE_KEPT (FH_HUGE_CACHE_SLOTS + 1u)
void *fh_huge_kept(unsigned i, size_t *bytes);

#endif
