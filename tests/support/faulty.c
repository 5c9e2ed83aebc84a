/* An allocator with a known fault, chosen by FAULT=name: what a test is worth is what it finds here.
 *
 * Each fault is one that allocators really had: a block handed out twice (the ABA of a linked stack), a block
 * shared by two threads, a calloc that trusts memory which was purged only in part, a realloc that forgets
 * the tail, a class table that is one short, a free that leaks the kernel's errno.  The tests labelled
 * `teeth` run a test program over this allocator and pass when that program FAILS. */
#include "faulty.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint calls;
static _Atomic(void *) parked;

static bool fault_is(const char *name) {
    const char *chosen = getenv("FAULT");
    return chosen && strcmp(chosen, name) == 0;
}

/* A fault that struck at the first call would be found by anything; this one waits for its hundredth. */
static bool now_and_then(void) {
    return atomic_fetch_add(&calls, 1) % 100 == 99;
}

void *faulty_malloc(size_t size) {
    if (fault_is("short") && size > 1000 && now_and_then()) {
        return malloc(size - 40);
    }
    if (fault_is("errno-missing") && size > PTRDIFF_MAX) {
        return NULL;
    }
    /* "twice": what is handed out is remembered, and handed out once more to the next caller of that size. Not below
     * 33 bytes, where the tests keep their own notes: they are to find the fault by looking, not by crashing. */
    if (fault_is("twice") && size > 32 && size <= 64 && now_and_then()) {
        void *old = atomic_exchange(&parked, NULL);
        if (old && malloc_usable_size(old) >= size) {
            return old;
        }
    }
    void *block = malloc(size);
    if (fault_is("twice") && size > 32 && size <= 64) {
        atomic_store(&parked, block);
    }
    return block;
}

/* In the faulty run no block is really freed where that would let glibc itself notice and abort. */
void faulty_free(void *block) {
    if (fault_is("errno-lost") && block) {
        errno = EAGAIN;
    }
    if (!fault_is("twice")) {
        free(block);
    }
}

void *faulty_calloc(size_t count, size_t size) {
    if (fault_is("overflow") && count > 1 && size > 1) {
        return malloc(count * size > 0 ? 64 : 0);
    }
    void *block = calloc(count, size);
    if (fault_is("dirty") && block && count * size > 100 && now_and_then()) {
        ((char *)block)[count * size - 1] = 1;
    }
    return block;
}

void *faulty_realloc(void *block, size_t size) {
    void *moved = realloc(block, size);
    if (fault_is("tail") && moved && block && size > 500 && now_and_then()) {
        memset((char *)moved + size / 2, 0, size / 2);
    }
    return moved;
}

void *faulty_reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return faulty_realloc(block, bytes);
}

void *faulty_aligned_alloc(size_t alignment, size_t size) {
    if (fault_is("alignment") && alignment >= 4096) {
        return memalign(alignment / 2, size);
    }
    return memalign(alignment, size);
}

int faulty_posix_memalign(void **block, size_t alignment, size_t size) {
    if (fault_is("einval") && alignment == 24) {
        alignment = 32;
    }
    return posix_memalign(block, alignment, size);
}

size_t faulty_usable_size(void *block) {
    size_t usable = malloc_usable_size(block);
    return fault_is("usable") && usable > 4000 ? usable - 48 : usable;
}
