/* Cells of one size, for one thread at a time: freehold/pool.h has the inline half.
 *
 *     page    ┌────────┬──────┬──────┬──────┬─ ─ ─┬──────┬──────┐   64 KiB, at a multiple of it: so a cell leads to its page,
 *             │ header │ cell │ free │ cell │     │ never used  │   and the page to its pool
 *             └────────┴──────┴──│───┴──────┴─ ─ ─┴──────┴──────┘
 *     pool ──▶ first free cell ◀─┘ ──▶ the next one ──▶ …
 *
 * A checked build has a bit for each cell of a page, and a tag in the page's word for the pool. So the inline half knows no page, and
 * each free comes here. */
#ifndef FH_HEAP_POOL_H
#define FH_HEAP_POOL_H

#include "heap/types.h"

typedef struct fh_pool fh_pool;

#define FH_POOL_CELL_MOST (16 * FH_KIB)
#define FH_POOL_ALIGN_MOST ((size_t)4096)

/* size: a multiple of 8 and of align. NULL with errno ENOMEM. */
fh_pool *fh_pool_make(size_t size, size_t align, fh_heap *heap);
void fh_pool_clear(fh_pool *pool);
void fh_pool_end(fh_pool *pool);

/* A cell of a pool without a free one. NULL with errno ENOMEM. */
void *fh_pool_grow(fh_pool *pool);

/* A cell whose page's word is not the pool: reports it, or frees it in a checked build. */
void fh_pool_give(fh_pool *pool, void *cell);

size_t fh_pool_count_bytes(const fh_pool *pool);
size_t fh_pool_count_live(const fh_pool *pool);

#endif
