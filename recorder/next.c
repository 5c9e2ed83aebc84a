// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds the allocator that comes next, and answers what is called meanwhile.
#define _GNU_SOURCE
#include "next.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

// Answers what dlsym itself allocates while the first name is looked up.
static _Alignas(16) char arena[65536];
static _Atomic size_t arena_used;
static __thread bool resolving __attribute__((tls_model("initial-exec")));

void *next_from_arena(size_t size) {
    size_t rounded = (size + 31) & ~(size_t)15;
    size_t at = atomic_fetch_add(&arena_used, rounded);
    if (size > sizeof arena || at + rounded > sizeof arena) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(arena + at, &size, sizeof size); // for realloc
    return arena + at + 16;
}

bool next_in_arena(const void *block) {
    return (const char *)block >= arena && (const char *)block < arena + sizeof arena;
}

// So that no fast path takes what is here for a block of the allocator. None of it ever has a note.
void recorder_keep_off(void) {
    order_keep_off(NULL, 0);
    order_keep_off(arena, sizeof arena);
}

struct next next;
static struct next real; // without wrappers
_Atomic int next_stage;  // 0 nothing yet, 1 somebody is at it, 2 ready

#define FIND(member, name) (*(void **)&real.member = dlsym(RTLD_NEXT, name))

static void find_next(void) {
    FIND(malloc, "malloc");
    FIND(calloc, "calloc");
    FIND(realloc, "realloc");
    FIND(free, "free");
    FIND(memalign, "memalign");
    FIND(aligned_alloc, "aligned_alloc");
    FIND(posix_memalign, "posix_memalign");
    FIND(valloc, "valloc");
    FIND(pvalloc, "pvalloc");
    FIND(trim, "malloc_trim");
    FIND(pthread_create, "pthread_create");
    FIND(thrd_create, "thrd_create");
    FIND(fork_alone, "_Fork");
}

// ── Wrappers ─────────────────────────────────────────────────────────────────────────────────────────────────

RECORDER_WRAPPER(void *, return, malloc, real.malloc, (size_t size), size)
RECORDER_WRAPPER(void *, return, calloc, real.calloc, (size_t count, size_t size), count, size)
RECORDER_WRAPPER(void, , free, real.free, (void *block), block)
RECORDER_WRAPPER(void *, return, memalign, real.memalign, (size_t alignment, size_t size), alignment, size)
RECORDER_WRAPPER(void *, return, aligned_alloc, real.aligned_alloc, (size_t alignment, size_t size), alignment, size)
RECORDER_WRAPPER(int, return, posix_memalign, real.posix_memalign, (void **block, size_t alignment, size_t size), block,
                 alignment, size)
RECORDER_WRAPPER(void *, return, valloc, real.valloc, (size_t size), size)
RECORDER_WRAPPER(void *, return, pvalloc, real.pvalloc, (size_t size), size)

// The object that the allocator is in, if that is quiet: no address is in a range of nothing.
static struct {
    uintptr_t begin, end;
    bool is_freehold;
} quiet;

// Names that only the two have. (Looking for one by dlsym would allocate a message where it is not.)
extern char fh_malloc[] __attribute__((weak, visibility("default")));
extern char gnu_get_libc_version[] __attribute__((weak, visibility("default")));

static int see_object(struct dl_phdr_info *object, size_t size, void *unused) {
    (void)size, (void)unused;
    uintptr_t begin = UINTPTR_MAX, end = 0;
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t from = object->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;
        if (part->p_type == PT_LOAD) {
            begin = from < begin ? from : begin;
            end = to > end ? to : end;
        }
    }
    uintptr_t theirs = (uintptr_t) * (void **)&real.malloc, ours = (uintptr_t)fh_malloc;
    uintptr_t libc = (uintptr_t)gnu_get_libc_version;
    if (theirs < begin || theirs >= end) {
        return 0;
    }
    quiet.is_freehold = ours >= begin && ours < end;
    if (quiet.is_freehold || (libc >= begin && libc < end)) {
        quiet.begin = begin;
        quiet.end = end;
    }
    return 1;
}

bool next_is_quiet(const void *function) {
    return (uintptr_t)function >= quiet.begin && (uintptr_t)function < quiet.end;
}

bool next_has(const void *code) {
    return quiet.is_freehold && next_is_quiet(code);
}

void *next_find(const char *name) {
    ready();
    RECORDER_HOLDS;
    return dlsym(RTLD_NEXT, name);
}

#define WRAP(member)                                                                                                   \
    do {                                                                                                               \
        if (real.member != NULL && !next_is_quiet(*(void **)&real.member)) {                                           \
            next.member = member##_held;                                                                               \
        }                                                                                                              \
    } while (0)

static void wrap(void) {
    next = real;
    dl_iterate_phdr(see_object, NULL);
    WRAP(malloc);
    WRAP(calloc);
    WRAP(free);
    WRAP(memalign);
    WRAP(aligned_alloc);
    WRAP(posix_memalign);
    WRAP(valloc);
    WRAP(pvalloc);
}

bool next_make_ready(void) {
    if (resolving) {
        return false;
    }
    int nothing = 0;
    if (atomic_compare_exchange_strong(&next_stage, &nothing, 1)) {
        int error = errno;
        resolving = true;
        find_next();
        if (real.malloc == NULL || real.free == NULL) {
            abort();
        }
        wrap();
        resolving = false;
        recorder_begin();
        atomic_store_explicit(&next_stage, 2, memory_order_release);
        errno = error;
        return true;
    }
    // Calls of recorder_begin itself go through; another thread, in a program this young, waits for the first.
    while (recorder_self.at != RECORDER_HELD && atomic_load_explicit(&next_stage, memory_order_acquire) != 2) {
    }
    return true;
}
