/* The drop-in: the names of the C library's malloc family, those of C23 and the old ones that glibc exports. All of them
 * or none: a block of ours must never meet a function that does not know it.
 *
 * <stdlib.h> and <malloc.h> are not included: they attach attributes to these names that describe a caller's view (musl
 * has no mallinfo at all). The names are part of the platform's binary interface and do not change. */
#include "api/calls.h"
#include "api/options.h"

#include "freehold/freehold.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* For the banner; see options.h. */
const char fh_overrides_malloc = 1;
const char fh_override_wanted = 1;

/* The hit path begins with a cache line. Where it begins otherwise depends on all code before it: by 16 bytes more or less a bare
 * loop took 4 % more time (edge-64B), and on a line 3 to 7 % less. */
#define FH_ON_A_LINE __attribute__((aligned(64)))

FH_ON_A_LINE FH_EXPORT void *malloc(size_t size) {
    return fh_alloc(size);
}

FH_ON_A_LINE FH_EXPORT void free(void *p) {
    fh_release(p);
}

FH_EXPORT void *calloc(size_t count, size_t size) {
    return fh_call_calloc(count, size);
}

FH_EXPORT void *realloc(void *p, size_t size) {
    return fh_call_realloc(p, size);
}

FH_EXPORT void *reallocarray(void *p, size_t count, size_t size) {
    return fh_call_reallocarray(p, count, size);
}

FH_EXPORT void free_sized(void *p, size_t size) {
    fh_release_sized(p, size);
}

FH_EXPORT void free_aligned_sized(void *p, size_t alignment, size_t size) {
    fh_call_free_aligned_sized(p, alignment, size);
}

/* SunOS's name; glibc dropped it for new programs in 2.26 and still resolves it for old ones. */
FH_EXPORT void cfree(void *p) {
    fh_release(p);
}

FH_EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    return fh_call_aligned_alloc(alignment, size);
}

FH_EXPORT int posix_memalign(void **p, size_t alignment, size_t size) {
    return fh_call_posix_memalign(p, alignment, size);
}

FH_EXPORT void *memalign(size_t alignment, size_t size) {
    return fh_call_memalign(alignment, size);
}

FH_EXPORT void *valloc(size_t size) {
    return fh_call_valloc(size);
}

FH_EXPORT void *pvalloc(size_t size) {
    return fh_call_pvalloc(size);
}

FH_EXPORT size_t malloc_usable_size(void *p) {
    return fh_call_usable_size(p);
}

FH_EXPORT int malloc_trim(size_t keep) {
    return fh_call_trim(keep);
}

/* The structures have glibc's layout, so that a program compiled against <malloc.h> finds its fields. */
FH_EXPORT struct fh_mallinfo mallinfo(void) {
    return fh_mallinfo();
}

FH_EXPORT struct fh_mallinfo2 mallinfo2(void) {
    return fh_mallinfo2();
}

FH_EXPORT int malloc_info(int options, FILE *stream) {
    return fh_malloc_info(options, stream);
}

FH_EXPORT void malloc_stats(void) {
    fh_malloc_stats();
}

FH_EXPORT int mallopt(int parameter, int value) {
    return fh_mallopt(parameter, value);
}
