/* Linux, only in the drop-in that is loaded (libfreehold.so): a program with two heaps.
 *
 * dlopen(…, RTLD_DEEPBIND) makes a library look for its names in itself and its own dependencies first. So it finds the C
 * library's malloc, and the rest of the program ours. A block that crosses the border reaches the wrong free. PHP loads its
 * extensions so, and httpd its modules.
 *
 * Hence two things. dlopen drops that flag, unless the option deepbind says otherwise. And a block of the C library's heap
 * that reaches our free or realloc is passed on, if it is one for certain. */
#include "base/atomic.h"
#include "base/hooks.h"
#include "base/settings.h"
#include "system/inspect.h"
#include "system/report.h"
#include "system/system.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#pragma weak dlsym

/* musl has no such flag and no such names. */
#ifndef RTLD_DEEPBIND
#define RTLD_DEEPBIND 0
#endif

/* ── dlopen ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef void *(*opener)(const char *path, int flags);

static opener next_dlopen(void) {
    static fh_word known; /* relaxed: every thread finds the same */
    uint64_t found = fh_load(&known);
    if (!found && dlsym) fh_store(&known, found = (uint64_t)(uintptr_t)dlsym(RTLD_NEXT, "dlopen"));
    return (opener)(uintptr_t)found; // NOLINT(performance-no-int-to-ptr)
}

static void say_dropped(const char *path) {
    FH_REPORT_LINE("dlopen(", path ? path : "NULL",
                   "): RTLD_DEEPBIND is dropped, or the library would have another malloc (option deepbind)");
}

static int allowed_flags(const char *path, int flags) {
    if (fh_system_stands_aside && fh_system_stands_aside()) return flags;
    fh_hook_start();
    if (FH_SETTING(deepbind) == FH_DEEPBIND_KEEP) return flags;
    if (FH_SETTING(verbose)) say_dropped(path);
    return flags & ~RTLD_DEEPBIND;
}

/* The loader looks at its return address: the caller's search path ($ORIGIN, RUNPATH) and namespace decide what is found. So
 * the last call must be a jump, and is one at every level of optimisation. */
#if defined(__clang__)
#define JUMPS
#define JUMP_TO __attribute__((musttail)) return
#else
#define JUMPS __attribute__((optimize("O2")))
#define JUMP_TO return
#endif

JUMPS __attribute__((visibility("default"))) void *dlopen(const char *path, int flags) {
    opener next = next_dlopen();
    if (!next) return NULL;
    if (flags & RTLD_DEEPBIND) flags = allowed_flags(path, flags);
    JUMP_TO next(path, flags);
}

/* ── Blocks of glibc's heap ──────────────────────────────────────────────────────────────────────────────────────── */

/* glibc exports both under these names beside free and realloc, which are ours. */
extern void __libc_free(void *p) __attribute__((weak));
extern void *__libc_realloc(void *p, size_t n) __attribute__((weak));

/* Before each block are two words: the size of the block before it, if that is free, and its own size with three bits. */
typedef struct {
    size_t before, size;
} header;

#define BEFORE_IN_USE 1u
#define MAPPED 2u /* a mapping of its own, which begins `before` bytes before the header */
#define OTHER_ARENA 4u
#define BITS 7u
#define LEAST (2 * sizeof(header))
#define PAGE_LEAST 4096u /* nothing is mapped below it */

/* Arenas other than the first lie in pieces of this size and alignment, each with its own header. */
#define PIECE ((size_t)64 << 20)

typedef struct {
    uintptr_t arena;
    uintptr_t previous;
    size_t size;
} piece;

static fh_word heap_begin; /* where the first arena can begin at the earliest */

__attribute__((constructor(101))) static void note_heap_begin(void) {
    fh_store(&heap_begin, (uintptr_t)sbrk(0));
}

/* Where the kernel may not be asked, the memory is read as glibc would read it. */
static bool look(void *to, uintptr_t from, size_t n) {
    if (!fh_system_is_restricted()) return fh_system_peek(to, from, n) == n;
    if (from < PAGE_LEAST) return false;
    memcpy(to, (const void *)from, n); // NOLINT(performance-no-int-to-ptr)
    return true;
}

/* What glibc itself checks before it unmaps one. */
static bool is_mapped_block(uintptr_t at, const header *h) {
    size_t page = fh_system_page_size(), size = h->size & ~(size_t)BITS;
    if (h->before > at || h->before >= PIECE || size < LEAST || size + h->before < size) return false;
    return ((at - h->before) | (size + h->before)) % page == 0 &&
           fh_system_is_mapped((void *)(at - h->before), size + h->before); // NOLINT(performance-no-int-to-ptr)
}

static bool is_in_piece(uintptr_t at, size_t size) {
    uintptr_t begin = at & ~(PIECE - 1), first;
    piece own;
    if (!look(&own, begin, sizeof own) || own.size > PIECE || own.size % fh_system_page_size()) return false;
    if (at < begin + sizeof own || at - begin + size > own.size) return false;
    /* The arena itself is near the beginning of its first piece, which names it too. */
    uintptr_t of_arena = own.arena & ~(PIECE - 1);
    return own.arena - of_arena < PAGE_LEAST && own.arena != of_arena && look(&first, of_arena, sizeof first) &&
           first == own.arena;
}

static bool is_in_first_arena(uintptr_t at, size_t size) {
    uintptr_t begin = (uintptr_t)fh_load(&heap_begin), end = (uintptr_t)sbrk(0);
    return begin && at >= begin && at < end && size <= end - at;
}

size_t fh_system_libc_usable(const void *p) {
    uintptr_t at = (uintptr_t)p - sizeof(header);
    header h, next;
    if (!__libc_free || !__libc_realloc || (uintptr_t)p % sizeof h || (uintptr_t)p < PAGE_LEAST) return 0;
    if (!look(&h, at, sizeof h)) return 0;
    size_t size = h.size & ~(size_t)BITS;
    if (h.size & MAPPED) return !(h.size & OTHER_ARENA) && is_mapped_block(at, &h) ? size - sizeof h : 0;
    if (size < LEAST || size % sizeof h) return 0;
    if (!(h.size & OTHER_ARENA ? is_in_piece(at, size) : is_in_first_arena(at, size))) return 0;
    /* In use, as far as the block behind it knows. What glibc has in its caches counts as in use; it looks itself. */
    if (!look(&next, at + size, sizeof next) || !(next.size & BEFORE_IN_USE)) return 0;
    return size - sizeof(size_t);
}

void fh_system_libc_free(void *p) {
    __libc_free(p);
}

void *fh_system_libc_realloc(void *p, size_t n) {
    return __libc_realloc(p, n);
}
