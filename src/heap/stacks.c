#include "heap/stacks.h"

#include "base/assert.h"

#define CHANGE (UINT64_C(1) << 32)

_Static_assert(FH_WINDOW_SIZE / FH_SLOT_SIZE < UINT32_MAX, "a slot's number has 32 bits");

static fh_word *stack_of(fh_stack_kind kind, const fh_extent *e) {
    return &e->owned.heap->stack[kind][e->list];
}

/* True if the word is `seen` no more: on a private heap nobody else changes it. Acquire and release: what was written of the
 * extents before they were pushed, for those who pop them or look below. */
static bool change(const fh_heap *h, fh_word *stack, uint64_t *seen, uint64_t slot) {
    uint64_t then = ((*seen + CHANGE) & ~(CHANGE - 1)) | slot;
    if (!fh_heap_is_private(h)) return fh_cas_acq_rel(stack, seen, then);
    fh_store(stack, then);
    return true;
}

void fh_stack_push(fh_stack_kind kind, fh_extent *e) {
    fh_word *stack = stack_of(kind, e);
    uint64_t seen = fh_load(stack);
    do {
        /* Relaxed: the change releases it. Who reads it late, after a pop, fails by the count. */
        fh_store(&e->below[kind], (uint32_t)seen);
    } while (!change(e->owned.heap, stack, &seen, fh_slot_of(e) + 1));
}

bool fh_stack_pop(fh_stack_kind kind, fh_extent *e, uint64_t *seen) {
    FH_ASSERT(fh_stack_top(*seen) == e);
    return change(e->owned.heap, stack_of(kind, e), seen, fh_load(&e->below[kind]));
}

void fh_extent_open(fh_extent *e) {
    /* One of those that free at a time pushes it. Both orders: it was popped before, and the bits are there for who pops it next. */
    if (fh_swap_acq_rel(&e->has, 1) == 0) fh_stack_push(FH_STACK_OPEN, e);
}

void fh_extent_close(fh_extent *e, uint64_t *seen) {
    if (!fh_stack_pop(FH_STACK_OPEN, e, seen)) return;
    fh_swap_acq_rel(&e->has, 0);
    fh_fence_after_rmw(); /* before the look at the bits: one who sets them now looks at `has` after that */
    unsigned w = 0;
    while (w < e->words && !fh_load(&e->free[w])) w++;
    if (w < e->words) fh_extent_open(e);
    *seen = fh_load_acquire(stack_of(FH_STACK_OPEN, e));
}
