// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts what a workload asks of malloc: preloaded over glibc's own allocator, it writes one line to the file BENCH_COUNTS
// at exit. check_counts.py compares that with what the workload says of itself.
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// glibc's allocator under the names that nothing overrides.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static atomic_ulong mallocs, callocs, reallocs, frees;

static void count(atomic_ulong *which) {
    atomic_fetch_add_explicit(which, 1, memory_order_relaxed);
}

void *malloc(size_t size) {
    count(&mallocs);
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    count(&callocs);
    return __libc_calloc(number, size);
}

void *realloc(void *block, size_t size) {
    count(&reallocs);
    return __libc_realloc(block, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    count(&mallocs);
    return __libc_memalign(alignment, size);
}

void free(void *block) {
    if (block != NULL) {
        count(&frees);
    }
    __libc_free(block);
}

__attribute__((destructor)) static void say(void) {
    const char *path = getenv("BENCH_COUNTS");
    int file = path != NULL ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    if (file < 0) {
        return;
    }
    char line[128];
    int length = snprintf(line, sizeof line, "%lu %lu %lu %lu\n", atomic_load(&mallocs), atomic_load(&callocs),
                          atomic_load(&reallocs), atomic_load(&frees));
    if (write(file, line, (size_t)length) != length) {
        _exit(70);
    }
    close(file);
}
