/* The hot path: what one thread has cached. malloc and free are this file; everything else in the library exists so that
 * it is rarely needed.
 *
 *     malloc ─▶ fh_alloc ─┬─ bin not empty: pop                                            13 instructions, no atomic
 *                         └─ fh_alloc_slow ─┬─ previous magazine                           cache/magazine.c
 *                                           ├─ depot: a full magazine for an empty one     store/depot.c
 *                                           ├─ slab: bits of hinted slabs, holes, bump     store/slab.c
 *                                           ├─ chunk: slots for a slab                     store/run.c, chunk.c
 *                                           └─ large: pages, or a run of slots             store/large.c, edge.c, run.c
 *     free ─▶ fh_release ─┬─ bin not full: push                                            24 instructions, no atomic
 *                         └─ fh_release_slow ─┬─ previous magazine to the depot, or        cache/free.c
 *                                             ├─ its blocks to their slabs, large ones to the store
 *                                             └─ special: sampled, guest, above 1 MiB, foreign, NULL
 *     each slow half ends at the safe point: fh_hook_reclaim, if a due bit is set          store/events.h
 *
 * Of the 24 seven look for a double free (cache/twice.h); with double_free=flush free takes 19.
 *
 * One test each: an empty magazine has NULL below its first block, so top[-1] is both the block and the answer. Bin 0
 * (special) is full and empty at once for ever, and so are all bins of a thread that has no cache yet.
 *
 * Measured and rejected: addressing the bin as %fs:offset(register) saves 5 instructions and doubles the time, because it
 * defeats the CPU's memory renaming. The bin's address is computed once. */
#ifndef FH_CACHE_CACHE_H
#define FH_CACHE_CACHE_H

#include "base/classes.h"
#include "base/hooks.h"
#include "base/settings.h"
#include "base/types.h"
#include "cache/place.h"
#include "store/window.h"

/* The calling thread's bins. Initial-exec: static TLS, a few bytes of which also a library that is loaded late gets. */
extern __thread fh_bin *fh_self_bins __attribute__((tls_model("initial-exec")));

/* The one function through which the hot path reaches what is the thread's. Never NULL: threads without a cache share
 * read-only bins that are all empty and full. */
static inline fh_bin *fh_bins(void) {
    return fh_self_bins;
}

/* The same bins as free sees them: of an observed thread they are the real ones (cache/observed.h). */
extern __thread fh_bin *fh_self_release_bins __attribute__((tls_model("initial-exec"))) FH_HIDDEN;

static inline fh_bin *fh_release_bins(void) {
    return fh_self_release_bins;
}

/* All that is not a pop or a push, of that bin of the calling thread. NULL with errno ENOMEM when there is no memory. */
void *fh_alloc_slow(size_t n, fh_bin *bin);
void fh_release_slow(void *p, fh_bin *bin);

/* The place that p went to when it was freed last holds it still, or so it seems: looks closely, and reports it or pushes it.
 * The bin is one of the thread's own and not full. */
void fh_release_suspect(void *p, fh_bin *bin);

/* The topmost block of a bin; NULL if it has none. Every pop is this one: the place is cleared, so that a place that holds a
 * block has it (cache/twice.h). Cleared last, because the thread may be interrupted in between for good. The fences are no
 * instructions. With the first the compiler changes `top` in memory by one instruction instead of two. */
static inline void *fh_bin_pop(fh_bin *bin) {
    void **top = bin->top;
    void *p = top[-1];
    if (FH_UNLIKELY(p == NULL)) return NULL;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    bin->top--;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    top[-1] = NULL;
    return p;
}

/* The block that the next pop of a thread's own bin would return; NULL if it has none, or belongs to no cache. */
static inline void *fh_bin_peek(const fh_bin *bin) {
    return bin->top ? bin->top[-1] : NULL;
}

/* Pops a block of the bin's class, the class of n bytes. */
static inline void *fh_pop(fh_bin *bin, size_t n) {
    void *p = fh_bin_pop(bin);
    return FH_LIKELY(p != NULL) ? p : fh_alloc_slow(n, bin);
}

/* The bin is not full, and `top` is its top. */
static inline void fh_bin_push(fh_bin *bin, void **top, void *p) {
    *top = p;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* as above */
    bin->top++;
}

/* Requests above 1 KiB; out of line to keep malloc in one cache line or two. */
void *fh_alloc_coarse(size_t n);

static inline void *fh_alloc(size_t n) {
    if (FH_UNLIKELY(n > FH_FINE_MAX)) return fh_alloc_coarse(n);
    /* A bin has 16 bytes and a class step has 16 bytes: rounding the size up gives the bin's offset. */
    size_t offset = (n + FH_MIN_ALIGN - 1) & ~(size_t)(FH_MIN_ALIGN - 1);
    return fh_pop((fh_bin *)((char *)fh_bins() + offset), n);
}

/* What came of a free on the hot path. */
typedef enum { FH_FREED, FH_NO_ROOM, FH_SUSPECT } fh_freed;

/* Pushes p into its bin, unless that has no room, or p seems to be free already. `*bin` is set when it is not pushed. */
__attribute__((always_inline)) static inline fh_freed fh_try_release(fh_bin *bins, void *p, fh_bin **bin) {
    const fh_row_head *head = &((const fh_row_head *)bins)[-1];
    uintptr_t base = fh_window_base(), slot = ((uintptr_t)p - base) >> FH_SLOT_SHIFT;
    bool watched = FH_LIKELY(slot < head->watched_slots);
    fh_bin *own = &bins[fh_class_of_slot(base, slot, watched ? UINT64_MAX : head->unwatched_slots)];
    /* No instruction: keeps gcc from computing the address a second time, for the slow path that is also given it. */
    __asm__("" : "+r"(own));
    void **top = own->top;
    *bin = own;
    if (FH_UNLIKELY(top == own->end)) return FH_NO_ROOM;
    if (watched) {
        size_t i = fh_place_index(p);
        if (FH_UNLIKELY(fh_place_holds(fh_place_near(top, fh_last_place(bins, i)), p))) return FH_SUSPECT;
        FH_HIDE(i);
        *fh_last_place(bins, i) = (uint16_t)(uintptr_t)top;
    }
    fh_bin_push(own, top, p);
    return FH_FREED;
}

__attribute__((always_inline)) static inline void fh_release(void *p) {
    fh_bin *bin = fh_release_bins();
    fh_freed freed = FH_CHECKED ? FH_NO_ROOM : fh_try_release(bin, p, &bin);
    if (FH_LIKELY(freed == FH_FREED)) return;
    (freed == FH_SUSPECT ? fh_release_suspect : fh_release_slow)(p, bin);
}

/* The same for a call that says more of the block: which family of functions it is of, a size, an alignment (FH_SAYS_…,
 * base/hooks.h). Only a checked program looks at it. The hot path has not one instruction more. */
void fh_release_said_slow(void *p, fh_bin *bin, size_t n, size_t align, unsigned said);

__attribute__((always_inline)) static inline void fh_release_said(void *p, size_t n, size_t align, unsigned said) {
    fh_bin *bin = fh_release_bins();
    fh_freed freed = FH_CHECKED ? FH_NO_ROOM : fh_try_release(bin, p, &bin);
    if (FH_LIKELY(freed == FH_FREED)) return;
    if (freed == FH_SUSPECT) {
        fh_release_suspect(p, bin);
        return;
    }
    fh_release_said_slow(p, bin, n, align, said);
}

/* Frees a block as the store knows it, whether the program is checked or not. */
void fh_release_unchecked(const char *call, void *p);

/* Frees a block that cache/alloc.h has returned, and the program was never given: it is not filled, not sampled, and has no header
 * of a checked program. */
void fh_release_not_given(void *p);

/* 1 when a block was to shrink and there was no memory for a smaller one, so that it stayed. Checked builds then allow a
 * sized free of any block to name a smaller size. */
extern fh_word fh_shrink_refused FH_HIDDEN;

/* The caller says the size that it asked for: the class is computed, no metadata is read. */
void fh_release_sized_checked(void *p, size_t n);

static inline void fh_release_sized(void *p, size_t n) {
    /* Aligned blocks may be of a larger class than their size says, and those above 1 MiB and foreign ones must be recognised.
     * So the class byte is the truth; it is in the CPU's cache on all but the largest heaps. */
    fh_release_said(p, n, 0, FH_SAYS_SIZE);
}

/* calloc, after its product was checked. */
void *fh_alloc_zeroed(size_t n);

/* At least n bytes at a multiple of align (a power of two). */
void *fh_alloc_aligned(size_t align, size_t n);

/* The same for operator new and new[], which a checked program tells apart. */
void *fh_alloc_aligned_new(size_t align, size_t n);
void *fh_alloc_aligned_new_array(size_t align, size_t n);

/* realloc of p != NULL to n > 0 bytes. NULL: no memory, p is as it was. */
void *fh_resize(void *p, size_t n);

/* Makes the block at p at least n bytes where it is. False: that cannot be, and it is as it was. */
bool fh_grow(void *p, size_t n);

/* Many at once (cache/batch.c). Blocks of n bytes into out; returns how many there are, fewer than `count` with errno ENOMEM. */
size_t fh_alloc_batch(size_t n, size_t count, void **out);
void fh_release_batch(void *const *blocks, size_t count);

/* Bytes that the block at p holds. Reports a foreign pointer in the name of `call` and returns 0. */
size_t fh_usable(const char *call, const void *p);

/* Flushes everything that the calling thread has cached to the store. The thread continues with an empty cache. */
void fh_cache_flush(void);

/* Called once, early, when the C library is ready for it: registers the fork handler. */
void fh_process_start(void);

#endif
