/* The library for a whole system (libfreehold-global.so): the names of override.c once more, each for a program that may be
 * on the list of those that keep the C library's malloc (system/linux_global.c). The answer is the same for the whole life
 * of a process, and is found by the first call. It costs each call one load and a branch that always goes the same way.
 *
 * Operator new is left to the C++ library, which calls malloc: so it follows the same answer. */
#include "api/calls.h"
#include "api/options.h"
#include "system/global.h"
#include "system/system.h"

#include "freehold/freehold.h"

#include <dlfcn.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

const char fh_overrides_malloc = 1; /* for the banner; see options.h */

/* glibc's own, under the names that are nobody else's. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void *__libc_valloc(size_t size);
extern void *__libc_pvalloc(size_t size);
extern void __libc_free(void *p);

#define ASIDE FH_UNLIKELY(fh_load(&fh_global_answer) != FH_TAKES_OVER && fh_system_stands_aside())

FH_EXPORT void *malloc(size_t size) {
    return ASIDE ? __libc_malloc(size) : fh_alloc(size);
}

FH_EXPORT void free(void *p) {
    if (ASIDE) {
        __libc_free(p);
    } else {
        fh_release(p);
    }
}

FH_EXPORT void *calloc(size_t count, size_t size) {
    return ASIDE ? __libc_calloc(count, size) : fh_call_calloc(count, size);
}

FH_EXPORT void *realloc(void *p, size_t size) {
    return ASIDE ? __libc_realloc(p, size) : fh_call_realloc(p, size);
}

FH_EXPORT void *reallocarray(void *p, size_t count, size_t size) {
    size_t n;
    if (!ASIDE) return fh_call_reallocarray(p, count, size);
    return fh_product(count, size, &n) ? __libc_realloc(p, n) : fh_fail(ENOMEM);
}

FH_EXPORT void free_sized(void *p, size_t size) {
    if (ASIDE) {
        __libc_free(p);
    } else {
        fh_release_sized(p, size);
    }
}

FH_EXPORT void free_aligned_sized(void *p, size_t alignment, size_t size) {
    if (ASIDE) {
        __libc_free(p);
    } else {
        fh_call_free_aligned_sized(p, alignment, size);
    }
}

FH_EXPORT void cfree(void *p) {
    free(p);
}

FH_EXPORT void *memalign(size_t alignment, size_t size) {
    return ASIDE ? __libc_memalign(alignment, size) : fh_call_memalign(alignment, size);
}

FH_EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    if (!ASIDE) return fh_call_aligned_alloc(alignment, size);
    return fh_is_power_of_two(alignment) ? __libc_memalign(alignment, size) : fh_fail(EINVAL);
}

FH_EXPORT int posix_memalign(void **p, size_t alignment, size_t size) {
    if (!ASIDE) return fh_call_posix_memalign(p, alignment, size);
    if (!fh_is_power_of_two(alignment) || alignment % sizeof(void *)) return EINVAL;
    int saved = errno;
    void *block = __libc_memalign(alignment, size);
    errno = saved;
    if (!block) return ENOMEM;
    *p = block;
    return 0;
}

FH_EXPORT void *valloc(size_t size) {
    return ASIDE ? __libc_valloc(size) : fh_call_valloc(size);
}

FH_EXPORT void *pvalloc(size_t size) {
    return ASIDE ? __libc_pvalloc(size) : fh_call_pvalloc(size);
}

/* ── What the C library has under one name only ──────────────────────────────────────────────────────────────────── */

/* Calls the C library's function of that name and type. All of them are rare. */
#define NEXT(type, name) ((type)(uintptr_t)dlsym(RTLD_NEXT, name)) /* NOLINT(performance-no-int-to-ptr) */

FH_EXPORT size_t malloc_usable_size(void *p) {
    return ASIDE ? NEXT(size_t(*)(void *), "malloc_usable_size")(p) : fh_call_usable_size(p);
}

FH_EXPORT int malloc_trim(size_t keep) {
    return ASIDE ? NEXT(int (*)(size_t), "malloc_trim")(keep) : fh_call_trim(keep);
}

FH_EXPORT struct fh_mallinfo mallinfo(void) {
    return ASIDE ? NEXT(struct fh_mallinfo(*)(void), "mallinfo")() : fh_mallinfo();
}

FH_EXPORT struct fh_mallinfo2 mallinfo2(void) {
    return ASIDE ? NEXT(struct fh_mallinfo2(*)(void), "mallinfo2")() : fh_mallinfo2();
}

FH_EXPORT int malloc_info(int options, FILE *stream) {
    return ASIDE ? NEXT(int (*)(int, FILE *), "malloc_info")(options, stream) : fh_malloc_info(options, stream);
}

FH_EXPORT void malloc_stats(void) {
    if (ASIDE) {
        NEXT(void (*)(void), "malloc_stats")();
    } else {
        fh_malloc_stats();
    }
}

FH_EXPORT int mallopt(int parameter, int value) {
    return ASIDE ? NEXT(int (*)(int, int), "mallopt")(parameter, value) : fh_mallopt(parameter, value);
}
