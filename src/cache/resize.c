/* realloc: in place where the block stays as good as it was, at a place with room to grow, or by a copy. */
#include "base/assert.h"
#include "base/hooks.h"
#include "cache/alloc.h"
#include "cache/cache.h"
#include "cache/observed.h"
#include "cache/partition.h"
#include "cache/thread.h"
#include "cache/twice.h"
#include "store/guarded.h"
#include "store/large.h"
#include "store/limit.h"
#include "store/slab_life.h"
#include "system/report.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

/* What grows beyond this is likely to grow again, and is worth a place with room to grow. */
#define GROWS_FROM FH_MIB

/* Up to this length a block that shrinks may be copied: 10 to 30 µs. */
#define SHRUNK_COPIED_MOST (FH_RUN_CACHED_MAX / 2)

fh_word fh_shrink_refused;

/* Gives the large block at p the size n where it is, or, if it may move, at a place with room to grow. NULL: it is as it was. */
static void *try_resize(void *p, size_t old, size_t n, bool may_move) {
    FH_ASSERT(n > FH_SMALL_MAX);
    fh_thread *t = fh_thread_enter();
    bool observing = fh_is_observing();
    if (observing) fh_hook_moving(p);
    void *q = fh_large_resize(p, n) ? p : NULL;
    if (!q && may_move && n > old && n > GROWS_FROM) q = fh_large_move(p, n);
    if (observing && !q) fh_hook_stayed(p);
    fh_thread_leave(t);
    return q;
}

/* A thread may end in the program's callback, and a clean-up handler of it frees the block where the program has it. So the
 * callback is not called between a move and the return: it waits for the next allocation, or the next call here. */
static void *resize_large(void *p, size_t old, size_t n, bool may_move) {
    if (old <= FH_SMALL_MAX || n <= FH_SMALL_MAX) return NULL;
    fh_thread_safe_point(FH_AFTER_ALLOC);
    void *q = try_resize(p, old, n, may_move);
    /* A limit may have refused what fits once the caches are empty; a copy would need even more. */
    if (!q && fh_limit_is_set() && fh_hook_reclaim(FH_AFTER_REFUSAL)) q = try_resize(p, old, n, may_move);
    fh_thread_safe_point(q && q != p ? FH_AFTER_FREE : FH_AFTER_ALLOC);
    if (q && fh_is_observing()) fh_hook_moved(p, q, n);
    return q;
}

/* A block that stays where it is and as good as it was. */
static void *kept(void *p, size_t n) {
    if (FH_UNLIKELY(fh_is_observing()) && fh_class_at(p) == FH_CLASS_SPECIAL) fh_hook_resized(p, n);
    return p;
}

/* True if the block at p, of class c, stays where it is with n bytes: as below, but without reading the slab. */
static inline bool stays(const void *p, unsigned c, size_t n) {
    size_t size = fh_class_size(c);
    if (n > size) return false;
    /* Within an eighth: what could be released is not worth the trouble. */
    if (fh_class_is_run(c)) return n > size - size / 8 && fh_large_is(p, size);
    if (n <= size / 2 && size > 64) return false;
    return fh_slab_begins_at(c, p);
}

/* A block that a thread could cache, and that loses a quarter or more. Cut where it is, it leaves a piece that no block of its old
 * length fits into, and the next one takes new memory: a server that reads each piece into 256 KiB and keeps 100 KB of it had
 * twice the memory that it used. A copy goes where it fits, and the old block serves again, still in the CPU's cache.
 * Under a limit both at once may be too much. */
static bool is_better_copied(size_t old, size_t n) {
    return old <= FH_RUN_CACHED_MAX && n <= old - old / 4 && n <= SHRUNK_COPIED_MOST && !fh_limit_is_set();
}

__attribute__((noinline)) static void *resize(void *p, size_t n) {
    if (FH_UNLIKELY(fh_class_at(p) == FH_CLASS_SPECIAL && fh_heap_word(p))) return fh_hook_heap_resize(p, n);
    if (FH_UNLIKELY(fh_is_checking())) return fh_hook_checked_resize(p, n);
    if (fh_in_guards(p)) return fh_hook_guard_resize(p, n);
    if (FH_UNLIKELY(!fh_in_window(p)) && fh_libc_has(p)) return fh_system_libc_realloc(p, n);
    size_t old = fh_usable("realloc", p);
    if (!old) {
        errno = EINVAL;
        return NULL;
    }
    /* In place within the class, and when it shrinks by less than half. A checked build stays only within the class, so
     * that it can hold a later sized free to the new size; and a guest of another slab, which has more than its class, with all that it has. */
    if (n <= old && (FH_CHECKED ? n == old || fh_class_size(fh_class_of(n)) == old : n > old / 2 || old <= 64)) {
        if (old <= FH_SMALL_MAX || n > old - old / 8) return kept(p, n);
    }
    /* What there can never be is refused at once, by fh_alloc. */
    bool never = n > old && (fh_is_out_of_reach(n) || fh_is_beyond_machine(n - old));
    bool copied = is_better_copied(old, n);
    void *q = never || copied ? NULL : resize_large(p, old, n, true);
    if (q) return q;
    q = fh_alloc_like(p, n);
    if (!q && copied && resize_large(p, old, n, false)) return p;
    if (!q && n <= old) {
        if (FH_CHECKED) fh_store(&fh_shrink_refused, 1);
        return p; /* shrinking never fails */
    }
    if (!q) return NULL;
    memcpy(q, p, n < old ? n : old);
    fh_release(p);
    return q;
}

/* Out of line, or each call would save registers. */
__attribute__((noinline, cold)) static void report_freed(const char *call, void *p, unsigned c) {
    fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, fh_class_size(c));
    errno = EINVAL;
}

/* True, and reported, if the thread has the block at p, of class c, cached: it is free. */
static inline bool is_freed(const char *call, void *p, unsigned c) {
    if (FH_LIKELY(c == FH_CLASS_SPECIAL || !fh_twice_is_free(fh_own(), c, p))) return false;
    report_freed(call, p, c);
    return true;
}

bool fh_grow(void *p, size_t n) {
    if (FH_UNLIKELY(is_freed("fh_try_grow", p, fh_class_at(p)))) return false;
    size_t old = fh_usable("fh_try_grow", p);
    if (n <= old) return old != 0;
    if (!old || !fh_in_window(p) || fh_is_out_of_reach(n)) return false;
    /* What is behind a heap's block is not charged to the heap, or is in use there. */
    if (fh_class_at(p) == FH_CLASS_SPECIAL && fh_heap_word(p)) return false;
    return resize_large(p, old, n, false) != NULL;
}

/* A small block of class c becomes one of the class of n bytes, if the thread has one cached. NULL: it does not, or it is not for
 * here: the bins of a thread that is observed or checked, or in a scope, are all empty. */
static void *moved(void *p, unsigned c, size_t n) {
    if (c > FH_SMALL_LAST || n > FH_SMALL_MAX || !fh_slab_begins_at(c, p)) return NULL;
    void *q = fh_bin_pop(&fh_bins()[fh_class_of(n)]);
    if (!q) return NULL;
    size_t old = fh_class_size(c);
    memcpy(q, p, n < old ? n : old);
    fh_release(p);
    return q;
}

/* Most calls of a program that appends a little each time change nothing. No checked block begins where a block of a class
 * does, so none of them stays. */
void *fh_resize(void *p, size_t n) {
    unsigned c = fh_class_at(p);
    if (FH_UNLIKELY(is_freed("realloc", p, c))) return NULL;
    if (FH_LIKELY(c != FH_CLASS_SPECIAL && !FH_CHECKED)) {
        if (FH_LIKELY(stays(p, c, n))) return p;
        void *q = moved(p, c, n);
        if (q) return q;
    }
    return resize(p, n);
}
