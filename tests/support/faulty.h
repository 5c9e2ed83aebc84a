/* The faulty allocator (see faulty.c): the system's malloc with one planted fault. */
#ifndef FREEHOLD_TESTS_FAULTY_H
#define FREEHOLD_TESTS_FAULTY_H

#include <malloc.h>
#include <stddef.h>

void *faulty_malloc(size_t size);
void faulty_free(void *block);
void *faulty_calloc(size_t count, size_t size);
void *faulty_realloc(void *block, size_t size);
void *faulty_reallocarray(void *block, size_t count, size_t size);
void *faulty_aligned_alloc(size_t alignment, size_t size);
int faulty_posix_memalign(void **block, size_t alignment, size_t size);
size_t faulty_usable_size(void *block);

#define t_malloc faulty_malloc
#define t_free faulty_free
#define t_calloc faulty_calloc
#define t_realloc faulty_realloc
#define t_reallocarray faulty_reallocarray
#define t_aligned_alloc faulty_aligned_alloc
#define t_posix_memalign faulty_posix_memalign
#define t_memalign faulty_aligned_alloc
#define t_valloc valloc
#define t_pvalloc pvalloc
#define t_usable_size faulty_usable_size
#define t_malloc_trim malloc_trim
#define t_mallinfo mallinfo
#define t_mallinfo2 mallinfo2
#define t_malloc_info malloc_info
#define t_malloc_stats malloc_stats
#define t_mallopt mallopt
#define t_free_sized(block, size) faulty_free(block)
#define t_free_aligned_sized(block, alignment, size) faulty_free(block)

#endif
