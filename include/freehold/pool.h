/* Freehold's pools: cells of one size, packed, and ended together. C99 and later, C++98 and later.
 *
 *     fh_pool *nodes = fh_pool_new_of(struct node);
 *     struct node *n = fh_pool_alloc(nodes);
 *     fh_pool_free(nodes, n);
 *     fh_pool_destroy(nodes);
 *
 * What holds for every function here:
 *   Sizes      in bytes, rounded up to a multiple of 8 and of the alignment: a cell of 8 bytes costs 8, one of 24 costs 24. Beside
 *              the cells a pool has 64 bytes in each 64 KiB, or as many as the alignment if that is more, and what is left behind
 *              the last cell.
 *   Alignment  as asked for, a power of two from 8 to 4,096.
 *   Errors     NULL with errno: ENOMEM no memory, or the heap's limit is met; EINVAL.
 *   Threads    one thread at a time uses a pool. Different threads may use different pools at the same time.
 *   Cost       a cell is taken by 5 instructions and freed by 9, inline. Every 64 KiB the library is asked for memory.
 *   Memory     stays with the pool until it is reset or destroyed. A pool of a heap (freehold/heap.h) counts for its limits, and
 *              ends with the heap if it is not destroyed before.
 *   Misuse     freeing a cell of another pool, or a block of fh_malloc: one line on stderr, and the process ends (option on_error).
 *              Where other memory begins less than 64 KiB before an address, freeing that is a fault. Builds
 *              with FREEHOLD_CHECKED also find a cell that is freed twice, and a pointer into one.
 *
 * A free cell holds the address of the next one, as in every pool: it is the one place where Freehold writes to free memory. */
#ifndef FREEHOLD_POOL_H
#define FREEHOLD_POOL_H

#include "freehold/heap.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fh_pool fh_pool;

typedef struct fh_pool_options {
    fh_heap *heap;     /* where the memory comes from; NULL: where malloc's does when the pool is made */
    void *reserved[3]; /* 0 */
} fh_pool_options;

/* A pool of cells of that size. An alignment of 0 is the largest power of two that divides the size, at most 16. Errors: ENOMEM;
 * EINVAL: a size of 0 or above 16 KiB, or an alignment that is none. Cost: an allocation; the first cell takes 64 KiB, of which
 * only what is used is touched. */
FH_API fh_pool *fh_pool_new(size_t size, size_t alignment, const fh_pool_options *options);
#define fh_pool_new_of(type) fh_pool_new(sizeof(type), __alignof__(type) < 8 ? 8 : __alignof__(type), NULL)

/* All cells are free. One 64 KiB stays. */
FH_API void fh_pool_reset(fh_pool *pool);

/* And the pool ends. NULL is allowed. */
FH_API void fh_pool_destroy(fh_pool *pool);

/* Bytes that the pool has taken, and cells that are live. Cost: a walk over the free cells. */
FH_API size_t fh_pool_bytes(const fh_pool *pool);
FH_API size_t fh_pool_live(const fh_pool *pool);

/* What the inline functions below do not do themselves. */
FH_API void *fh_pool_more(fh_pool *pool);
FH_API void fh_pool_free_slow(fh_pool *pool, void *cell);

/* The beginning of a pool, and of each of its 64 KiB, for these functions alone. */
struct fh_pool_cells {
    void *free; /* the first free cell */
};
struct fh_pool_page {
    fh_pool *pool;
};

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* what follows is C */
#pragma GCC diagnostic ignored "-Wzero-as-null-pointer-constant"
#endif
/* A cell, with whatever was in it. */
static inline void *fh_pool_alloc(fh_pool *pool) {
    struct fh_pool_cells *c = (struct fh_pool_cells *)(void *)pool;
    void *cell = c->free;
    if (__builtin_expect(cell == NULL, 0)) return fh_pool_more(pool);
    __builtin_memcpy(&c->free, cell, sizeof c->free);
    return cell;
}

/* NULL is allowed. */
static inline void fh_pool_free(fh_pool *pool, void *cell) {
    struct fh_pool_cells *c = (struct fh_pool_cells *)(void *)pool;
    if (__builtin_expect(cell == NULL, 0)) return;
    struct fh_pool_page *page = (struct fh_pool_page *)((uintptr_t)cell & ~(uintptr_t)0xFFFF);
    if (__builtin_expect(page->pool != pool, 0)) {
        fh_pool_free_slow(pool, cell);
        return;
    }
    __builtin_memcpy(cell, &c->free, sizeof c->free);
    c->free = cell;
}
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
}
#endif

#endif
