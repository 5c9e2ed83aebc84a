#include "reclaim/inside.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/settings.h"
#include "base/tuning.h"
#include "cache/shrink.h"
#include "reclaim/budget.h"
#include "reclaim/idle.h"
#include "store/events.h"
#include "store/hints.h"
#include "store/pages.h"
#include "store/run.h"
#include "store/slab_life.h"
#include "store/thp.h"
#include "store/window.h"
#include "system/system.h"

/* Bytes in slabs, as far as a sample can say. */
typedef struct {
    size_t live;  /* in blocks that are handed out */
    size_t free;  /* in free blocks */
    size_t pages; /* in free pages that have memory */
} figures;

/* The slab that has this slot, or FH_NONE. By the class map, because the records of slots in the middle of a large block
 * have no memory. */
static size_t slab_of(size_t slot) {
    unsigned c = fh_class_at(fh_slot_address(slot));
    if (c >= 1 && c <= FH_SMALL_LAST) return fh_slab_head(c, slot);
    return fh_hint_is_set(FH_CLASS_BORROWED, slot) ? slot : FH_NONE;
}

/* Adds the share that one slot has in its slab. */
static void weigh(size_t slot, figures *sum) {
    size_t head = slab_of(slot);
    if (head == FH_NONE) return;
    uint64_t state = fh_load_acquire(&fh_slab_at(head)->state);
    unsigned c = fh_state_class(state);
    if (c < 1 || c > FH_SMALL_LAST) return; /* it has become something else since */
    size_t slots = fh_class_table[c].slots, used = fh_state_bump(state) * fh_class_size(c);
    size_t free = fh_pages_free_bytes(head);
    sum->free += free / slots;
    sum->live += used > free ? (used - free) / slots : 0;
    if (free) sum->pages += fh_pages_free(head) / slots;
}

/* Slots at equal distances, and others each time. */
static figures sample(void) {
    static fh_word turn;
    figures sum = {0};
    size_t slots = fh_window_chunks() * FH_CHUNK_SLOTS, step = slots / FH_INSIDE_SAMPLE;
    if (step == 0) step = 1;
    for (size_t slot = (size_t)fh_add_relaxed(&turn, 1) * 13 % step; slot < slots; slot += step) weigh(slot, &sum);
    return (figures){sum.live * step, sum.free * step, sum.pages * step};
}

/* Half of a chunk, the 2 MiB of a huge page. That page is not split for less than it pays. */
static size_t purge_half(size_t first) {
    size_t chunk = first / FH_CHUNK_SLOTS;
    unsigned half = first / FH_HALF_SLOTS % 2;
    FH_ASSERT(first % FH_HALF_SLOTS == 0);
    if (fh_load(&fh_chunk_at(chunk)->free) == FH_CHUNK_ALL) return 0;
    if (fh_chunk_first_own(chunk) == (chunk + 1) * FH_CHUNK_SLOTS) return 0; /* in the middle of a large block */
    bool is_huge = fh_thp_is_huge(chunk);
    if (is_huge && !fh_thp_is_split(chunk, half)) {
        size_t free = fh_pages_free_in_half(first);
        if (!free || !fh_thp_split(chunk, half, free)) return 0;
    }
    size_t purged = fh_pages_purge_half(first);
    if (is_huge && purged)
        fh_event_split(); /* also of a half that was split before: growth counts from its last purge */
    return purged;
}

static fh_word halves_left; /* of the purge that goes on */
static fh_word stays;       /* bytes that the last purge was to take and did not: no reason for another one */

/* A few halves, from the end of the heap downwards. */
static void purge_some(void) {
    for (unsigned i = 0; i < FH_INSIDE_HALVES; i++) {
        uint64_t left = fh_load(&halves_left);
        do {
            if (left == 0) return;
        } while (!fh_cas_relaxed(&halves_left, &left, left - 1));
        size_t purged = purge_half((left - 1) * FH_HALF_SLOTS);
        if (!purged) continue;
        fh_store(&fh_counts.inside_second, fh_system_seconds());
        fh_add_relaxed(&fh_counts.inside_purged, purged);
        uint64_t rest = fh_load(&stays);
        fh_store(&stays, rest > purged ? rest - purged : 0);
    }
    if (fh_load(&halves_left)) fh_set_due(FH_DUE_INSIDE);
}

/* Samples, and begins to purge if too much is free. */
static void look(void) {
    fh_run_settle(); /* so that it counts as free */
    figures f = sample();
    size_t used = fh_used_bytes(), dirty = fh_dirty_bytes(), known = (size_t)fh_load(&stays);
    used = used > f.free ? used - f.free : 0;
    size_t budget = fh_idle_budget_now(used / FH_SLOT_SIZE, fh_pressure_now()) * FH_SLOT_SIZE;
    fh_store(&fh_order.inside_step, fh_inside_step(f.live, f.free + dirty, budget));
    if (known > f.pages) known = f.pages;
    bool excess = fh_inside_is_excess(f.pages - known, dirty, budget);
    /* What is purged is subtracted as it goes. */
    fh_store(&stays, excess ? f.pages : known);
    if (excess) fh_store(&halves_left, 2 * fh_window_chunks());
}

void fh_inside_check(void) {
    if (FH_SETTING(purge) == FH_PURGE_LAZY) return;
    /* A heap that only hovers keeps its pages: purged, it would pay for them again. */
    bool contracting = fh_is_contracting();
    if (!contracting) fh_store(&halves_left, 0);
    if (fh_load(&halves_left) == 0) {
        fh_store(&fh_counts.flushed, 0);
        if (contracting) look();
    }
    purge_some();
}
