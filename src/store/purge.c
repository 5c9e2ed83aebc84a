#include "store/purge.h"

#include "base/classes.h"
#include "base/settings.h"
#include "store/depot.h"
#include "store/huge.h"
#include "store/marks.h"
#include "store/slab.h"
#include "store/window.h"
#include "system/system.h"

/* Counters over all chunks, in slots. Relaxed throughout: each is a figure to steer by, and no memory is read or written
 * because of its value alone. They change once a slab or large block, not once a block. */
static fh_word used_slots;
static fh_word dirty_slots;  /* free, with memory behind them */
static fh_word regret_slots; /* purged and wanted again; halves every second */
static fh_word regret_second;

/* The first chunks stay on small pages: a small process pays for what it touches, not for 2 MiB. */
#define YOUNG_CHUNKS 4u

/* A release gives back at most this many chunks' worth of slots, so that no free takes long. */
#define CHUNKS_A_CALL 4

#define FLOOR_SLOTS (8 * FH_MIB / FH_SLOT_SIZE)

size_t fh_purge_budget(size_t used, size_t peak, size_t regret) {
    (void)peak;
    return FLOOR_SLOTS + used / 8 + 2 * regret;
}

size_t fh_purge_dirty_bytes(void) {
    return (size_t)fh_load(&dirty_slots) * FH_SLOT_SIZE;
}

size_t fh_purge_used_bytes(void) {
    return (size_t)fh_load(&used_slots) * FH_SLOT_SIZE;
}

void fh_purge_claimed(unsigned slots, unsigned dirty, unsigned purged) {
    fh_add_relaxed(&used_slots, slots);
    if (dirty) fh_sub_relaxed(&dirty_slots, dirty);
    if (purged) fh_add_relaxed(&regret_slots, purged);
}

void fh_purge_released(unsigned slots) {
    fh_sub_relaxed(&used_slots, slots);
    fh_add_relaxed(&dirty_slots, slots);
}

void fh_purge_new_chunk(size_t chunk) {
    char *p = fh_slot_address(chunk * FH_CHUNK_SLOTS);
    bool wanted = fh_settings.thp == FH_THP_ALWAYS || (fh_settings.thp == FH_THP_AUTO && chunk >= YOUNG_CHUNKS);
    if (wanted) {
        fh_system_huge_pages(p, FH_CHUNK_SIZE, true);
    } else if (fh_system_huge_pages_always()) {
        fh_system_huge_pages(p, FH_CHUNK_SIZE, false);
    }
}

/* Halves the regret once for each second that has gone by. Whoever moves the clock does the halving. */
static size_t current_regret(void) {
    uint64_t regret = fh_load(&regret_slots);
    if (!regret) return 0;
    uint64_t now = fh_system_nanoseconds() >> 30, then = fh_load(&regret_second);
    if (now != then && fh_cas_relaxed(&regret_second, &then, now) && then != 0) {
        uint64_t halvings = now - then, rest = halvings > 63 ? 0 : regret >> halvings;
        /* Compare-and-swap: who was interrupted since it read the figure must not subtract from a smaller one. */
        if (fh_cas_relaxed(&regret_slots, &regret, rest)) regret = rest;
    }
    return (size_t)regret;
}

/* Gives back the dirty free slots of one chunk. They are claimed like an allocation first. Returns how many. */
static unsigned purge_chunk(size_t index) {
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t free = fh_load(&chunk->free), take;
    do {
        take = free & fh_load(&chunk->dirty);
        if (!take) return 0;
    } while (!fh_cas_acquire(&chunk->free, &free, free & ~take)); /* acquire: as in run.c's claim */
    fh_run_changed(index, free);
    for (uint64_t rest = take; rest;) {
        unsigned place = fh_lowest_bit(rest);
        uint64_t above = ~(rest >> place);
        unsigned n = above ? fh_lowest_bit(above) : 64;
        if (n > 64 - place) n = 64 - place;
        fh_system_purge(fh_slot_address(index * FH_CHUNK_SLOTS + place), n * FH_SLOT_SIZE);
        rest &= ~fh_run_mask(place, n);
    }
    /* Some of them may have been purged by another thread since `dirty` was read, and be free again: of each slot only
     * who clears its bit counts it. */
    uint64_t cleared = fh_and_acq_rel(&chunk->dirty, ~take) & take;
    fh_sub_relaxed(&dirty_slots, fh_count_bits(cleared));
    uint64_t before = fh_or_release(&chunk->free, take); /* release: the purge before anybody claims the slots */
    fh_run_changed(index, before);
    return fh_count_bits(take);
}

/* The highest chunk first: low addresses are re-used first, so what lies high is wanted last. Returns slots purged. */
static size_t purge_some(size_t target_slots, int most_chunks) {
    size_t purged = 0;
    while (most_chunks-- > 0 && fh_load(&dirty_slots) > target_slots) {
        size_t chunk = fh_mark_find_last(FH_MARK_DIRTY, 1);
        if (chunk == FH_NONE) break;
        fh_mark_clear(FH_MARK_DIRTY, 1, chunk);
        purged += purge_chunk(chunk);
        fh_chunk *c = fh_chunk_at(chunk);
        if (fh_load_acquire(&c->free) & fh_load(&c->dirty)) fh_mark_set(FH_MARK_DIRTY, 1, chunk);
    }
    return purged;
}

void fh_purge_over_budget(void) {
    uint64_t dirty = fh_load(&dirty_slots);
    if (fh_settings.purge == FH_PURGE_LAZY) return;
    if (fh_settings.purge == FH_PURGE_EAGER) {
        purge_some(0, CHUNKS_A_CALL);
        return;
    }
    if (FH_LIKELY(dirty <= FLOOR_SLOTS)) return;
    size_t used = (size_t)fh_load(&used_slots), budget = fh_purge_budget(used, used, 0);
    if (dirty <= budget) return;
    budget = fh_purge_budget(used, used, current_regret());
    if (dirty > budget) purge_some(budget, CHUNKS_A_CALL);
}

size_t fh_purge_to(size_t keep) {
    return purge_some(keep / FH_SLOT_SIZE, (int)fh_window_chunks() + 1) * FH_SLOT_SIZE;
}

size_t fh_trim(size_t keep) {
    if (!fh_window_chunks()) return fh_huge_trim(keep);
    for (unsigned c = 1; c <= FH_SMALL_LAST; c++) {
        fh_depot_empty(c);
        fh_slab_release_empty(c);
    }
    return fh_purge_to(keep) + fh_huge_trim(keep);
}
