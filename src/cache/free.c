/* The slow half of freeing: all that is not a push of the hot path. And the sizes of blocks. */
#include "base/assert.h"
#include "base/hooks.h"
#include "cache/cache.h"
#include "cache/hardened.h"
#include "cache/magazine.h"
#include "cache/observed.h"
#include "cache/perturb.h"
#include "cache/thread.h"
#include "cache/twice.h"
#include "store/guarded.h"
#include "store/holes.h"
#include "store/large.h"
#include "store/locate.h"
#include "store/sampled.h"
#include "store/slab_life.h"
#include "system/report.h"
#include "system/system.h"

#include <errno.h>

/* p is in no slab of the class map and no cached run: a guarded, sampled, guest or large block, or none of ours. The sample is
 * removed first: once the block is given, its address may be another sample's. */
static void release_special(const char *call, void *p) {
    if (fh_in_guards(p)) {
        fh_hook_guard_free(call, p);
        return;
    }
    if (fh_holes_give(call, p)) return;
    fh_place at = fh_locate(p);
    if (at.kind == FH_AT_FOREIGN && fh_libc_has(p)) {
        fh_system_libc_free(p);
        return;
    }
    if (!fh_place_check(&at, call, p)) return;
    FH_ASSERT(at.begin == p && at.size != 0);
    bool sample = at.kind == FH_AT_SLAB && fh_class_is_sample(at.c);
    /* Large blocks that have a class byte were not sampled; of those that never have one, some were. */
    bool surely = sample || (at.kind == FH_AT_LARGE && at.size > FH_SLOT_SIZE && at.size <= FH_RUN_CACHED_MAX);
    if (fh_is_observing()) fh_hook_freed(p, surely);
    if (sample) {
        fh_sampled_end(at.c, p);
    }
    if (at.kind == FH_AT_SLAB) {
        fh_give_one(at.c, p);
    } else if (!fh_large_free(p)) {
        fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, at.size); /* another thread was first */
    }
}

/* What a checked build verifies before it believes p. */
static bool check(const char *call, const fh_thread *t, unsigned c, const void *p) {
    if (t && fh_bin_has(t, c, p)) {
        fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, fh_class_size(c));
        return false;
    }
    fh_place at = fh_locate(p);
    return fh_place_check(&at, call, p);
}

void fh_release_unchecked(const char *call, void *p) {
    if (!p) return;
    unsigned c = fh_class_at(p);
    int error = errno; /* free keeps it */
    /* Of these two kinds the cache keeps nothing, so the thread need not enter it. */
    if (c == FH_CLASS_SPECIAL && !fh_is_observing() && (fh_large_free(p) || fh_holes_give(call, p))) {
        fh_thread_safe_point(FH_AFTER_FREE);
        errno = error;
        return;
    }
    fh_thread *t = fh_thread_enter();
    if (t) fh_twice_set(t);
    if (c == FH_CLASS_SPECIAL) {
        release_special(call, p);
    } else if (FH_CHECKED && !check(call, t, c, p)) {
        /* Reported; the call is ignored. */
    } else if (!t) {
        fh_give_one(c, p);
    } else if (!FH_CHECKED && fh_twice_is_free(t, c, p)) {
        fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, fh_class_size(c));
    } else {
        fh_twice_count(t);
        if (t->bin[c].top != t->bin[c].end) {
            fh_push_noted(t, c, p);
        } else {
            fh_flush(t, c, p);
        }
    }
    fh_thread_leave(t);
    fh_thread_safe_point(FH_AFTER_FREE);
    errno = error;
}

/* What of a heap has the slot of p; NULL: no heap. Slabs and cached runs are known by their class byte alone. */
static inline const void *heap_word(const void *p) {
    return fh_class_at(p) == FH_CLASS_SPECIAL ? (const void *)fh_heap_word(p) : NULL;
}

static void release_as_stored(const char *call, void *p) {
    if (!fh_is_hardened() || !fh_release_hardened(call, p)) fh_release_unchecked(call, p);
}

void fh_release_not_given(void *p) {
    release_as_stored("malloc", p);
}

__attribute__((noinline)) static void release_unobserved(const char *call, void *p) {
    fh_perturb_freed(p);
    release_as_stored(call, p);
}

/* p is no heap's. Where all that is freed in a checked program arrives. */
static void release_plain(const char *call, void *p) {
    uint64_t modes = fh_load(&fh_observing);
    if (FH_UNLIKELY(modes & FH_MODE_CHECK)) {
        fh_hook_checked_free(p, 0, 0, FH_SAYS_NOTHING);
    } else if (FH_UNLIKELY(modes & FH_MODES_UNOBSERVED)) {
        release_unobserved(call, p);
    } else {
        fh_release_unchecked(call, p);
    }
}

static void release(const char *call, void *p) {
    const void *word = heap_word(p);
    if (FH_UNLIKELY(word != NULL)) {
        fh_hook_heap_free(call, word, p);
    } else {
        release_plain(call, p);
    }
}

/* True if all that it took for p, of class c, is that the bin's two magazines changed places. */
static inline bool exchange_for_empty(fh_thread *t, unsigned c, void *p) {
    const fh_magazine *m = t->rack[c].previous;
    if (!m || m->count != 0 || fh_twice_is_free(t, c, p) || fh_twice_apart(t, t->rack[c].loaded, m)) return false;
    if (!fh_thread_enter_short(t)) return false;
    t->flushes++;
    fh_bin_exchange(t, c);
    fh_push_noted(t, c, p);
    fh_thread_leave(t);
    return true;
}

/* Out of line, or what is special would save registers. */
__attribute__((noinline)) static void release_to_full(void *p, unsigned c) {
    if (!exchange_for_empty(fh_own(), c, p)) release("free", p);
}

/* False: p is no heap's. */
static inline bool release_to_heap(void *p) {
    const fh_slab *slab = fh_slab_of(p);
    uint64_t quick = FH_LIKELY(slab != NULL) ? fh_load(&slab->quick) : 0;
    if (FH_LIKELY(quick != 0)) {
        fh_hook_heap_free_quick(quick, p);
        return true;
    }
    /* Acquire: as of fh_heap_word. */
    uintptr_t word = FH_LIKELY(slab != NULL) ? (uintptr_t)fh_load_acquire(&slab->heap) : fh_heap_word(p);
    if (!word) return false;
    fh_hook_heap_free("free", (const void *)word, p); // NOLINT(performance-no-int-to-ptr)
    return true;
}

/* The bin is full, or free would not have come here, and so is bin 0. */
void fh_release_slow(void *p, fh_bin *bin) {
    size_t c = (size_t)(bin - fh_release_bins());
    if (!FH_CHECKED && c != FH_CLASS_SPECIAL) {
        release_to_full(p, (unsigned)c);
    } else if (FH_CHECKED) {
        release("free", p);
    } else if (!release_to_heap(p)) {
        release_plain("free", p);
    }
}

/* The bin is not full, and is one of the thread's own. */
static void release_closely(void *p, const fh_bin *bin) {
    fh_thread *t = fh_own();
    unsigned c = (unsigned)(bin - t->bin);
    if (FH_UNLIKELY(fh_twice_is_free(t, c, p))) {
        fh_report_fault(FH_FAULT_DOUBLE_FREE, "free", p, 0, fh_class_size(c));
    } else {
        fh_push_noted(t, c, p);
    }
}

void fh_release_suspect(void *p, fh_bin *bin) {
    release_closely(p, bin);
}

void fh_release_said_slow(void *p, fh_bin *bin, size_t n, size_t align, unsigned said) {
    if (FH_UNLIKELY(fh_is_checking()) && !heap_word(p)) {
        fh_hook_checked_free(p, n, align, said);
    } else if (FH_CHECKED && (said & FH_SAYS_SIZE) && align <= FH_MIN_ALIGN) {
        fh_release_sized_checked(p, n);
    } else {
        fh_release_slow(p, bin);
    }
}

/* ── Sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

__attribute__((noinline)) static size_t usable_slowly(const char *call, const void *p) {
    if (!p) return 0;
    if (fh_in_guards(p)) return fh_hook_guard_usable(call, p);
    fh_place at = fh_locate(p);
    size_t libc = at.kind == FH_AT_FOREIGN && fh_system_libc_usable ? fh_system_libc_usable(p) : 0;
    if (FH_UNLIKELY(libc)) return libc;
    /* A block that is free in its slab is reported when it is freed, not here. */
    bool hardened = fh_is_hardened() && fh_partition_of(p) & FH_PARTITION_HARDENED;
    if (at.kind == FH_AT_SLAB && !hardened) at.free = false;
    if (at.kind == FH_AT_NOTHING || (at.kind == FH_AT_HOLE && at.free)) at.kind = FH_AT_FOREIGN;
    return fh_place_check(&at, call, p) ? at.size : 0;
}

/* Most pointers are the beginning of a block of a slab. A program that counts its bytes asks at each allocation and at each free:
 * Redis spent a tenth of its time in the long way. */
size_t fh_usable(const char *call, const void *p) {
    unsigned c = fh_class_at(p);
    bool plain = !FH_CHECKED && c - 1 < FH_SMALL_LAST && fh_slab_begins_at(c, p);
    return FH_LIKELY(plain) ? fh_class_size(c) : usable_slowly(call, p);
}

/* The class that a request of n bytes got, or one of the larger ones that an aligned request may have got. */
static bool size_fits(size_t n, size_t usable) {
    return n <= usable && (usable <= 4 * FH_KIB || n > usable / 4 || n == 0);
}

void fh_release_sized_checked(void *p, size_t n) {
    if (!p) return;
    size_t usable = fh_usable("free_sized", p);
    if (!usable) return;
    unsigned c = fh_class_at(p);
    bool right =
        c ? fh_class_size(fh_class_of(n)) == usable || (n < usable && n % FH_MIN_ALIGN == 0 && size_fits(n, usable))
          : size_fits(n, usable);
    if (!right && !(fh_load(&fh_shrink_refused) && n <= usable)) {
        fh_report_fault(FH_FAULT_WRONG_SIZE, "free_sized", p, n, usable);
        return;
    }
    release("free_sized", p);
}
