/* One text, three allocators.  Every test calls t_malloc, t_free, ...; this header says who answers:
 *
 *     default      the plain names: Freehold's drop-in when the program is linked with it (or it is preloaded),
 *                  the system's malloc otherwise.  The latter is how the tests themselves are tested: what
 *                  they demand of Freehold must be true of glibc wherever both promise the same.
 *     T_EMBED      the fh_ names of the embedding library, with the system's malloc beside it.
 *     T_FAULTY     support/faulty.c: an allocator with one known fault, to show that the tests have teeth.
 */
#ifndef FREEHOLD_TESTS_ALLOC_H
#define FREEHOLD_TESTS_ALLOC_H

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(T_EMBED)

#include <freehold/freehold.h>
#define t_malloc fh_malloc
#define t_free fh_free
#define t_calloc fh_calloc
#define t_realloc fh_realloc
#define t_reallocarray fh_reallocarray
#define t_aligned_alloc fh_aligned_alloc
#define t_posix_memalign fh_posix_memalign
#define t_memalign fh_memalign
#define t_valloc fh_valloc
#define t_pvalloc fh_pvalloc
#define t_usable_size fh_malloc_usable_size
#define t_free_sized fh_free_sized
#define t_free_aligned_sized fh_free_aligned_sized
#define t_malloc_trim fh_malloc_trim
#define t_mallinfo fh_mallinfo
#define t_mallinfo2 fh_mallinfo2
#define t_malloc_info fh_malloc_info
#define t_malloc_stats fh_malloc_stats
#define t_mallopt fh_mallopt
typedef struct fh_mallinfo t_mallinfo_result;
typedef struct fh_mallinfo2 t_mallinfo2_result;

static inline bool t_is_freehold(void) {
    return true;
}
static inline void t_thread_flush(void) {
    fh_thread_flush();
}
static inline size_t t_verify(void) {
    return fh_verify();
}
#else

typedef struct mallinfo t_mallinfo_result;
typedef struct mallinfo2 t_mallinfo2_result;

/* These exist only where Freehold answers: weak, so that the same program also links without it. */
extern const char *fh_version(void) __attribute__((weak));
extern void fh_thread_flush(void) __attribute__((weak));
extern int fh_option_set(const char *key, const char *value) __attribute__((weak));
extern int fh_stats_print(int fd) __attribute__((weak));
extern size_t fh_verify(void) __attribute__((weak));
extern void free_sized(void *block, size_t size) __attribute__((weak));
extern void free_aligned_sized(void *block, size_t alignment, size_t size) __attribute__((weak));

static inline bool t_is_freehold(void) {
    return fh_version != NULL;
}
static inline void t_thread_flush(void) {
    if (fh_thread_flush) {
        fh_thread_flush();
    }
}
/* Violated equations of the allocator's own records; no other thread may be inside it. Others than ours have none. */
static inline size_t t_verify(void) {
    return fh_verify ? fh_verify() : 0;
}

#if defined(T_FAULTY)
#include "faulty.h"
#else

#define t_malloc malloc
#define t_free free
#define t_calloc calloc
#define t_realloc realloc
#define t_reallocarray reallocarray
#define t_aligned_alloc aligned_alloc
#define t_posix_memalign posix_memalign
#define t_memalign memalign
#define t_valloc valloc
#define t_pvalloc pvalloc
#define t_usable_size malloc_usable_size
#define t_malloc_trim malloc_trim
#define t_mallinfo mallinfo
#define t_mallinfo2 mallinfo2
#define t_malloc_info malloc_info
#define t_malloc_stats malloc_stats
#define t_mallopt mallopt

/* The sized frees are of C23 and younger than many a system; without them plain free means the same. */
__attribute__((always_inline)) static inline void t_free_sized(void *block, size_t size) {
    if (free_sized) {
        free_sized(block, size);
    } else {
        free(block);
    }
}
__attribute__((always_inline)) static inline void t_free_aligned_sized(void *block, size_t alignment, size_t size) {
    if (free_aligned_sized) {
        free_aligned_sized(block, alignment, size);
    } else {
        free(block);
    }
}

#endif
#endif

#ifdef __cplusplus
}
#endif

/* The compiler may not know what size this is, and so neither warn of it nor fold the call away. */
static inline size_t opaque(size_t size) {
    __asm__ volatile("" : "+r"(size));
    return size;
}
static inline void *opaque_pointer(void *pointer) {
    __asm__ volatile("" : "+r"(pointer));
    return pointer;
}

#endif
