/* The names of freehold/pool.h. What they do is in heap/pool.c. */
#include "api/calls.h"
#include "heap/pool.h"
#include "heap/scope.h"
#include "heap/valid.h"

#include "freehold/pool.h"

fh_pool *fh_pool_new(size_t size, size_t alignment, const fh_pool_options *options) {
    static const fh_pool_options plain;
    const fh_pool_options *o = options ? options : &plain;
    if (alignment == 0) alignment = size & -size & 15 ? size & -size : FH_MIN_ALIGN;
    bool known = !o->reserved[0] && !o->reserved[1] && !o->reserved[2] && (!o->heap || fh_heap_exists(o->heap));
    if (!known || size == 0 || size > FH_POOL_CELL_MOST) return fh_fail(EINVAL);
    if (!fh_is_power_of_two(alignment) || alignment > FH_POOL_ALIGN_MOST) return fh_fail(EINVAL);
    if (alignment < 8) alignment = 8;
    /* Of the scope's heap as a whole: or the pages that it takes after the scope would be elsewhere. */
    return fh_pool_make(fh_round_up(size, alignment), alignment, o->heap ? o->heap : fh_scope_heap());
}

void fh_pool_reset(fh_pool *pool) {
    fh_pool_clear(pool);
}

void fh_pool_destroy(fh_pool *pool) {
    if (pool) fh_pool_end(pool);
}

size_t fh_pool_bytes(const fh_pool *pool) {
    return fh_pool_count_bytes(pool);
}

size_t fh_pool_live(const fh_pool *pool) {
    return fh_pool_count_live(pool);
}

void *fh_pool_more(fh_pool *pool) {
    return fh_pool_grow(pool);
}

void fh_pool_free_slow(fh_pool *pool, void *cell) {
    fh_pool_give(pool, cell);
}
