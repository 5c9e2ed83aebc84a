/* The names fh_…, in both libraries. What they mean is in calls.h, what a user must know in freehold.h. */
#include "api/calls.h"
#include "api/token.h"
#include "check/verify.h"
#include "misuse/heap.h"
#include "reclaim/limits.h"

#include "freehold/freehold.h"

void *fh_malloc(size_t size) {
    return fh_alloc(size);
}

void *fh_malloc_type(size_t size, size_t token) {
    return fh_token_malloc(size, fh_token_points(token));
}

void *fh_calloc(size_t count, size_t size) {
    return fh_call_calloc(count, size);
}

void *fh_realloc(void *p, size_t size) {
    return fh_call_realloc(p, size);
}

void *fh_reallocarray(void *p, size_t count, size_t size) {
    return fh_call_reallocarray(p, count, size);
}

void fh_free(void *p) {
    fh_release(p);
}

void fh_free_sized(void *p, size_t size) {
    fh_release_sized(p, size);
}

void fh_free_aligned_sized(void *p, size_t alignment, size_t size) {
    fh_call_free_aligned_sized(p, alignment, size);
}

void *fh_aligned_alloc(size_t alignment, size_t size) {
    return fh_call_aligned_alloc(alignment, size);
}

int fh_posix_memalign(void **p, size_t alignment, size_t size) {
    return fh_call_posix_memalign(p, alignment, size);
}

void *fh_memalign(size_t alignment, size_t size) {
    return fh_call_memalign(alignment, size);
}

void *fh_valloc(size_t size) {
    return fh_call_valloc(size);
}

void *fh_pvalloc(size_t size) {
    return fh_call_pvalloc(size);
}

size_t fh_good_size(size_t size) {
    return fh_good_bytes(size);
}

void *fh_malloc_at_least(size_t size, size_t *got) {
    size_t good = fh_good_bytes(size);
    void *p = fh_alloc(good);
    if (FH_UNLIKELY(fh_is_checking())) fh_checked_set_rounded(p);
    if (p) *got = good;
    return p;
}

int fh_try_grow(void *p, size_t size) {
    return fh_call_try_grow(p, size);
}

size_t fh_malloc_batch(size_t size, size_t count, void **blocks) {
    return fh_alloc_batch(size, count, blocks);
}

void fh_free_batch(void *const *blocks, size_t count) {
    fh_release_batch(blocks, count);
}

size_t fh_malloc_usable_size(void *p) {
    return fh_call_usable_size(p);
}

int fh_malloc_trim(size_t keep) {
    return fh_call_trim(keep);
}

void fh_thread_flush(void) {
    int saved = errno;
    fh_cache_flush();
    errno = saved;
}

int fh_limit_set(size_t soft, size_t hard, void (*callback)(size_t in_use, size_t limit)) {
    if (hard != 0 && (soft > hard || hard < FH_MIB)) {
        errno = EINVAL;
        return -1;
    }
    fh_limits_install(soft, hard, callback);
    return 0;
}

size_t fh_verify(void) {
    return fh_check_all(fh_check_say, NULL);
}

int fh_check(const void *p) {
    return fh_checked_look(p);
}

size_t fh_heap_check(void) {
    return fh_heap_check_tell();
}

const char *fh_version(void) {
    return FH_VERSION;
}
