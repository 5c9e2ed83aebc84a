#include "store/gaps.h"

#include "base/assert.h"
#include "base/tuning.h"
#include "store/run.h"
#include "store/window.h"
#include "system/inspect.h"
#include "system/system.h"

/* 1: the kernel marks pages. Written before the first gap. */
static fh_word marks;

/* Gaps that are mappings of their own. */
static fh_word mapped;

bool fh_gaps_start(void) {
    size_t page = fh_system_page_size();
    void *p = fh_system_guards_reserve(page, page);
    if (!p) return false;
    bool can = fh_system_guards_can_mark(p);
    fh_system_guards_drop(p, page);
    fh_store(&marks, can);
    return can;
}

/* Whether it is a mapping of its own stands in its first slot's `clean`, which has no other meaning there. */
void fh_gap_close(size_t slot, size_t slots) {
    char *p = fh_slot_address(slot);
    size_t size = slots * FH_SLOT_SIZE;
    bool marked = fh_load(&marks), own = false;
    FH_ASSERT(slots >= 1);
    if (marked) {
        own = !fh_system_guard_close(p, size, true); /* then its access is taken away */
    } else if (fh_add_relaxed(&mapped, 1) < FH_GAPS_MOST) {
        own = fh_system_guard_close(p, size, false);
    }
    if (!own && !marked) {
        fh_sub_relaxed(&mapped, 1);
        fh_system_purge(p, size); /* as a gap that is closed: what was there is no use to anybody */
    }
    fh_store(&fh_slab_at(slot)->clean, own);
}

/* Slots that could not be opened are nobody's from then on. */
void fh_gap_release(size_t slot, size_t slots) {
    bool marked = fh_load(&marks), own = fh_load(&fh_slab_at(slot)->clean), opened = true;
    FH_ASSERT(slots >= 1);
    if (marked || own) opened = fh_system_guard_open(fh_slot_address(slot), slots * FH_SLOT_SIZE, !own);
    if (own && !marked) fh_sub_relaxed(&mapped, 1);
    fh_store(&fh_slab_at(slot)->clean, 0);
    /* One that was never closed may have been written to. */
    if (opened) fh_run_release_held(slot, slots, !marked && !own);
}
