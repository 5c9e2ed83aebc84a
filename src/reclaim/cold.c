#include "reclaim/cold.h"

#include "base/assert.h"
#include "base/settings.h"
#include "base/tuning.h"
#include "reclaim/budget.h"
#include "store/depot.h"
#include "store/hints.h"
#include "store/holes.h"
#include "store/pages.h"
#include "store/thp.h"
#include "store/window.h"

#define COLD (~UINT64_C(0))

/* Of each class. Class FH_CLASS_BORROWED stands for all slabs whose holes are open. */
static struct {
    fh_word rounds;    /* without demand; COLD */
    fh_word back_off;  /* rounds without demand that it takes to become cold, 0: one */
    fh_word free_then; /* bytes of its free blocks when it was last gone through */
} class_state[FH_CLASSES];

static void end_cold(unsigned c) {
    uint64_t rounds = fh_load(&class_state[c].back_off);
    FH_ASSERT(rounds <= FH_COLD_BACK_OFF);
    fh_store(&class_state[c].back_off, rounds == 0 ? 2 : rounds < FH_COLD_BACK_OFF ? 2 * rounds : rounds);
    fh_store(&fh_class_event[c].given, 0);
}

/* Moves a class one step on. True if it is cold and has something to purge. */
static bool step(unsigned c) {
    FH_ASSERT(c >= 1 && (c <= FH_SMALL_LAST || c == FH_CLASS_BORROWED));
    uint64_t rounds = fh_load(&class_state[c].rounds);
    if (fh_load(&fh_class_event[c].demand)) {
        fh_store(&fh_class_event[c].demand, 0);
        if (rounds == COLD) end_cold(c);
        fh_store(&class_state[c].rounds, 1);
        return false;
    }
    if (rounds == COLD) {
        size_t given = (size_t)(fh_load(&fh_class_event[c].given) & ~FH_COLD_COUNTED);
        if (!fh_cold_again(given, (size_t)fh_load(&class_state[c].free_then))) return false;
    } else if (rounds == 0 || rounds < fh_load(&class_state[c].back_off)) {
        fh_store(&class_state[c].rounds, rounds + 1);
        return false;
    }
    fh_store(&class_state[c].rounds, COLD);
    fh_store(&fh_class_event[c].given, FH_COLD_COUNTED);
    return true;
}

/* Classes, as bits. */
typedef struct {
    uint64_t bits[FH_CLASSES / 64 + 1];
} class_set;

#define SET_WORDS (sizeof(class_set) / sizeof(uint64_t))

/* Moves each class one step on, and collects those to be gone through in this round. */
static class_set step_all(void) {
    class_set cold = {{0}};
    for (unsigned c = 1; c < FH_CLASSES; c++) {
        if ((c > FH_SMALL_LAST && c != FH_CLASS_BORROWED) || !step(c)) continue;
        cold.bits[c / 64] |= UINT64_C(1) << c % 64;
        fh_store(&class_state[c].free_then, 0);
        /* What the depots keep of the class is as little in demand, and scattered over its slabs. */
        if (c != FH_CLASS_BORROWED) fh_depot_empty(c);
    }
    return cold;
}

/* What is done with each hinted slab of a cold class: first to weigh what a half of a chunk could give, then to take it. */
typedef void (*visitor)(size_t slot, unsigned c, uint32_t *free_in_half);

#define HALVES (2 * FH_REGION_CHUNKS) /* of a region: 2 MiB each, a huge page */

static void weigh(size_t slot, unsigned c, uint32_t *free_in_half) {
    size_t bytes = fh_pages_free_bytes(slot);
    *free_in_half += (uint32_t)bytes;
    fh_add_relaxed(&class_state[c].free_then, bytes);
}

static void purge_and_open(size_t slot, unsigned c, uint32_t *free_in_half) {
    size_t chunk = slot / FH_CHUNK_SLOTS;
    unsigned half = slot % FH_CHUNK_SLOTS / FH_HALF_SLOTS;
    if (!fh_thp_is_huge(chunk) || fh_thp_split(chunk, half, *free_in_half)) fh_pages_purge(slot);
    if (c >= FH_OWNER_FIRST && c <= FH_OWNER_LAST && fh_opening_pays(fh_pages_free_bytes(slot))) fh_holes_open(slot, c);
}

/* The hinted slabs of a region, class by class. */
static void visit(size_t region, class_set cold, visitor what, uint32_t *free_in_half) {
    size_t end = (region + 1) * FH_REGION_SLOTS;
    for (unsigned i = 0; i < SET_WORDS; i++) {
        for (uint64_t rest = cold.bits[i]; rest; rest &= rest - 1) {
            unsigned c = 64 * i + fh_lowest_bit(rest);
            FH_ASSERT(c < FH_CLASSES);
            for (size_t slot = end - FH_REGION_SLOTS; (slot = fh_hint_next(c, slot)) < end; slot++)
                what(slot, c, &free_in_half[slot % FH_REGION_SLOTS / FH_HALF_SLOTS]);
        }
    }
}

static void go_round(void) {
    class_set cold = step_all();
    uint64_t any = 0;
    for (unsigned i = 0; i < SET_WORDS; i++) any |= cold.bits[i];
    if (!any) return;
    for (size_t region = 0; region * FH_REGION_CHUNKS < fh_window_chunks(); region++) {
        uint32_t free_in_half[HALVES] = {0};
        visit(region, cold, weigh, free_in_half);
        visit(region, cold, purge_and_open, free_in_half);
    }
    fh_add_relaxed(&fh_order.cold_rounds, 1);
}

/* One thread moves the figure and does the round; the others continue. */
void fh_cold_grown(void) {
    static fh_word last;
    size_t chunks = fh_window_chunks() - 1; /* the last has just come */
    uint64_t then = fh_load(&last);
    if (FH_LIKELY(!fh_cold_is_due(chunks, (size_t)then)) || FH_SETTING(purge) == FH_PURGE_LAZY) return;
    if (fh_cas_relaxed(&last, &then, chunks)) go_round();
}

void fh_cold_flowed(void) {
    static fh_word last;
    size_t heap = fh_window_chunks() * FH_CHUNK_SIZE;
    uint64_t taken = 0, then = fh_load(&last);
    for (unsigned i = 0; i < FH_SHARDS; i++) taken += fh_load(&fh_counts.shard_taken[i][0]);
    if (!fh_cold_is_due_by_flow(heap, taken - then) || FH_SETTING(purge) == FH_PURGE_LAZY) return;
    if (fh_cas_relaxed(&last, &then, taken)) go_round();
}
