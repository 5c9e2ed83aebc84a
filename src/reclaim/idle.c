#include "reclaim/idle.h"

#include "base/assert.h"
#include "base/settings.h"
#include "base/tuning.h"
#include "reclaim/budget.h"
#include "reclaim/credit.h"
#include "store/huge.h"
#include "store/purge.h"
#include "store/window.h"
#include "system/system.h"

/* Goes through the chunks downwards, round and round, because low addresses are re-used first and there is demand for high
 * ones last. In chunks on huge pages a piece of one costs that huge page: see fh_purge_extent. */
static size_t purge_some(size_t target_slots, size_t most_chunks, fh_purge_extent most) {
    static fh_word clock_hand;
    size_t chunks = fh_window_chunks(), purged = 0;
    if (most_chunks > chunks) most_chunks = chunks;
    for (size_t i = 0; i < most_chunks && fh_load(&fh_counts.dirty_slots) > target_slots; i++) {
        size_t at = (size_t)fh_add_relaxed(&clock_hand, 1) % chunks;
        FH_ASSERT(at < chunks);
        purged += fh_chunk_purge(chunks - 1 - at, most);
    }
    return purged;
}

/* Batches and not single slots; see budget.h. */
static void purge_eagerly(size_t dirty) {
    if (dirty > FH_EAGER_WHOLE) purge_some(0, FH_IDLE_CHUNKS, FH_PURGE_WHOLE_ONES);
    if (fh_load(&fh_counts.dirty_slots) > FH_EAGER_PIECES) purge_some(0, FH_IDLE_CHUNKS, FH_PURGE_WHERE_IT_PAYS);
}

/* Dirty slots when a search found nothing to purge, and in the upper half for how many safe points that is believed. */
static fh_word nothing_found;

static bool search_again(size_t dirty) {
    uint64_t seen = fh_load(&nothing_found);
    if (seen >> 32 == 0) return true;
    fh_store(&nothing_found, seen - (UINT64_C(1) << 32));
    return fh_idle_has_changed(dirty, (uint32_t)seen);
}

static void purge_by_budget(size_t dirty, fh_pressure pressure) {
    size_t used = (size_t)fh_load(&fh_counts.used_slots);
    size_t budget = fh_idle_budget(used, fh_credit_now() / FH_SLOT_SIZE, pressure);
    FH_ASSERT(pressure != FH_PRESSURE_HIGH || budget == 0);
    if (dirty <= budget) return;
    if (pressure == FH_PRESSURE_NONE && !search_again(dirty)) return;
    fh_store(&fh_counts.purged_second, fh_system_seconds());
    size_t purged = purge_some(fh_idle_target(budget), FH_IDLE_CHUNKS, FH_PURGE_WHOLE_ONES);
    if (fh_idle_pieces_too((size_t)fh_load(&fh_counts.dirty_slots), budget, pressure))
        purged += purge_some(budget, FH_IDLE_CHUNKS, FH_PURGE_WHERE_IT_PAYS);
    if (purged == 0) fh_store(&nothing_found, dirty | (uint64_t)FH_IDLE_BACK_OFF << 32);
}

/* The credit may have faded since the cache of huge blocks got its share. */
static void publish_huge_budget(fh_pressure pressure) {
    size_t budget = fh_huge_cache_budget(fh_credit_now(), pressure);
    if (fh_settings.purge == FH_PURGE_EAGER) budget = 0;
    if (fh_load(&fh_order.huge_cache_bytes) != budget) fh_store(&fh_order.huge_cache_bytes, budget);
}

/* From how many dirty slots on a safe point has to check. */
void fh_idle_configure(void) {
    uint64_t from = FH_IDLE_FLOOR_SLOTS;
    if (fh_settings.purge == FH_PURGE_EAGER) from = FH_EAGER_WHOLE;
    if (fh_settings.purge == FH_PURGE_LAZY) from = UINT64_MAX;
    if (fh_pressure_now() != FH_PRESSURE_NONE) from = 0;
    fh_store(&fh_order.idle_slots, from);
    publish_huge_budget(fh_pressure_now());
}

void fh_idle_purge_excess(void) {
    size_t dirty = (size_t)fh_load(&fh_counts.dirty_slots);
    fh_pressure pressure = fh_pressure_now();
    publish_huge_budget(pressure);
    if (FH_UNLIKELY(pressure == FH_PRESSURE_NONE && fh_settings.purge == FH_PURGE_EAGER)) {
        purge_eagerly(dirty);
    } else if (pressure != FH_PRESSURE_NONE || fh_settings.purge != FH_PURGE_LAZY) {
        if (dirty > FH_IDLE_FLOOR_SLOTS || pressure != FH_PRESSURE_NONE) purge_by_budget(dirty, pressure);
    }
}

size_t fh_idle_purge_unused(size_t keep) {
    return purge_some(keep / FH_SLOT_SIZE, fh_window_chunks(), FH_PURGE_WHERE_IT_PAYS) * FH_SLOT_SIZE;
}

size_t fh_idle_purge_to(size_t keep) {
    return purge_some(keep / FH_SLOT_SIZE, fh_window_chunks(), FH_PURGE_EVERYTHING) * FH_SLOT_SIZE;
}
