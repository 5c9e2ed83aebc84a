/* The slow half of each call: whatever is not a pop or a push of the hot path. */
#include "base/hooks.h"
#include "cache/cache.h"
#include "cache/magazine.h"
#include "cache/thread.h"
#include "store/huge.h"
#include "store/limit.h"
#include "store/purge.h"
#include "store/run.h"
#include "store/slab.h"
#include "store/trim.h"
#include "system/report.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

/* ── Allocating ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A block of class c from the caller's cache, or from the store if it has none. */
static void *try_class(unsigned c) {
    fh_thread *t = fh_thread_enter();
    void *p;
    if (FH_LIKELY(t != NULL)) {
        fh_bin *bin = &t->bin[c];
        p = bin->top[-1];
        if (p) {
            bin->top--;
        } else {
            p = fh_refill(t, c);
        }
        fh_thread_leave(t);
    } else {
        p = fh_window_start() ? fh_take_one(c) : NULL;
    }
    return p;
}

/* The system has no more memory, or the limit is met. Whatever is free but kept goes back: what this thread has in hand,
 * the depots, empty slabs, cached mappings, the address space of chunks that are empty then, and the memory of free slots. */
static void give_up_what_is_kept(void) {
    fh_thread_hand_in();
    fh_trim_caches();
    fh_huge_trim(0);
    fh_run_drop_free_chunks();
    fh_purge_to(0);
}

/* An allocation was made or refused, and nothing is held now: the moment for the program's callback, which may free. True
 * if it was refused and is worth another try. */
static bool relieved(bool refused) {
    if (FH_LIKELY(!refused && !(fh_load(&fh_limit_due) | fh_load(&fh_hook_due)))) return false;
    if (fh_load(&fh_hook_due)) fh_hook_write();
    if (refused || fh_load(&fh_limit_due)) fh_limit_relieve(refused);
    if (refused) give_up_what_is_kept();
    return refused;
}

/* What the program gets when nothing has helped. */
static void *no_memory(void) {
    fh_limit_refused();
    errno = ENOMEM;
    return NULL;
}

static void *alloc_class(unsigned c) {
    void *p = try_class(c);
    if (relieved(p == NULL)) p = try_class(c);
    return FH_LIKELY(p != NULL) ? p : no_memory();
}

/* A block that no magazine holds: a run of more than 1 MiB, or a huge one. */
static void *try_special(size_t align, size_t n, bool *clean) {
    void *p = NULL;
    fh_thread *t = fh_thread_enter();
    fh_hook_moment();
    if (fh_window_start()) {
        if (n <= FH_RUN_MAX && align <= FH_RUN_MAX) p = fh_large_alloc(n, align, clean);
        /* Also when the window has no run left. */
        if (!p) p = fh_huge_alloc(n, align, clean);
    }
    fh_thread_leave(t);
    return p;
}

static void *alloc_special(size_t align, size_t n, bool *clean) {
    void *p = n <= PTRDIFF_MAX ? try_special(align, n, clean) : NULL;
    if (n <= PTRDIFF_MAX && relieved(p == NULL)) p = try_special(align, n, clean);
    return FH_LIKELY(p != NULL) ? p : no_memory();
}

void *fh_alloc_slow(size_t n) {
    unsigned c = fh_class_of(n);
    if (FH_LIKELY(c != FH_CLASS_SPECIAL)) return alloc_class(c);
    bool clean;
    return alloc_special(FH_SLOT_SIZE, n, &clean);
}

void *fh_alloc_coarse(size_t n) {
    fh_bin *bin = fh_self()->bin;
    if (FH_LIKELY(n <= FH_SMALL_MAX)) return fh_pop(&bin[fh_class_coarse(n)], n);
    if (n <= FH_RUN_CACHED_MAX) return fh_pop(&bin[fh_class_run(n)], n);
    return fh_alloc_slow(n);
}

/* Blocks from this size on may have come straight from the system, and it pays to know. */
void *fh_alloc_zeroed(size_t n) {
    if (n <= FH_SMALL_MAX) {
        void *p = fh_alloc(n);
        return p ? memset(p, 0, n) : NULL;
    }
    bool clean = false;
    unsigned c = fh_class_of(n);
    void *p = c && fh_self()->bin[c].top[-1] ? fh_alloc(n) : alloc_special(FH_SLOT_SIZE, n, &clean);
    return p && !clean ? memset(p, 0, n) : p;
}

/* The smallest class of at least n bytes whose blocks are all multiples of align. Slabs begin at a multiple of 64 KiB, so
 * it is the block size that decides; a power of two is reached after at most eight steps. */
static unsigned aligned_class(size_t align, size_t n) {
    unsigned c = fh_class_of(n < align ? align : n);
    while (c <= FH_SMALL_LAST && fh_class_size(c) % align) c++;
    return c;
}

void *fh_alloc_aligned(size_t align, size_t n) {
    if (n > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    if (align <= FH_MIN_ALIGN) return fh_alloc(n);
    if (align <= FH_SLOT_SIZE) {
        unsigned c = n <= FH_RUN_CACHED_MAX ? aligned_class(align, n) : FH_CLASS_SPECIAL;
        /* Runs begin at a multiple of 64 KiB anyway. */
        if (c != FH_CLASS_SPECIAL) return alloc_class(c);
    }
    bool clean;
    return alloc_special(align, n ? n : 1, &clean);
}

/* ── Freeing ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* p is in no slab and no cached run: a large or huge block, or none of ours. */
static void release_special(const char *call, void *p) {
    if (fh_in_window(p)) {
        if (fh_large_size(p)) {
            fh_large_free(p);
            return;
        }
        char *around = fh_large_around(p);
        if (around) {
            fh_report_fault(FH_FAULT_INSIDE, call, p, (size_t)around, fh_large_size(around));
            return;
        }
        /* Our address, but nothing lives there: it was freed, and its slab with it. */
        fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, 0);
        return;
    }
    if (fh_huge_free(p)) return;
    char *around = fh_huge_around(p);
    if (around) {
        fh_report_fault(FH_FAULT_INSIDE, call, p, (size_t)around, fh_huge_size(around));
    } else {
        fh_report_fault(FH_FAULT_FOREIGN, call, p, 0, 0);
    }
}

/* What a checked build verifies before it believes p: true if p may be freed. */
static bool check(const char *call, void *p, unsigned c) {
    if (fh_class_is_run(c)) {
        if (fh_large_size(p)) return true;
        void *around = fh_large_around(p);
        fh_report_fault(around ? FH_FAULT_INSIDE : FH_FAULT_FOREIGN, call, p, (size_t)around,
                        around ? fh_large_size(around) : 0);
        return false;
    }
    void *start = fh_slab_block_of(c, p);
    if (start != p) {
        fh_report_fault(start ? FH_FAULT_INSIDE : FH_FAULT_FOREIGN, call, p, (size_t)start, fh_class_size(c));
        return false;
    }
    if (fh_slab_is_free(c, p)) {
        fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, fh_class_size(c));
        return false;
    }
    return true;
}

/* In checked builds also the caller's own magazines are searched: a block that is there is free. */
static bool in_hand(const fh_thread *t, unsigned c, const void *p) {
    const fh_bin *bin = &t->bin[c];
    for (void **q = bin->top; q[-1]; q--) {
        if (q[-1] == p) return true;
    }
    const fh_magazine *m = t->rack[c].previous;
    for (unsigned i = 0; m && i < m->count; i++) {
        if (m->block[i] == p) return true;
    }
    return false;
}

static void release(const char *call, void *p) {
    if (!p) return;
    int error = errno; /* free keeps it */
    unsigned c = fh_class_at(p);
    fh_thread *t = fh_thread_enter();
    if (c == FH_CLASS_SPECIAL) {
        release_special(call, p);
    } else if (FH_CHECKED && t && in_hand(t, c, p)) {
        fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, fh_class_size(c));
    } else if (FH_CHECKED && !check(call, p, c)) {
        /* Reported; the call is ignored. */
    } else if (!t) {
        fh_give_one(c, p);
    } else if (t->bin[c].top != t->bin[c].end) {
        *t->bin[c].top++ = p;
    } else {
        fh_flush(t, c, p);
    }
    fh_thread_leave(t);
    errno = error;
}

void fh_release_slow(void *p) {
    release("free", p);
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
    if (!right) {
        fh_report_fault(FH_FAULT_WRONG_SIZE, "free_sized", p, n, usable);
        return;
    }
    release("free_sized", p);
}

/* ── Sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

size_t fh_usable(const char *call, const void *p) {
    if (!p) return 0;
    unsigned c = fh_class_at(p);
    if (c && !fh_class_is_run(c)) {
        void *start = fh_slab_block_of(c, p);
        if (start == p) return fh_class_size(c);
        fh_report_fault(start ? FH_FAULT_INSIDE : FH_FAULT_FOREIGN, call, p, (size_t)start, fh_class_size(c));
        return 0;
    }
    size_t size = fh_in_window(p) ? fh_large_size(p) : fh_huge_size(p);
    if (size) return size;
    void *around = fh_in_window(p) ? fh_large_around(p) : fh_huge_around(p);
    size_t bytes = !around ? 0 : fh_in_window(p) ? fh_large_size(around) : fh_huge_size(around);
    fh_report_fault(around ? FH_FAULT_INSIDE : FH_FAULT_FOREIGN, call, p, (size_t)around, bytes);
    return 0;
}

/* Tries to give the block at p (of `old` bytes) the size n where it is, or by moving its pages. */
static void *resize_without_copy(void *p, size_t old, size_t n) {
    if (old <= FH_SMALL_MAX || n <= FH_SMALL_MAX) return NULL;
    void *q = NULL;
    fh_thread *t = fh_thread_enter();
    if (fh_in_window(p)) {
        if (n <= FH_RUN_MAX && fh_large_resize(p, n)) q = p;
    } else if (n > FH_RUN_MAX) {
        q = fh_huge_resize(p, n);
    }
    fh_thread_leave(t);
    return q;
}

void *fh_resize(void *p, size_t n) {
    size_t old = fh_usable("realloc", p);
    if (!old) {
        errno = EINVAL;
        return NULL;
    }
    /* In place within the class, and when it shrinks by less than half. A checked build stays only within the class, so
     * that it can hold a later sized free to the new size. */
    if (n <= old && (FH_CHECKED ? fh_class_size(fh_class_of(n)) == old : n > old / 2 || old <= 64)) {
        if (old <= FH_SMALL_MAX || n > old - old / 8) return p;
    }
    void *q = n > PTRDIFF_MAX ? NULL : resize_without_copy(p, old, n);
    if (q) return q;
    q = fh_alloc(n);
    if (!q) return n <= old ? p : NULL; /* shrinking never fails */
    memcpy(q, p, n < old ? n : old);
    fh_release(p);
    return q;
}
