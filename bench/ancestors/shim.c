// SPDX-License-Identifier: MIT OR Apache-2.0
// The malloc family over an ancestor's two functions. Before each block lies a header with its size and how
// it came:
//
//     | size 8 | kind 4 | back 4 | payload ...        back: bytes from the payload to the start of the memory
//
// A headless ancestor has none of that for its own blocks: an address in the window is asked about, any other
// has a header.
#define _GNU_SOURCE
#include "ancestor.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PUBLIC __attribute__((visibility("default")))

enum { SMALL = 0x534d4c31, MAPPED = 0x4d415031, LIBC = 0x4c424331 };

struct head {
    uint64_t size;
    uint32_t kind;
    uint32_t back;
};

_Static_assert(sizeof(struct head) == HEAD, "the header keeps the alignment of 16");

// glibc's own allocator under its internal names: MoarVM sent what did not fit its bins to the system's
// malloc.
extern void *__libc_malloc(size_t size) __attribute__((weak));
extern void *__libc_realloc(void *block, size_t size) __attribute__((weak));
extern void __libc_free(void *block) __attribute__((weak));

static struct head *head_of(const void *block) {
    struct head *head = (struct head *)((uintptr_t)block - HEAD);
    if (head->kind != SMALL && head->kind != MAPPED && head->kind != LIBC) {
        ancestor_die("free or realloc of a pointer that it never handed out");
    }
    return head;
}

static bool is_headless(const void *block) {
    return ancestor_headless && window_holds(block);
}

static size_t map_length(size_t total) {
    return (total + 4095) & ~(size_t)4095;
}

// Memory of any size and where it came from. NULL when there is none.
static char *raw_take(size_t total, uint32_t *kind) {
    if (total <= ancestor_limit && !ancestor_headless) {
        *kind = SMALL;
        return (char *)ancestor_take(total);
    }
    if (ancestor_uses_libc && __libc_malloc != NULL) {
        *kind = LIBC;
        return (char *)__libc_malloc(total);
    }
    *kind = MAPPED;
    void *raw = mmap(NULL, map_length(total), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return raw == MAP_FAILED ? NULL : (char *)raw;
}

static void *allocate(size_t size, size_t alignment) {
    if (size > PTRDIFF_MAX - alignment - 2 * 4096) {
        errno = ENOMEM;
        return NULL;
    }
    size_t slack = alignment > HEAD ? alignment : 0;
    if (ancestor_headless && size + slack <= ancestor_limit) {
        char *block = (char *)ancestor_take(size + slack != 0 ? size + slack : 1);
        if (block == NULL) {
            errno = ENOMEM;
            return NULL;
        }
        return (void *)(((uintptr_t)block + alignment - 1) & ~(uintptr_t)(alignment - 1));
    }
    uint32_t kind;
    size_t total = size + slack + HEAD;
    char *raw = raw_take(total, &kind);
    if (raw == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = (char *)(((uintptr_t)raw + HEAD + alignment - 1) & ~(uintptr_t)(alignment - 1));
    // What aligning left over behind the block counts as part of it, so that size and back add up to what was
    // taken.
    size_t back = (size_t)(block - raw);
    *(struct head *)(block - HEAD) = (struct head){total - back, kind, (uint32_t)back};
    return block;
}

static size_t total_of(const struct head *head) {
    return head->size + head->back;
}

PUBLIC void free(void *block) {
    if (block == NULL) {
        return;
    }
    int saved = errno;
    if (is_headless(block)) {
        ancestor_give(block, 0);
        return;
    }
    struct head *head = head_of(block);
    char *raw = (char *)block - head->back;
    uint32_t kind = head->kind;
    size_t total = total_of(head);
    head->kind = 0;
    if (kind == SMALL) {
        ancestor_give(raw, total);
    } else if (kind == LIBC) {
        __libc_free(raw);
    } else {
        munmap(raw, map_length(total));
    }
    errno = saved;
}

PUBLIC void *malloc(size_t size) {
    return allocate(size, 16);
}

PUBLIC size_t malloc_usable_size(void *block) {
    if (block == NULL) {
        return 0;
    }
    return is_headless(block) ? ancestor_room(block) : head_of(block)->size;
}

PUBLIC void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = malloc(bytes);
    if (block != NULL && (is_headless(block) || head_of(block)->kind != MAPPED)) {
        memset(block, 0, bytes);
    }
    return block;
}

// Whoever provides a large block also resizes it, if it was not aligned on purpose. NULL when that cannot be done.
static void *resize_large(struct head *head, size_t size) {
    if (head->kind == SMALL || head->back != HEAD || size + HEAD <= ancestor_limit || size > PTRDIFF_MAX / 2) {
        return NULL;
    }
    struct head *moved;
    if (head->kind == LIBC) {
        moved = (struct head *)__libc_realloc(head, size + HEAD);
    } else {
        void *raw = mremap(head, map_length(total_of(head)), map_length(size + HEAD), MREMAP_MAYMOVE);
        moved = raw == MAP_FAILED ? NULL : (struct head *)raw;
    }
    if (moved == NULL) {
        return NULL;
    }
    moved->size = size;
    return moved + 1;
}

PUBLIC void *realloc(void *block, size_t size) {
    if (block == NULL) {
        return malloc(size);
    }
    if (size == 0) {
        free(block);
        return NULL;
    }
    size_t old = malloc_usable_size(block);
    if (!is_headless(block)) {
        void *moved = resize_large(head_of(block), size);
        if (moved != NULL) {
            return moved;
        }
    } else if (size <= old && size >= old / 2) {
        return block;
    }
    void *fresh = malloc(size);
    if (fresh != NULL) {
        memcpy(fresh, block, old < size ? old : size);
        free(block);
    }
    return fresh;
}

PUBLIC void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

PUBLIC void *memalign(size_t alignment, size_t size) {
    size_t power = 16;
    while (power < alignment) {
        power *= 2;
    }
    void *block = allocate(size, power);
    return block;
}

PUBLIC void *aligned_alloc(size_t alignment, size_t size) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        errno = EINVAL;
        return NULL;
    }
    return memalign(alignment, size);
}

PUBLIC int posix_memalign(void **result, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) {
        return EINVAL;
    }
    int saved = errno;
    void *block = memalign(alignment, size);
    errno = saved;
    if (block == NULL) {
        return ENOMEM;
    }
    *result = block;
    return 0;
}

PUBLIC void *valloc(size_t size) {
    return memalign(4096, size);
}

PUBLIC void *pvalloc(size_t size) {
    return memalign(4096, map_length(size));
}

static void before_fork(void) {
    ancestor_fork(BEFORE_FORK);
}

static void after_fork_parent(void) {
    ancestor_fork(AFTER_FORK_PARENT);
}

static void after_fork_child(void) {
    ancestor_fork(AFTER_FORK_CHILD);
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}
