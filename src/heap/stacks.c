#include "heap/stacks.h"

#include "base/assert.h"

#define CHANGE (UINT64_C(1) << FH_STACK_SLOT_BITS)

_Static_assert(FH_WINDOW_SLOTS < CHANGE, "a slot's number plus 1 has its bits");

static fh_word *stack_of(fh_stack_kind kind, const fh_extent *e) {
    return &e->owned.heap->stack[kind][e->list];
}

/* False: the word is not *seen any more, but what is there now. On a private heap it always is. Acquire and release: what was
 * written of extents before they were pushed, for those who pop them or look below. */
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
        fh_store(&e->below[kind], seen % CHANGE);
    } while (!change(e->owned.heap, stack, &seen, fh_slot_of(e) + 1));
}

bool fh_stack_pop(fh_stack_kind kind, fh_extent *e, uint64_t *seen) {
    FH_ASSERT(fh_stack_top(*seen) == e);
    return change(e->owned.heap, stack_of(kind, e), seen, fh_load(&e->below[kind]));
}

/* `has` is that from now on. Returns what it was. Acquire and release: who closed it before has looked, and who closes it next
 * sees the bits. */
static uint64_t swap_has(fh_extent *e, uint64_t has) {
    if (!fh_heap_is_private(e->owned.heap)) return fh_swap_acq_rel(&e->has, has);
    uint64_t before = fh_load(&e->has);
    fh_store(&e->has, has);
    return before;
}

void fh_extent_open(fh_extent *e) {
    /* Of those that free at a time, one pushes it. */
    if (swap_has(e, 1) == 0) fh_stack_push(FH_STACK_OPEN, e);
}

void fh_extent_close(fh_extent *e, uint64_t *seen) {
    if (!fh_stack_pop(FH_STACK_OPEN, e, seen)) return;
    swap_has(e, 0);
    fh_fence_after_rmw(); /* before the look at the bits: one who sets them now looks at `has` after that */
    unsigned w = 0;
    while (w < e->words && !fh_load(&e->free[w])) w++;
    if (w < e->words) fh_extent_open(e);
    *seen = fh_load_acquire(stack_of(FH_STACK_OPEN, e));
}
