/* The slow half of allocating: all that is not a pop of the hot path. */
#include "cache/alloc.h"

#include "base/assert.h"
#include "base/hooks.h"
#include "cache/magazine.h"
#include "cache/observed.h"
#include "cache/thread.h"
#include "store/edge.h"
#include "store/large.h"
#include "store/limit.h"
#include "store/slab.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

/* ── From the bins, or straight from the store ───────────────────────────────────────────────────────────────────── */

/* A block of class c from the caller's cache, or from the store if it has none. */
static void *try_class(unsigned c) {
    fh_thread *t = fh_thread_enter();
    void *p;
    if (FH_LIKELY(t != NULL && c < FH_BINS)) {
        /* Reading the options, or becoming observed, may have filled the bin. */
        fh_bin *bin = &t->bin[c];
        p = fh_bin_pop(bin);
        if (!p) p = fh_refill(t, c);
    } else {
        p = fh_window_start() ? fh_take_one(c) : NULL;
    }
    fh_thread_leave(t);
    return p;
}

void *fh_no_memory(size_t n) {
    fh_hook_refused(n);
    errno = ENOMEM;
    return NULL;
}

void *fh_alloc_class(unsigned c, size_t n) {
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_CLASSES);
    void *p = try_class(c);
    for (fh_safe_point point = FH_AFTER_REFUSAL; FH_UNLIKELY(p == NULL); point++) {
        if (!fh_hook_reclaim(point)) return fh_no_memory(n);
        p = try_class(c);
    }
    fh_thread_allocated(p);
    return p;
}

bool fh_is_out_of_reach(size_t n) {
    if (FH_LIKELY(n <= FH_SMALL_MAX)) return false;
    return n > FH_WINDOW_SIZE || fh_limit_excludes(n) || (n >= FH_GIB && n > fh_system_most_bytes());
}

static void *try_special(size_t align, size_t n, bool *clean) {
    void *p = NULL;
    fh_thread *t = fh_thread_enter();
    if (fh_window_start()) p = fh_large_alloc(n, align, clean);
    fh_thread_leave(t);
    return p;
}

void *fh_alloc_special(size_t align, size_t n, bool *clean) {
    FH_ASSERT(fh_is_power_of_two(align));
    fh_hook_metrics();
    void *p = fh_large_alloc_again(n, align, clean);
    if (p) {
        fh_thread_allocated(p);
        return p;
    }
    if (FH_UNLIKELY(fh_is_out_of_reach(n) || align > FH_WINDOW_SIZE || fh_is_beyond_machine(n))) return fh_no_memory(n);
    p = try_special(align, n, clean);
    for (fh_safe_point point = FH_AFTER_REFUSAL; FH_UNLIKELY(p == NULL); point++) {
        if (!fh_hook_reclaim(point)) return fh_no_memory(n);
        p = try_special(align, n, clean);
    }
    fh_thread_allocated(p);
    return p;
}

/* ── What the hot path calls ─────────────────────────────────────────────────────────────────────────────────────── */

/* The bin's place among the thread's, or among its decoys, is its class. 0 bytes lead to bin 0, and are given a block of the
 * first class. */
static unsigned class_of_bin(const fh_bin *bin) {
    unsigned c = (unsigned)(bin - fh_bins());
    FH_ASSERT(c < FH_BINS);
    return FH_LIKELY(c != 0) ? c : 1;
}

/* A block of class c, if all that it takes is that the bin's two magazines change places. */
static inline void *exchange_for_full(fh_thread *t, unsigned c) {
    const fh_magazine *m = t->rack[c].previous;
    if (!m || m->count == 0 || !fh_thread_enter_short(t)) return NULL;
    t->refills++;
    fh_bin_exchange(t, c);
    void *p = fh_bin_pop(&t->bin[c]);
    fh_thread_leave(t);
    return p;
}

/* Observed: what the hot path would have done, with the real bin behind the decoy. */
static inline void *alloc_behind_decoy(size_t n, fh_bin *bin) {
    FH_ASSERT(fh_is_observed());
    void *p = fh_bin_pop(&bin[FH_ROW]);
    return FH_LIKELY(p != NULL) ? p : fh_alloc_class(class_of_bin(bin), n);
}

/* The bin is empty, and nothing else is to be done. Out of line, or what hooks do would begin with registers that are saved. */
__attribute__((noinline)) static void *alloc_plainly(size_t n, fh_bin *bin) {
    fh_here.bytes_until_sample = -1;
    unsigned c = class_of_bin(bin);
    /* A thread without a cache is not asked: what stands for it would come into memory for that. */
    void *p = fh_bins() == fh_no_row.bin ? NULL : exchange_for_full(fh_own(), c);
    return FH_LIKELY(p != NULL) ? p : fh_alloc_class(c, n);
}

/* A sample or a guard is due, or the thread is not observed. */
__attribute__((noinline)) static void *alloc_from_bin(size_t n, fh_bin *bin) {
    return fh_has_mode() ? fh_hook_alloc(n, class_of_bin(bin)) : alloc_plainly(n, bin);
}

void *fh_alloc_slow(size_t n, fh_bin *bin) {
    if (fh_count(n)) return alloc_from_bin(n, bin);
    return alloc_behind_decoy(n, bin);
}

/* Out of line, or the hot path below would save registers. */
__attribute__((noinline)) static void *alloc_above_runs(size_t n) {
    bool clean;
    if (fh_has_mode()) return fh_hook_alloc_aligned(FH_MIN_ALIGN, n, &clean, FH_SAYS_NOTHING);
    return fh_alloc_special(FH_MIN_ALIGN, n, &clean);
}

void *fh_alloc_coarse(size_t n) {
    fh_bin *bin = fh_bins();
    if (FH_LIKELY(n <= FH_SMALL_MAX)) return fh_pop(&bin[fh_class_coarse(n)], n);
    if (n <= FH_RUN_CACHED_MAX) return fh_pop(&bin[fh_class_run(n)], n);
    return alloc_above_runs(n);
}

/* ── Zeroed and aligned ──────────────────────────────────────────────────────────────────────────────────────────── */

/* A block of a class whose blocks are multiples of align, instead of a guest block (holes.h), which is one of 16. */
__attribute__((noinline)) static void *instead_of_guest(void *guest, unsigned c) {
    void *p;
    fh_thread *t = fh_thread_enter();
    unsigned got = fh_slab_take_own(c, 1, &p);
    fh_thread_leave(t);
    fh_release(guest);
    return got ? p : fh_no_memory(fh_class_size(c));
}

void *fh_alloc_unobserved(size_t align, size_t n, bool *clean) {
    *clean = false;
    /* Large blocks of a class begin at any page. */
    bool aligned = n <= FH_SMALL_MAX ? align <= FH_SLOT_SIZE : n <= FH_RUN_CACHED_MAX && align <= FH_PAGE;
    if (!aligned) return fh_alloc_special(align, n, clean);
    unsigned c = fh_aligned_class(align, n);
    void *p = fh_alloc_class(c, n);
    return FH_LIKELY(((uintptr_t)p & (align - 1)) == 0) ? p : instead_of_guest(p, c);
}

/* Blocks from this size on may have come straight from the OS, and it pays to know. A cached one has not. */
void *fh_alloc_zeroed(size_t n) {
    if (n <= FH_SMALL_MAX) {
        void *p = fh_alloc(n);
        return p ? memset(p, 0, n) : NULL;
    }
    bool clean = false;
    unsigned c = fh_class_of(n);
    void *p = fh_has_mode()                         ? fh_hook_alloc_aligned(FH_MIN_ALIGN, n, &clean, FH_SAYS_ZEROED)
              : c && fh_bin_peek(&fh_own()->bin[c]) ? fh_alloc_class(c, n)
                                                    : fh_alloc_special(FH_MIN_ALIGN, n, &clean);
    if (p && !clean) fh_large_zero(p, n);
    return p;
}

/* From the thread's bin, if it has one that is so aligned, which a guest block (holes.h) is not. NULL: it does not. The bins of a
 * thread that is observed or checked, or in a scope, are all empty. */
static inline void *pop_aligned(size_t align, size_t n) {
    if (n > FH_SMALL_MAX || align > FH_PAGE) return NULL;
    fh_bin *bin = &fh_bins()[fh_aligned_class(align, n)];
    const void *p = fh_bin_peek(bin);
    return p && !((uintptr_t)p & (align - 1)) ? fh_bin_pop(bin) : NULL;
}

/* In each of the three below, so that the family costs no instruction unless somebody asks. */
static inline void *alloc_aligned(size_t align, size_t n, unsigned said) {
    bool clean;
    void *p = pop_aligned(align, n);
    if (FH_LIKELY(p != NULL)) return p;
    if (fh_has_mode()) return fh_hook_alloc_aligned(align, n, &clean, said);
    return fh_alloc_unobserved(align, n ? n : 1, &clean);
}

void *fh_alloc_aligned(size_t align, size_t n) {
    return align <= FH_MIN_ALIGN ? fh_alloc(n) : alloc_aligned(align, n, FH_SAYS_NOTHING);
}

void *fh_alloc_aligned_new(size_t align, size_t n) {
    return alloc_aligned(align < FH_MIN_ALIGN ? FH_MIN_ALIGN : align, n, FH_SAYS_NEW);
}

void *fh_alloc_aligned_new_array(size_t align, size_t n) {
    return alloc_aligned(align < FH_MIN_ALIGN ? FH_MIN_ALIGN : align, n, FH_SAYS_ARRAY);
}
