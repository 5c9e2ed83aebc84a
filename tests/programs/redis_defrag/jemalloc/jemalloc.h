/* What Redis asks of its own jemalloc, with the version that it wants to see. ../names.c answers it by Freehold. */
#ifndef TESTS_REDIS_JEMALLOC_H
#define TESTS_REDIS_JEMALLOC_H

#include <malloc.h>
#include <stddef.h>

#define JEMALLOC_VERSION_MAJOR 5
#define JEMALLOC_VERSION_MINOR 2
#define JEMALLOC_VERSION_BUGFIX 1
#define JEMALLOC_FRAG_HINT /* there is je_get_defrag_hint */
#define MALLOCX_TCACHE_NONE 0

void *mallocx(size_t size, int flags);
void dallocx(void *p, int flags);
size_t nallocx(size_t size, int flags);
int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size);
void malloc_stats_print(void (*write)(void *, const char *), void *arg, const char *options);
#define je_malloc_usable_size malloc_usable_size

#endif
