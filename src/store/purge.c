#include "store/purge.h"

#include "base/settings.h"
#include "store/advice.h"
#include "store/background.h"
#include "store/limit.h"
#include "store/policy.h"
#include "store/regret.h"
#include "store/window.h"
#include "system/system.h"

/* Counters over all chunks, in slots. Relaxed throughout: each is a figure to steer by, and no memory is read or written
 * because of its value alone. They change once a slab or large block, not once a block. */
static fh_word used_slots;
static fh_word dirty_slots;   /* free, with memory behind them */
static fh_word purged_second; /* when the budget last gave something back */
static fh_regret regret;      /* slots that were purged and soon wanted again */

/* A release looks at this many chunks at most, so that no free takes long. */
#define CHUNKS_A_CALL 64

size_t fh_purge_dirty_bytes(void) {
    return (size_t)fh_load(&dirty_slots) * FH_SLOT_SIZE;
}

size_t fh_purge_used_bytes(void) {
    return (size_t)fh_load(&used_slots) * FH_SLOT_SIZE;
}

/* For the background thread only: the fewest dirty slots since it looked last, and how often slots changed hands. */
static fh_word lowest_dirty, moves;

static void note_move(uint64_t dirty) {
    if (FH_LIKELY(fh_settings.purge != FH_PURGE_BACKGROUND)) return;
    fh_add_relaxed(&moves, 1);
    if (dirty < fh_load(&lowest_dirty)) fh_store(&lowest_dirty, dirty);
}

uint64_t fh_purge_moves(void) {
    return fh_load(&moves);
}

size_t fh_purge_lowest_bytes(void) {
    uint64_t lowest = fh_swap_acq_rel(&lowest_dirty, fh_load(&dirty_slots));
    return (size_t)lowest * FH_SLOT_SIZE;
}

void fh_purge_claimed(unsigned slots, unsigned dirty, unsigned purged) {
    if (fh_add_relaxed(&used_slots, slots) >= FH_PURGE_FLOOR_SLOTS) fh_background_grown();
    if (FH_UNLIKELY(fh_load(&fh_limit_grouped))) fh_limit_count((slots - dirty) * FH_SLOT_SIZE);
    if (dirty) {
        note_move(fh_sub_relaxed(&dirty_slots, dirty) - dirty);
        fh_regret_reused(&regret, dirty);
    }
    /* The look at the clock is nothing beside the page faults to come. */
    if (purged && fh_purge_is_missed(fh_system_seconds() - fh_load(&purged_second))) fh_regret_add(&regret, purged);
}

void fh_purge_released(unsigned slots) {
    fh_sub_relaxed(&used_slots, slots);
    fh_add_relaxed(&dirty_slots, slots);
    note_move(UINT64_MAX);
}

void fh_purge_dropped(unsigned slots) {
    fh_sub_relaxed(&used_slots, slots);
}

/* Of these slots, those that fill a whole half of the chunk: 2 MiB, a huge page. */
static uint64_t whole_halves(uint64_t slots) {
    uint64_t low = fh_low_mask(32), high = ~low;
    return ((slots & low) == low ? low : 0) | ((slots & high) == high ? high : 0);
}

/* The halves in which any of these slots lies, whole. */
static uint64_t touched_halves(uint64_t slots) {
    uint64_t low = fh_low_mask(32);
    return (slots & low ? low : 0) | (slots & ~low ? ~low : 0);
}

/* How much of a chunk on huge pages is taken: what is a whole huge page; or where it pays also parts of one; or all. */
typedef enum { WHOLE_ONES, WHERE_IT_PAYS, EVERYTHING } extent;

/* Of these free slots of a chunk on huge pages, those that may be taken when they are not a whole half. */
static uint64_t worth_splitting(size_t index, uint64_t slots, uint64_t free, extent most) {
    uint64_t whole = whole_halves(free);
    for (unsigned half = 0; half < 2; half++) {
        uint64_t mask = fh_low_mask(32) << 32 * half;
        if (whole & mask || !(slots & mask)) continue;
        size_t bytes = most == EVERYTHING ? FH_HUGE_PAGE : fh_count_bits(slots & mask) * FH_SLOT_SIZE;
        if (most == WHOLE_ONES || !fh_advice_may_split(index, half, bytes)) slots &= ~mask;
    }
    return slots;
}

/* Gives back the dirty free slots of one chunk, or only whole halves of it. They are claimed like an allocation first. On
 * huge pages a slot that was never written to has memory all the same when a neighbour was, so there all free slots of
 * a half go that has a dirty one: without that a heap of 1.5 MiB blocks kept a quarter of its peak for ever. */
static unsigned purge_chunk(size_t index, extent most) {
    bool huge = fh_advice_is_huge(index);
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t free = fh_load(&chunk->free), take;
    do {
        take = free & fh_load(&chunk->dirty);
        /* A half counts as whole when all of it is free, be it dirty or not. */
        if (huge) take = worth_splitting(index, free & touched_halves(take), free, most);
        if (!take) return 0;
    } while (!fh_cas_acquire(&chunk->free, &free, free & ~take)); /* acquire: as in run.c's claim */
    fh_run_changed(index, free);
    uint64_t whole = whole_halves(take), low = fh_low_mask(32);
    for (unsigned half = 0; half < 2 && huge; half++) {
        uint64_t mask = low << 32 * half;
        if (take & ~whole & mask) fh_advice_stay_split(index, half);
    }
    for (uint64_t rest = take; rest;) {
        unsigned place = fh_lowest_bit(rest);
        uint64_t above = ~(rest >> place);
        unsigned n = above ? fh_lowest_bit(above) : 64;
        if (n > 64 - place) n = 64 - place;
        fh_system_purge(fh_slot_address(index * FH_CHUNK_SLOTS + place), n * FH_SLOT_SIZE);
        rest &= ~fh_run_mask(place, n);
    }
    fh_advice_whole_again(index, (whole & low ? 1 : 0) | (whole & ~low ? 2 : 0));
    /* Some of them may have been purged by another thread since `dirty` was read, and be free again: of each slot only
     * who clears its bit counts it. */
    uint64_t cleared = fh_and_acq_rel(&chunk->dirty, ~take) & take;
    fh_sub_relaxed(&dirty_slots, fh_count_bits(cleared));
    uint64_t before = fh_or_release(&chunk->free, take); /* release: the purge before anybody claims the slots */
    fh_run_changed(index, before);
    return fh_count_bits(take);
}

/* Goes through the chunks downwards, round and round, as low addresses are re-used first and what lies high is wanted
 * last. In chunks on huge pages a piece of one costs that huge page: see `extent`. */
static size_t purge_some(size_t target_slots, size_t most_chunks, extent most) {
    static fh_word hand;
    size_t chunks = fh_window_chunks(), purged = 0;
    if (most_chunks > chunks) most_chunks = chunks;
    for (size_t looked = 0; looked < most_chunks && fh_load(&dirty_slots) > target_slots; looked++) {
        size_t at = (size_t)fh_add_relaxed(&hand, 1) % chunks;
        size_t index = chunks - 1 - at;
        purged += purge_chunk(index, most);
    }
    return purged;
}

/* Batches and not single slots; see policy.h. */
static void purge_eagerly(size_t dirty) {
    if (dirty > FH_PURGE_EAGER_WHOLE) purge_some(0, CHUNKS_A_CALL, WHOLE_ONES);
    if (fh_load(&dirty_slots) > FH_PURGE_EAGER_PIECES) purge_some(0, CHUNKS_A_CALL, WHERE_IT_PAYS);
}

/* What is free may lie so strewn that no huge page is worth splitting. Then there is little sense in searching again for each
 * slab that is released: the next FRUITLESS_CALLS do not, unless the figure has changed by 2 MiB meanwhile.
 *
 *     dirty slots when a search found nothing, and in the upper half how many calls are still to be let off */
#define FRUITLESS_CALLS 32u
static fh_word fruitless_at;

static bool is_fruitless(size_t dirty) {
    uint64_t seen = fh_load(&fruitless_at);
    if (seen >> 32 == 0) return false;
    size_t then = (size_t)(uint32_t)seen;
    fh_store(&fruitless_at, seen - (UINT64_C(1) << 32));
    return dirty < then + FH_CHUNK_SLOTS / 2 && dirty + FH_CHUNK_SLOTS / 2 > then;
}

void fh_purge_over_budget(void) {
    size_t dirty = (size_t)fh_load(&dirty_slots);
    fh_pressure pressure = fh_limit_pressure();
    if (FH_UNLIKELY(fh_settings.purge != FH_PURGE_BUDGET) && pressure == FH_PRESSURE_NONE) {
        if (fh_settings.purge == FH_PURGE_EAGER) purge_eagerly(dirty);
        if (fh_settings.purge != FH_PURGE_BACKGROUND) return;
        fh_background_nudge();
    }
    if (FH_LIKELY(dirty <= FH_PURGE_FLOOR_SLOTS) && pressure == FH_PRESSURE_NONE) return;
    size_t used = (size_t)fh_load(&used_slots), budget = fh_purge_budget(used, 0, pressure);
    if (dirty <= budget) return;
    budget = fh_purge_budget(used, fh_regret_now(&regret), pressure);
    if (dirty <= budget) return;
    if (pressure == FH_PRESSURE_NONE && is_fruitless(dirty)) return;
    fh_store(&purged_second, fh_system_seconds());
    size_t given = purge_some(fh_purge_target(budget), CHUNKS_A_CALL, WHOLE_ONES);
    if (fh_purge_pieces_too((size_t)fh_load(&dirty_slots), budget, pressure))
        given += purge_some(budget, CHUNKS_A_CALL, WHERE_IT_PAYS);
    if (given == 0) fh_store(&fruitless_at, dirty | (uint64_t)FRUITLESS_CALLS << 32);
}

size_t fh_purge_aged(size_t keep) {
    return purge_some(keep / FH_SLOT_SIZE, fh_window_chunks(), WHERE_IT_PAYS) * FH_SLOT_SIZE;
}

size_t fh_purge_to(size_t keep) {
    return purge_some(keep / FH_SLOT_SIZE, fh_window_chunks(), EVERYTHING) * FH_SLOT_SIZE;
}
