/* Allocating in an observed program: what a bin does not have, and what is sampled. Each byte is counted; where the count
 * ends, the block is sampled (sampling.h).
 *
 * A sampled block is special to free: it is in a slab of sampled blocks, a large block without a class byte, or huge. So the
 * free of any other block pays nothing for it. */
#include "base/hooks.h"
#include "cache/alloc.h"
#include "cache/magazine.h"
#include "cache/observed.h"
#include "cache/partition.h"
#include "cache/perturb.h"
#include "heap/scope.h"
#include "heap/stripes.h"
#include "heap/take.h"
#include "observe/observe.h"
#include "store/sampled.h"

#include <string.h>

/* Observes the calling thread if it is about time, so that its first block counts. */
__attribute__((noinline)) static bool become_observed(void) {
    fh_here.bytes_until_sample = -1;
    fh_thread_leave(fh_thread_enter());
    return fh_is_observed();
}

/* A block in a slab of samples, in place of the one that the program would have got. That is taken all the same, and released
 * again: the sampled one is as large to the program. So chance decides about both alike, also whether they are in a hole
 * (store/holes.h) and larger than their class. *lost: there is no memory for the sample, so this is the other one. */
static void *alloc_in_slab(size_t align, size_t n, bool *lost) {
    bool clean;
    void *plain = fh_alloc_unobserved(align, n, &clean);
    size_t usable = fh_usable("malloc", plain);
    if (!plain) return NULL;
    unsigned c = fh_class_sample(usable > align ? usable : align);
    fh_thread *t = fh_thread_enter();
    void *p = fh_take_one(c);
    fh_thread_leave(t);
    *lost = !p;
    if (!p) return plain;
    fh_sampled_begin(c, p, usable);
    fh_release(plain);
    return p;
}

/* The same for a guarded block, or the plain one that it would have been if there is none. */
static void *alloc_guarded(size_t align, size_t n, bool *clean, const void *frame) {
    (void)fh_observe_draw();
    void *p = fh_hook_guard(align, n, frame);
    *clean = p != NULL;
    return p ? p : fh_alloc_unobserved(align, n ? n : 1, clean);
}

/* Out of line: its own frame is where the walk over the stack begins, and most callers have none because they end in a jump
 * to this function. */
__attribute__((noinline)) static void *alloc_sampled(size_t align, size_t n, bool *clean) {
    if (fh_observe_draws_guard()) return alloc_guarded(align, n, clean, __builtin_frame_address(0));
    uint64_t interval = fh_observe_draw();
    size_t room = n > align ? n : align;
    bool lost = false;
    void *p;
    if (room <= FH_SMALL_MAX) {
        *clean = false;
        p = alloc_in_slab(align, n, &lost);
    } else {
        p = fh_alloc_special(align, n, clean);
        if (p && fh_in_window(p)) fh_class_set(fh_slot_of(p), FH_CLASS_SPECIAL);
    }
    if (p && lost) fh_observe_lost();
    if (p && !lost) fh_observe_sampled(p, n, interval, __builtin_frame_address(0));
    return p;
}

/* Heaps have no bins, and a thread in a scope has none either. So no bytes are counted down: each block is drawn by itself. Out of
 * line for its frame. */
__attribute__((noinline)) void *fh_hook_heap_alloc(fh_heap *heap, size_t align, size_t n, bool *clean) {
    void *p = fh_heap_take(heap, align, n, clean);
    /* A sample costs more than a bounded heap allows. */
    if (p && fh_is_observing() && !fh_heap_is_bounded(heap))
        fh_observe_heap_block(heap, p, n, __builtin_frame_address(0));
    return p;
}

/* Nobody watches: as fh_heap_malloc. */
static void *alloc_in_scope_alone(fh_heap *scope, size_t n) {
    bool clean;
    if (fh_is_observing()) return fh_hook_heap_alloc(scope, FH_MIN_ALIGN, n, &clean);
    void *p = FH_CHECKED ? NULL : fh_stripe_hit(scope, n);
    return FH_LIKELY(p != NULL) ? p : fh_heap_take(scope, FH_MIN_ALIGN, n, &clean);
}

static void *alloc_some(size_t n, unsigned c) {
    bool clean;
    fh_heap *scope = fh_scope_heap();
    if (FH_UNLIKELY(scope != NULL)) return alloc_in_scope_alone(scope, n);
    if (FH_UNLIKELY(fh_is_checking())) return fh_hook_checked_alloc(FH_MIN_ALIGN, n, &clean, FH_SAYS_NOTHING);
    if (FH_UNLIKELY(fh_is_hardened())) return fh_alloc_in(FH_PARTITION_HARDENED, FH_MIN_ALIGN, n, &clean);
    /* The caller has counted already, with what only an observed thread has. */
    if (fh_is_observed() || (become_observed() && fh_count(n))) return alloc_sampled(FH_MIN_ALIGN, n, &clean);
    return fh_alloc_class(c, n);
}

__attribute__((noinline)) static void *alloc(size_t n, unsigned c) {
    void *p = alloc_some(n, c);
    fh_perturb_new(p, n);
    return p;
}

/* Each of the two is a jump: so the stack is short that a checked program walks, and no register is saved for it. */
void *fh_hook_alloc(size_t n, unsigned c) {
    if (fh_load(&fh_observing) == FH_MODE_CHECK) return fh_hook_checked_alloc(FH_MIN_ALIGN, n, NULL, FH_SAYS_NOTHING);
    return alloc(n, c);
}

/* To a tool that watches memory, a page that was purged is not a page of zeros. */
static void *alloc_in_scope(fh_heap *scope, size_t align, size_t n, bool *clean, unsigned said) {
    void *p = fh_hook_heap_alloc(scope, align, n, clean);
    if (p && fh_heap_is_told(scope) && (said & FH_SAYS_ZEROED)) {
        memset(p, 0, n);
        *clean = true;
    }
    return p;
}

static void *alloc_aligned(size_t align, size_t n, bool *clean, unsigned said) {
    fh_heap *scope = fh_scope_heap();
    if (FH_UNLIKELY(scope != NULL)) return alloc_in_scope(scope, align, n, clean, said);
    if (FH_UNLIKELY(fh_is_checking())) return fh_hook_checked_alloc(align, n, clean, said);
    if (FH_UNLIKELY(fh_is_hardened())) return fh_alloc_in(FH_PARTITION_HARDENED, align, n, clean);
    if (n == 0) n = 1;
    /* More than that cannot be had, and must not turn the count round. */
    bool counted = n <= PTRDIFF_MAX / 2 && (fh_is_observed() || become_observed());
    return counted && fh_count(n) ? alloc_sampled(align, n, clean) : fh_alloc_unobserved(align, n, clean);
}

void *fh_hook_alloc_aligned(size_t align, size_t n, bool *clean, unsigned said) {
    void *p = alloc_aligned(align, n, clean, said);
    if (!(said & FH_SAYS_ZEROED)) fh_perturb_new(p, n);
    return p;
}

void *fh_alloc_pointers(size_t align, size_t n, bool *clean, unsigned said) {
    fh_heap *scope = fh_load(&fh_observing) & FH_MODE_SCOPE ? fh_scope_heap() : NULL;
    if (FH_UNLIKELY(scope || fh_is_checking())) return fh_hook_alloc_aligned(align, n, clean, said);
    unsigned hardened = fh_is_hardened() ? FH_PARTITION_HARDENED : 0;
    void *p = fh_alloc_in(FH_PARTITION_POINTERS | hardened, align, n, clean);
    if (!(said & FH_SAYS_ZEROED)) fh_perturb_new(p, n);
    return p;
}

/* A block that grows without a copy counts as allocated again: one that grows from 1 MiB to 1 GiB is sampled as one of
 * 1 GiB. Out of line for its frame. */
void fh_hook_moved(const void *p, void *q, size_t n) {
    fh_hook_freed((const char *)p + 1, false);
    if (!fh_is_observed() || !fh_count(n)) return;
    if (fh_observe_draws_guard()) { /* it is too long for a guard */
        (void)fh_observe_draw();
        return;
    }
    if (fh_in_window(q)) fh_class_set(fh_slot_of(q), FH_CLASS_SPECIAL);
    fh_observe_sampled(q, n, fh_observe_draw(), __builtin_frame_address(0));
}
