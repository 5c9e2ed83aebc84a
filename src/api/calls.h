/* What each call of the malloc family means, once, as inline functions: api.c gives them the names fh_…, override.c the
 * names of the C library. Inline, so that both have the hot path in themselves and neither goes through the other. */
#ifndef FH_API_CALLS_H
#define FH_API_CALLS_H

#include "base/bits.h"
#include "cache/alloc.h"
#include "cache/cache.h"
#include "cache/hardened.h"
#include "cache/observed.h"
#include "misuse/check.h"
#include "reclaim/trim.h"
#include "system/system.h"

#include <errno.h>
#include <stdint.h>

/* Marks the definition of a name that the world may call. */
#define FH_EXPORT __attribute__((visibility("default")))

static inline void *fh_fail(int error) {
    errno = error;
    return NULL;
}

/* count · size, or false if it does not fit. */
static inline bool fh_product(size_t count, size_t size, size_t *product) {
    return !__builtin_mul_overflow(count, size, product);
}

static inline void *fh_call_calloc(size_t count, size_t size) {
    size_t n;
    if (FH_UNLIKELY(!fh_product(count, size, &n))) return fh_fail(ENOMEM);
    return fh_alloc_zeroed(n);
}

/* C23 leaves a size of 0 undefined; programs rely on what glibc does. */
static inline void *fh_call_realloc(void *p, size_t size) {
    if (FH_UNLIKELY(!p)) return fh_alloc(size);
    if (FH_LIKELY(size > 0)) return fh_resize(p, size);
    fh_release(p);
    return NULL;
}

static inline void *fh_call_reallocarray(void *p, size_t count, size_t size) {
    size_t n;
    if (!fh_product(count, size, &n)) return fh_fail(ENOMEM);
    return fh_call_realloc(p, n);
}

static inline void *fh_call_aligned_alloc(size_t alignment, size_t size) {
    if (FH_UNLIKELY(!fh_is_power_of_two(alignment))) return fh_fail(EINVAL);
    return fh_alloc_aligned(alignment, size);
}

/* The only one that returns its error; errno belongs to the caller. */
static inline int fh_call_posix_memalign(void **result, size_t alignment, size_t size) {
    if (!fh_is_power_of_two(alignment) || alignment % sizeof(void *)) return EINVAL;
    int saved = errno;
    void *p = fh_alloc_aligned(alignment, size);
    errno = saved;
    if (!p) return ENOMEM;
    *result = p;
    return 0;
}

/* An alignment that is no power of two is rounded up to one; above half of the address space there is none. */
static inline void *fh_call_memalign(size_t alignment, size_t size) {
    if (alignment > SIZE_MAX / 2 + 1) return fh_fail(EINVAL);
    if (alignment < FH_MIN_ALIGN) alignment = FH_MIN_ALIGN;
    if (!fh_is_power_of_two(alignment)) alignment = (size_t)2 << fh_highest_bit(alignment);
    return fh_alloc_aligned(alignment, size);
}

static inline void *fh_call_valloc(size_t size) {
    return fh_alloc_aligned(fh_system_page_size(), size);
}

static inline void *fh_call_pvalloc(size_t size) {
    size_t page = fh_system_page_size();
    if (size > SIZE_MAX - page) return fh_fail(ENOMEM);
    return fh_alloc_aligned(page, fh_round_up(size, page));
}

/* The class of an aligned block does not follow from its size alone, so it is looked up. */
static inline void fh_call_free_aligned_sized(void *p, size_t alignment, size_t size) {
    fh_release_said(p, size, alignment, FH_SAYS_SIZE | FH_SAYS_ALIGN);
}

/* What the program may use of the block at p: of a checked one what it asked for. */
static inline size_t fh_call_usable_size(const void *p) {
    return FH_UNLIKELY(fh_is_checking()) && !fh_heap_word(p) ? fh_checked_usable(p)
                                                             : fh_usable("malloc_usable_size", p);
}

/* A checked block has a guard behind what the program asked for, and so no room. */
static inline int fh_call_try_grow(void *p, size_t size) {
    if (FH_UNLIKELY(!p)) return 0;
    int saved = errno;
    bool grown = FH_UNLIKELY(fh_is_checking()) ? size <= fh_checked_usable(p) : fh_grow(p, size);
    errno = saved;
    return grown;
}

static inline int fh_call_trim(size_t keep) {
    int saved = errno;
    fh_cache_flush();
    fh_delay_empty();
    size_t purged = fh_trim(keep);
    errno = saved;
    return purged > 0;
}

#endif
