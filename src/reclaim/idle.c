#include "reclaim/idle.h"

#include "base/assert.h"
#include "base/settings.h"
#include "base/tuning.h"
#include "reclaim/budget.h"
#include "reclaim/credit.h"
#include "store/purge.h"
#include "store/run.h"
#include "store/window.h"
#include "system/system.h"

/* The chunk at which the search goes on: it moves downwards, round and round, because low addresses are re-used first and
 * there is demand for high ones last. What was in a long run that has just been released comes first. */
static size_t next_chunk(size_t chunks) {
    static fh_word clock_hand; /* chunks from the end of the heap */
    uint64_t end = fh_load(&fh_counts.released_end);
    if (end) {
        fh_store(&fh_counts.released_end, 0);
        fh_store(&clock_hand, end < chunks ? chunks - end : 0);
    }
    return chunks - 1 - (size_t)fh_add_relaxed(&clock_hand, 1) % chunks;
}

/* In chunks on huge pages a piece of one costs that huge page: see fh_purge_extent. A chunk that has nothing to purge takes a
 * load, so eight of them count as one: what is dirty may be far apart. */
static size_t purge_some(size_t target_slots, size_t most_chunks, fh_purge_extent most) {
    fh_run_settle();
    size_t chunks = fh_window_chunks(), purged = 0, steps = 8 * most_chunks;
    for (size_t i = 0; i < chunks && steps > 0; i++) {
        size_t dirty = (size_t)fh_load(&fh_counts.dirty_slots);
        if (dirty <= target_slots) break;
        size_t chunk = next_chunk(chunks);
        bool clean = fh_load(&fh_chunk_at(chunk)->dirty) == 0;
        steps -= clean ? 1 : steps < 8 ? steps : 8;
        if (!clean) purged += fh_chunk_purge(chunk, most, dirty - target_slots);
    }
    return purged;
}

/* Chunks that one safe point goes through. A large block that was freed may be longer than the usual bound: purging it takes
 * as long as unmapping it would. */
static size_t chunks_to_search(size_t dirty, size_t target) {
    return FH_IDLE_CHUNKS + (dirty > target ? (dirty - target) / FH_CHUNK_SLOTS : 0);
}

/* Batches and not single slots; see budget.h. */
static void purge_eagerly(size_t dirty) {
    size_t most = chunks_to_search(dirty, 0);
    if (dirty > FH_EAGER_WHOLE) purge_some(0, most, FH_PURGE_WHOLE_ONES);
    if (fh_load(&fh_counts.dirty_slots) > FH_EAGER_PIECES) purge_some(0, most, FH_PURGE_WHERE_IT_PAYS);
}

void fh_idle_note_peak(void) {
    uint64_t used = fh_load(&fh_counts.used_slots);
    if (used > fh_load(&fh_order.peak_slots)) fh_store(&fh_order.peak_slots, used + FH_PEAK_STEP_SLOTS + used / 64);
}

/* The peak is the next one to be noted: no more than that were in use. One that is too low by a slot would purge a quarter of
 * what a program that comes back to its size will want again. */
size_t fh_idle_budget_now(size_t used, fh_pressure pressure) {
    size_t peak = (size_t)fh_load(&fh_order.peak_slots);
    return fh_idle_budget(used, peak, fh_credit_now() / FH_SLOT_SIZE, pressure);
}

/* Dirty slots when a search found nothing to purge, and in the upper half for how many safe points that is believed. */
static fh_word nothing_found;

static bool search_again(size_t dirty) {
    uint64_t seen = fh_load(&nothing_found);
    if (seen >> 32 == 0) return true;
    fh_store(&nothing_found, seen - (UINT64_C(1) << 32));
    return fh_idle_has_changed(dirty, (uint32_t)seen);
}

static void purge_by_budget(size_t dirty, size_t kept, fh_pressure pressure) {
    size_t counted = (size_t)fh_load(&fh_counts.used_slots);
    size_t used = counted > kept ? counted - kept : 0; /* they were read one after the other */
    size_t budget = fh_idle_budget_now(used, pressure);
    FH_ASSERT(pressure != FH_PRESSURE_HIGH || budget == 0);
    fh_store(&fh_order.keep, dirty <= budget ? (uint64_t)counted << 32 | kept : 0);
    if (dirty <= budget) return;
    if (pressure == FH_PRESSURE_NONE && !search_again(dirty)) return;
    fh_store(&fh_counts.purged_second, fh_system_seconds());
    size_t most = chunks_to_search(dirty, fh_idle_target(budget));
    size_t purged = purge_some(fh_idle_target(budget), most, FH_PURGE_WHOLE_ONES);
    if (fh_idle_pieces_too((size_t)fh_load(&fh_counts.dirty_slots), budget, pressure))
        purged += purge_some(budget, most, FH_PURGE_WHERE_IT_PAYS);
    if (purged == 0) fh_store(&nothing_found, dirty | (uint64_t)FH_IDLE_BACK_OFF << 32);
}

/* From how many dirty slots on a safe point has to check. */
static uint64_t check_from(void) {
    uint64_t purge = FH_SETTING(purge);
    if (fh_pressure_now() != FH_PRESSURE_NONE) return 0;
    return purge == FH_PURGE_EAGER ? FH_EAGER_WHOLE : purge == FH_PURGE_LAZY ? UINT64_MAX : FH_IDLE_FLOOR_SLOTS;
}

/* Of two threads that change what this depends on, the later one here sees what the other has changed: an exchange, and what
 * was written is computed once more after it. */
void fh_idle_configure(void) {
    uint64_t from;
    do {
        from = check_from();
        fh_swap_acq_rel(&fh_order.idle_slots, from);
    } while (check_from() != from);
    fh_store(&fh_order.keep, 0); /* it was found with another budget */
}

void fh_idle_purge_excess(void) {
    size_t kept = fh_kept_slots(), dirty = (size_t)fh_load(&fh_counts.dirty_slots) + kept;
    fh_pressure pressure = fh_pressure_now();
    uint64_t purge = FH_SETTING(purge);
    if (FH_UNLIKELY(pressure == FH_PRESSURE_NONE && purge == FH_PURGE_EAGER)) {
        purge_eagerly(dirty);
    } else if (pressure != FH_PRESSURE_NONE || purge != FH_PURGE_LAZY) {
        if (dirty > FH_IDLE_FLOOR_SLOTS || pressure != FH_PRESSURE_NONE) purge_by_budget(dirty, kept, pressure);
    }
}

size_t fh_idle_purge_unused(size_t keep) {
    return purge_some(keep / FH_SLOT_SIZE, fh_window_chunks(), FH_PURGE_WHERE_IT_PAYS) * FH_SLOT_SIZE;
}

size_t fh_idle_purge_to(size_t keep) {
    return purge_some(keep / FH_SLOT_SIZE, fh_window_chunks(), FH_PURGE_EVERYTHING) * FH_SLOT_SIZE;
}
