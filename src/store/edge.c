#include "store/edge.h"

#include "base/assert.h"
#include "store/hints.h"
#include "store/slab_life.h"
#include "store/window.h"

#define ALL_PAGES fh_low_mask(FH_SLOT_PAGES)
#define ENDS (UINT64_C(1) | UINT64_C(1) << (FH_SLOT_PAGES - 1)) /* the first and the last page */

static bool is_edge(const fh_slab *slab) {
    return fh_state_kind(fh_load_acquire(&slab->state)) == FH_CLASS_EDGE;
}

uint64_t fh_edge_free(size_t slot) {
    const fh_slab *slab = fh_slab_at(slot);
    uint64_t free = is_edge(slab) ? fh_load_acquire(&slab->free[0]) : 0;
    return free & ALL_PAGES;
}

size_t fh_edge_next(size_t slot) {
    return fh_hint_next(FH_CLASS_EDGE, slot);
}

void fh_edge_make(size_t slot, uint64_t free, bool clean) {
    fh_slab *slab = fh_slab_at(slot);
    FH_ASSERT(free != 0 && free != ALL_PAGES && (free & ~ALL_PAGES) == 0 && fh_load(&slab->free[0]) == 0);
    fh_store(&slab->clean, clean ? free : 0);
    /* An exchange, as in making a slab: a thread that clears a hint of the slot's earlier life must see the state. */
    uint64_t before = fh_swap_acq_rel(&slab->state, fh_state_make(FH_CLASS_EDGE, FH_SLOT_PAGES));
    FH_ASSERT(before == 0);
    fh_edge_give(slot, free);
}

void fh_edge_absorb(size_t slot) {
    fh_slab *slab = fh_slab_at(slot);
    FH_ASSERT(is_edge(slab) && fh_load(&slab->free[0]) == 0 && fh_load(&slab->pages) == 0);
    fh_swap_acq_rel(&slab->state, 0);
    fh_hint_clear(FH_CLASS_EDGE, 0, slot); /* no check after it: the slot is ours, and has nothing */
}

/* A page at an end was taken, or the hint was stale. */
void fh_edge_unhint(size_t slot) {
    if (!fh_hint_is_set(FH_CLASS_EDGE, slot)) return;
    fh_hint_clear(FH_CLASS_EDGE, 0, slot);
    if (fh_edge_free(slot) & ENDS) fh_hint_set(FH_CLASS_EDGE, 0, slot);
}

bool fh_edge_take(size_t slot, uint64_t pages, bool *clean) {
    fh_slab *slab = fh_slab_at(slot);
    uint64_t free = fh_load(&slab->free[0]);
    FH_ASSERT(pages != 0 && (pages & ~ALL_PAGES) == 0);
    do {
        if ((free & pages) != pages || !is_edge(slab)) {
            fh_edge_unhint(slot);
            return false;
        }
    } while (!fh_cas_acquire(&slab->free[0], &free, free & ~pages)); /* acquire: the pages' last use before ours */
    /* Only now that we hold some of it the slot cannot become something else: the same rule as for slabs. */
    if (FH_UNLIKELY(!is_edge(slab))) {
        fh_slab_put_back(slot, 0, pages);
        return false;
    }
    uint64_t never_used = fh_load(&slab->clean) & pages;
    if (never_used != pages) *clean = false;
    if (never_used) fh_and_acq_rel(&slab->clean, ~pages);
    if (pages & ENDS) fh_edge_unhint(slot);
    return true;
}

void fh_edge_give(size_t slot, uint64_t pages) {
    fh_slab *slab = fh_slab_at(slot);
    /* release: the last use of the pages before another thread takes them. */
    uint64_t before = fh_or_release(&slab->free[0], pages);
    FH_ASSERT(pages != 0 && (before & pages) == 0);
    fh_fence_after_rmw();
    if ((before | pages) == ALL_PAGES) {
        fh_slab_settle(slot, FH_CLASS_EDGE, true);
    } else if ((before | pages) & ENDS) {
        fh_hint_set(FH_CLASS_EDGE, 0, slot);
    }
}
