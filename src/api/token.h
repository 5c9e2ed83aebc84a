/* Allocating with a token: a number that the compiler makes of the type that is allocated (clang's -fsanitize=alloc-token), or the
 * program chooses (fh_malloc_type). The upper half of the numbers is of types that hold pointers. Their blocks are in a partition
 * of their own (base/types.h), all others are as if there were no token. */
#ifndef FH_API_TOKEN_H
#define FH_API_TOKEN_H

#include "api/calls.h"
#include "base/settings.h"
#include "observe/observe.h"
#include "store/large.h"

#include <string.h>

/* With -falloc-token-max=N the upper half begins at N / 2 (option tokens). Without it N is 2^64 − 1. There 1, which a program is
 * more likely to have from -falloc-token-max=2 than by chance, counts as a type with pointers too: that is never wrong, because
 * the other half of the promise is about blocks that hold none. */
static inline bool fh_token_points(uint64_t token) {
    uint64_t tokens = FH_SETTING(tokens);
    if (FH_UNLIKELY(tokens)) return token >= tokens / 2;
    return token == 1 || token >= UINT64_MAX / 2;
}

static inline void *fh_token_malloc(size_t n, bool points) {
    bool clean;
    return points ? fh_alloc_pointers(FH_MIN_ALIGN, n, &clean, FH_SAYS_NOTHING) : fh_alloc(n);
}

static inline void *fh_token_aligned(size_t align, size_t n, bool points) {
    bool clean;
    if (!points) return fh_alloc_aligned(align, n);
    return fh_alloc_pointers(align < FH_MIN_ALIGN ? FH_MIN_ALIGN : align, n, &clean, FH_SAYS_NOTHING);
}

static inline void *fh_token_calloc(size_t count, size_t size, bool points) {
    size_t n;
    bool clean;
    if (!points) return fh_call_calloc(count, size);
    if (FH_UNLIKELY(!fh_product(count, size, &n))) return fh_fail(ENOMEM);
    void *p = fh_alloc_pointers(FH_MIN_ALIGN, n, &clean, FH_SAYS_ZEROED);
    if (!p || clean) return p;
    if (n <= FH_SMALL_MAX) return memset(p, 0, n);
    fh_large_zero(p, n);
    return p;
}

/* True if a block of that kind belongs elsewhere than where p is. Blocks of heaps and of a checked program have no partition. */
static inline bool fh_token_moves(const void *p, bool points) {
    bool in_pointers = fh_partition_of(p) & FH_PARTITION_POINTERS;
    return points != in_pointers && !fh_is_checking() && !fh_heap_word(p);
}

static inline void *fh_token_realloc(void *p, size_t n, bool points) {
    if (!p) return fh_token_malloc(n, points);
    if (n == 0 || !fh_token_moves(p, points)) return fh_call_realloc(p, n);
    size_t old = fh_usable("realloc", p);
    if (!old) return fh_fail(EINVAL);
    void *q = fh_token_malloc(n, points);
    if (!q) return NULL;
    memcpy(q, p, n < old ? n : old);
    fh_release(p);
    return q;
}

#endif
