// SPDX-License-Identifier: MIT OR Apache-2.0
// An allocator whose blocks of 64 and of 65 bytes are 256 MiB apart, for alias.c: there the recorder's notes have the same places.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { NEAR = 64, FAR = 65, SLOTS = 1024 };
#define DISTANCE ((size_t)256 << 20)

static _Atomic(char *) memory;
static _Atomic size_t used[2], other;

// The first 256 MiB have the blocks of 64 bytes, the second ones those of 65. Behind them is all else.
static char *begin(void) {
    char *p = atomic_load(&memory), *none = NULL;
    if (p != NULL) {
        return p;
    }
    p = mmap(NULL, 4 * DISTANCE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    p = (char *)(((uintptr_t)p + DISTANCE - 1) & ~(DISTANCE - 1));
    return atomic_compare_exchange_strong(&memory, &none, p) ? p : none;
}

void *malloc(size_t size) {
    if (size == NEAR || size == FAR) {
        return begin() + (size - NEAR) * DISTANCE + atomic_fetch_add(&used[size - NEAR], 1) % SLOTS * 64;
    }
    size_t rounded = (size + 31) & ~(size_t)15;
    char *p = begin() + 2 * DISTANCE + atomic_fetch_add(&other, rounded);
    memcpy(p, &size, sizeof size);
    return p + 16;
}

void *calloc(size_t count, size_t size) {
    return malloc(count * size + (count * size == NEAR || count * size == FAR ? 2 : 0)); // fresh pages are zero
}

void *realloc(void *old, size_t size) {
    char *p = malloc(size == NEAR || size == FAR ? size + 2 : size);
    size_t had = 0;
    if (old != NULL) {
        memcpy(&had, (char *)old - 16, sizeof had);
        memcpy(p, old, had < size ? had : size);
    }
    return p;
}

void *aligned_alloc(size_t alignment, size_t size) {
    char *p = malloc(size + alignment + 80);
    return (char *)(((uintptr_t)p + alignment - 1) & ~(alignment - 1));
}

void *memalign(size_t alignment, size_t size) {
    return aligned_alloc(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = aligned_alloc(alignment, size);
    return 0;
}

void free(void *block) {
    (void)block;
}

size_t malloc_usable_size(void *block) {
    (void)block;
    return 1;
}
