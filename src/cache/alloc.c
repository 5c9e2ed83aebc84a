/* The slow half of each call: whatever is not a pop or a push of the hot path. */
#include "base/hooks.h"
#include "cache/background_thread.h"
#include "cache/cache.h"
#include "cache/magazine.h"
#include "cache/observed.h"
#include "cache/refusal.h"
#include "cache/thread.h"
#include "store/background.h"
#include "store/huge.h"
#include "store/limit.h"
#include "store/purge.h"
#include "store/run.h"
#include "store/slab.h"
#include "store/sublet.h"
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
    if (FH_LIKELY(t != NULL && c < FH_BINS)) {
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
        fh_thread_leave(t);
    }
    return p;
}

/* The system has no more memory, or the limit is met. Whatever is free but kept goes back: what this thread has in hand,
 * the depots, empty slabs, cached mappings, the address space of chunks that are empty then, and the memory of free slots. */
static void give_up_what_is_kept(void) {
    fh_cache_flush();
    fh_trim_caches();
    fh_huge_trim(0);
    fh_run_drop_free_chunks();
    fh_purge_to(0);
}

/* An allocation was made or refused, and nothing is held now: the moment for the program's callback, which may free. True
 * if it was refused and is worth another try. */
static bool relieved(bool refused) {
    bool thread_wanted = fh_load(&fh_background) == FH_BACKGROUND_WANTED;
    if (FH_LIKELY(!refused && !(fh_load(&fh_limit_due) | fh_load(&fh_hook_due) | thread_wanted))) return false;
    if (thread_wanted) fh_background_start();
    if (fh_load(&fh_hook_due)) fh_hook_write();
    if (refused || fh_load(&fh_limit_due)) fh_limit_relieve(refused, (uintptr_t)fh_own());
    if (refused) give_up_what_is_kept();
    return refused;
}

/* What the program gets when nothing has helped, instead of a block of n bytes. */
static void *no_memory(size_t n) {
    fh_limit_refused();
    if (fh_load(&fh_observing)) fh_hook_refused();
    fh_refused(n);
    errno = ENOMEM;
    return NULL;
}

static void *alloc_class(unsigned c) {
    void *p = try_class(c);
    if (relieved(p == NULL)) p = try_class(c);
    return FH_LIKELY(p != NULL) ? p : no_memory(fh_class_size(c));
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

/* So much that it has taken the distance round to the other side: see fh_counts. */
static void uncount(void) {
    if (fh_observed()) {
        (void)fh_hook_draw();
    } else {
        fh_observed_here.distance = -1;
    }
}

static void *alloc_special(size_t align, size_t n, bool *clean) {
    if (FH_UNLIKELY(n > PTRDIFF_MAX)) uncount();
    void *p = n <= PTRDIFF_MAX ? try_special(align, n, clean) : NULL;
    if (n <= PTRDIFF_MAX && relieved(p == NULL)) p = try_special(align, n, clean);
    return FH_LIKELY(p != NULL) ? p : no_memory(n);
}

static void *alloc_uncounted(size_t n) {
    unsigned c = fh_class_of(n);
    if (FH_LIKELY(c != FH_CLASS_SPECIAL)) return alloc_class(c);
    bool clean;
    return alloc_special(FH_SLOT_SIZE, n, &clean);
}

/* ── Allocating, observed ────────────────────────────────────────────────────────────────────────────────────────── */

/* A block that is special to free: in a slab of sampled blocks, a run without a class byte, or a huge block. */
static void *try_sampled(size_t align, size_t n, bool *clean) {
    size_t room = n > align ? n : align;
    if (room <= FH_SMALL_MAX) {
        *clean = false;
        return try_class(fh_class_sample(room));
    }
    void *p = try_special(align, n, clean);
    if (p && fh_in_window(p)) fh_class_set(fh_slot_of(p), FH_CLASS_SPECIAL);
    return p;
}

/* The distance of thread t has ended in these n bytes. Out of line: its own frame is where the walk over the stack begins,
 * and most callers have none as they end in a jump to this function. */
__attribute__((noinline)) static void *alloc_sampled(size_t align, size_t n, bool *clean) {
    uint64_t interval = fh_hook_draw();
    void *p = n <= PTRDIFF_MAX ? try_sampled(align, n, clean) : NULL;
    if (n <= PTRDIFF_MAX && relieved(p == NULL)) p = try_sampled(align, n, clean);
    if (!p) return no_memory(n);
    fh_hook_sampled(p, n, interval, __builtin_frame_address(0));
    return p;
}

__attribute__((noinline)) static void *alloc_sampled_plain(size_t n) {
    bool clean;
    return alloc_sampled(FH_MIN_ALIGN, n, &clean);
}

/* The calling thread's cache if it is observed; makes it so if it is about time, so that its first block counts. */
__attribute__((noinline)) static fh_thread *become_observed(void) {
    fh_thread_leave(fh_thread_enter());
    return fh_observed();
}

static inline fh_thread *observed_by_now(void) {
    fh_thread *t = fh_observed();
    return FH_LIKELY(t || !fh_load(&fh_observing)) ? t : become_observed();
}

/* The distance is at its end: that of an observed thread, or of one that is not observed, which has none. */
__attribute__((noinline)) static void *alloc_counted(size_t n) {
    if (fh_observed()) return alloc_sampled_plain(n);
    fh_observed_here.distance = -1;
    if (FH_LIKELY(!fh_load(&fh_observing)) || !become_observed()) return alloc_uncounted(n);
    return fh_counts(n) ? alloc_sampled_plain(n) : alloc_uncounted(n);
}

/* First of all what the hot path does, for a thread whose bins are out of its sight. Only threads with a face have a distance,
 * so the real bin is known by its place. */
void *fh_alloc_slow(size_t n, fh_bin *bin) {
    if (fh_counts(n)) return alloc_counted(n);
    bin += FH_BINS;
    void *p = bin->top[-1];
    if (FH_UNLIKELY(p == NULL)) return alloc_uncounted(n);
    bin->top--;
    return p;
}

/* Where nothing is counted or looked at on the way, the huge block in hand will do. Out of line, or the hot path below would
 * save registers. */
__attribute__((noinline)) static void *alloc_above_runs(size_t n) {
    if (n > FH_RUN_MAX && !fh_load(&fh_observing) && !fh_setting_path_get(&fh_settings.metrics)) {
        void *p = fh_huge_again(n);
        if (p) return p;
    }
    return fh_counts(n) ? alloc_counted(n) : alloc_uncounted(n);
}

void *fh_alloc_coarse(size_t n) {
    fh_bin *bin = fh_bins();
    if (FH_LIKELY(n <= FH_SMALL_MAX)) return fh_pop(&bin[fh_class_coarse(n)], n);
    if (n <= FH_RUN_CACHED_MAX) return fh_pop(&bin[fh_class_run(n)], n);
    return alloc_above_runs(n);
}

/* Blocks from this size on may have come straight from the system, and it pays to know. */
void *fh_alloc_zeroed(size_t n) {
    if (n <= FH_SMALL_MAX) {
        void *p = fh_alloc(n);
        return p ? memset(p, 0, n) : NULL;
    }
    bool clean = false;
    unsigned c = fh_class_of(n);
    fh_thread *t = observed_by_now();
    void *p = t && fh_counts(n)               ? alloc_sampled(FH_SLOT_SIZE, n, &clean)
              : c && fh_own()->bin[c].top[-1] ? alloc_class(c)
                                              : alloc_special(FH_SLOT_SIZE, n, &clean);
    return p && !clean ? memset(p, 0, n) : p;
}

/* The smallest class of at least n bytes whose blocks are all multiples of align. Slabs begin at a multiple of 64 KiB, so
 * it is the block size that decides; a power of two is reached after at most eight steps. */
static unsigned aligned_class(size_t align, size_t n) {
    unsigned c = fh_class_of(n < align ? align : n);
    while (c <= FH_SMALL_LAST && fh_class_size(c) % align) c++;
    return c;
}

/* A block of a class whose blocks are multiples of align, instead of a lodger (sublet.h), which is one of 16. */
__attribute__((noinline)) static void *instead_of_lodger(void *lodger, unsigned c) {
    void *p;
    fh_thread *t = fh_thread_enter();
    unsigned got = fh_slab_take_own(c, 1, &p);
    fh_thread_leave(t);
    fh_release(lodger);
    return got ? p : no_memory(fh_class_size(c));
}

/* A block of class c, of which those in its own slabs are multiples of align. */
static void *alloc_class_aligned(size_t align, unsigned c) {
    void *p = alloc_class(c);
    return FH_LIKELY(((uintptr_t)p & (align - 1)) == 0) ? p : instead_of_lodger(p, c);
}

void *fh_alloc_aligned(size_t align, size_t n) {
    if (n > PTRDIFF_MAX) return no_memory(n);
    if (align <= FH_MIN_ALIGN) return fh_alloc(n);
    bool clean;
    fh_thread *t = observed_by_now();
    if (t && fh_counts(n)) return alloc_sampled(align, n ? n : 1, &clean);
    if (align <= FH_SLOT_SIZE) {
        unsigned c = n <= FH_RUN_CACHED_MAX ? aligned_class(align, n) : FH_CLASS_SPECIAL;
        /* Runs begin at a multiple of 64 KiB anyway. */
        if (c != FH_CLASS_SPECIAL) return alloc_class_aligned(align, c);
    }
    return alloc_special(align, n ? n : 1, &clean);
}

/* ── Freeing ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What a checked build verifies before it believes p, and every build of a sampled block: true if p may be freed. */
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

/* The class of the sampled block that p points to or into, 0 if there is none. */
static unsigned sample_class(const void *p) {
    size_t slot = fh_slot_of(p);
    if (!fh_in_window(p) || slot / FH_CHUNK_SLOTS >= fh_window_chunks()) return 0;
    unsigned kind = fh_state_kind(fh_load(&fh_slab_at(slot)->state));
    return fh_class_is_sample(kind) ? kind : 0;
}

/* The sample first: once the block is given, its address may be another sample's. */
static void release_sampled(const char *call, void *p, unsigned c) {
    if (!check(call, p, c)) return;
    if (fh_load(&fh_observing)) fh_hook_freed(p, true);
    fh_give_one(c, p);
}

/* p is in no slab of the class map and no cached run: a sampled, large or huge block, or none of ours. */
static void release_special(const char *call, void *p) {
    bool observing = fh_load(&fh_observing);
    if (fh_in_window(p)) {
        unsigned c = sample_class(p);
        if (c) {
            release_sampled(call, p, c);
            return;
        }
        if (fh_sublet_give(call, p)) return;
        size_t size = fh_large_size(p);
        if (size) {
            /* Runs that have a class byte were not sampled; of those that never have one, some. */
            if (observing) fh_hook_freed(p, size > FH_SLOT_SIZE && size <= FH_RUN_CACHED_MAX);
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
    if (observing && fh_huge_size(p)) fh_hook_freed(p, false);
    if (fh_huge_free(p)) return;
    char *around = fh_huge_around(p);
    if (around) {
        fh_report_fault(FH_FAULT_INSIDE, call, p, (size_t)around, fh_huge_size(around));
    } else {
        fh_report_fault(FH_FAULT_FOREIGN, call, p, 0, 0);
    }
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
    unsigned c = fh_class_at(p);
    if (c == FH_CLASS_SPECIAL && !fh_load(&fh_observing) && fh_huge_free(p)) return;
    int error = errno; /* free keeps it */
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

/* The bin is full, or free would not have come here, and so is bin 0: unless it is one of the face, and p from a slab that
 * was made before the program was observed. */
void fh_release_slow(void *p, fh_bin *bin) {
    if ((uintptr_t)bin - (uintptr_t)fh_own()->face < sizeof fh_own()->face) bin += FH_BINS;
    void **top = bin->top;
    if (FH_UNLIKELY(FH_CHECKED || top == bin->end)) {
        release("free", p);
        return;
    }
    *top = p;
    bin->top = top + 1;
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
    if (!c) c = sample_class(p);
    if (c && !fh_class_is_run(c)) {
        void *start = fh_slab_block_of(c, p);
        if (start == p) return fh_class_size(c);
        fh_report_fault(start ? FH_FAULT_INSIDE : FH_FAULT_FOREIGN, call, p, (size_t)start, fh_class_size(c));
        return 0;
    }
    size_t lodger = 0;
    void *begin = fh_sublet_block_of(p, &lodger);
    if (begin == p) return lodger;
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
    bool observing = fh_load(&fh_observing);
    if (observing) fh_hook_moving(p);
    if (fh_in_window(p)) {
        if (n <= FH_RUN_MAX && fh_large_resize(p, n)) q = p;
    } else if (n > FH_RUN_MAX) {
        q = fh_huge_resize(p, n);
    }
    if (observing && !q) fh_hook_stayed(p);
    if (observing && q) fh_hook_freed((char *)p + 1, false);
    fh_thread_leave(t);
    return q;
}

/* A block that got another size without a copy counts as freed and made anew, so that one which grows from 1 MiB to 1 GiB
 * is sampled as one of 1 GiB. Out of line for its frame. */
__attribute__((noinline)) static void *made_anew(void *p, size_t n) {
    fh_thread *t = fh_observed();
    if (!t || !fh_counts(n)) return p;
    if (fh_in_window(p)) fh_class_set(fh_slot_of(p), FH_CLASS_SPECIAL);
    fh_hook_sampled(p, n, fh_hook_draw(), __builtin_frame_address(0));
    return p;
}

/* A block that stays where it is and as good as it was. */
static void *kept(void *p, size_t n) {
    if (FH_UNLIKELY(fh_load(&fh_observing)) && fh_class_at(p) == FH_CLASS_SPECIAL) fh_hook_resized(p, n);
    return p;
}

/* True if the block at p, of class c, stays where it is with n bytes: as below, but without a look at the slab. That p is the
 * beginning of a block is seen by arithmetic. */
static inline bool stays(const void *p, unsigned c, size_t n) {
    size_t size = fh_class_size(c);
    if (n > size) return false;
    if (fh_class_is_run(c)) {
        /* Within the last slot, or an eighth: what there is to give back is not worth the trouble. */
        size_t spare = size / 8 > FH_SLOT_SIZE ? size / 8 : FH_SLOT_SIZE;
        return n > size - spare && (uintptr_t)p % FH_SLOT_SIZE == 0;
    }
    if (n <= size / 2 && size > 64) return false;
    size_t offset = ((uintptr_t)p - fh_window_base()) & (fh_class_table[c].slots * FH_SLOT_SIZE - 1);
    return fh_block_index(c, offset) * size == offset;
}

__attribute__((noinline)) static void *resize(void *p, size_t n) {
    size_t old = fh_usable("realloc", p);
    if (!old) {
        errno = EINVAL;
        return NULL;
    }
    /* In place within the class, and when it shrinks by less than half. A checked build stays only within the class, so
     * that it can hold a later sized free to the new size. */
    if (n <= old && (FH_CHECKED ? fh_class_size(fh_class_of(n)) == old : n > old / 2 || old <= 64)) {
        if (old <= FH_SMALL_MAX || n > old - old / 8) return kept(p, n);
    }
    void *q = n > PTRDIFF_MAX ? NULL : resize_without_copy(p, old, n);
    if (q) return made_anew(q, n);
    q = fh_alloc(n);
    if (!q) return n <= old ? p : NULL; /* shrinking never fails */
    memcpy(q, p, n < old ? n : old);
    fh_release(p);
    return q;
}

/* Most calls of a program that appends a little each time change nothing. */
void *fh_resize(void *p, size_t n) {
    unsigned c = fh_class_at(p);
    if (FH_LIKELY(c != FH_CLASS_SPECIAL && !FH_CHECKED && stays(p, c, n))) return p;
    return resize(p, n);
}
