/* Slots, slabs, chunks, hints and counters. */
#include "break.h"

#include "../support/check.h"
#include "base/classes.h"
#include "reclaim/limits.h"
#include "store/events.h"
#include "store/run.h"
#include "store/slab.h"
#include "store/holes.h"
#include "store/live.h"
#include "store/sampled.h"
#include "store/window.h"

#include <freehold/freehold.h>
#include <pthread.h>

#define BLOCKS 4000
#define SAMPLED (FH_CLASS_SAMPLE + 1) /* of 128 bytes */
#define LODGING ((size_t)2048)        /* a size whose slabs may be let */
#define PARTLY ((size_t)2500) /* and one whose slabs may not: a stress build would open one that is used in part */

static void *other_thread(void *none) {
    void *block[40];
    for (int i = 0; i < 40; i++) block[i] = fh_malloc(BREAK_SIZE);
    for (int i = 0; i < 40; i++) fh_free(block[i]);
    return none;
}

/* So many blocks, of which every other one is in its slab again. */
static void scatter(size_t size, unsigned count) {
    static void *block[BLOCKS];
    for (unsigned i = 0; i < count; i++) block[i] = fh_malloc(size);
    for (unsigned i = 0; i < count; i += 2) fh_slab_give(fh_class_of(size), 1, &block[i]);
}

void break_build(void) {
    static void *block[BLOCKS];
    scatter(BREAK_SIZE, BLOCKS);
    scatter(LODGING, 200);
    for (int i = 0; i < BLOCKS; i++) block[i] = fh_malloc(BREAK_SIZE);
    scatter(BREAK_SIZE, BLOCKS);
    for (int i = 0; i < BLOCKS; i++) fh_free(block[i]);
    /* One that stays and one that goes: of a slab in part, a cached run, a long run, and runs over several chunks. */
    static const size_t sizes[] = {PARTLY, 200000, 1500000, 5000000, 9000000};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *stays = fh_malloc(sizes[i]), *goes = fh_malloc(sizes[i]);
        CHECK(stays && goes, "no memory");
        fh_free(goes);
    }
    /* A slab of which most was never handed out; malloc might have found a hole instead. */
    void *own;
    CHECK(fh_slab_take_own(fh_class_of(700), 1, &own) == 1, "no memory");
    /* Two sampled blocks, of which one goes. */
    void *sampled[2];
    CHECK(fh_slab_take(SAMPLED, 2, sampled) == 2, "no memory");
    fh_sampled_begin(SAMPLED, sampled[0], 96);
    fh_sampled_begin(SAMPLED, sampled[1], 80);
    CHECK(fh_sampled_usable(SAMPLED, sampled[0]) == 96 && fh_sampled_usable(SAMPLED, sampled[1]) == 80,
          "two blocks mix");
    fh_sampled_end(SAMPLED, sampled[1]);
    fh_slab_give(SAMPLED, 1, &sampled[1]);
    /* This thread has a cache by now, or it would get the one that is left behind. */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

/* ── Something to break ──────────────────────────────────────────────────────────────────────────────────────────── */

static size_t slots(void) {
    return fh_window_chunks() * FH_CHUNK_SLOTS;
}

static bool is_free(size_t slot) {
    return fh_load(&fh_chunk_at(slot / FH_CHUNK_SLOTS)->free) >> slot % FH_CHUNK_SLOTS & 1;
}

static bool is_dirty(size_t slot) {
    return fh_load(&fh_chunk_at(slot / FH_CHUNK_SLOTS)->dirty) >> slot % FH_CHUNK_SLOTS & 1;
}

static unsigned free_blocks(size_t slot) {
    unsigned n = 0;
    for (unsigned w = 0; w < FH_SLAB_WORDS; w++) n += fh_count_bits(fh_load(&fh_slab_at(slot)->free[w]));
    return n;
}

/* The first slot of a slab of that class, or of a run (FH_KIND_RUN), of which `good` holds. */
static size_t find_slab(unsigned kind, bool (*good)(size_t slot)) {
    for (size_t slot = 0; slot < slots(); slot++) {
        if (fh_state_kind(fh_load(&fh_slab_at(slot)->state)) == kind && (!good || good(slot))) return slot;
    }
    CHECK(false, "no slab of class %u to break", kind);
    return 0;
}

static size_t find_slot(bool (*good)(size_t slot)) {
    for (size_t slot = 0; slot < slots(); slot++) {
        if (good(slot)) return slot;
    }
    CHECK(false, "no slot to break");
    return 0;
}

static void change_bit(fh_word *word, unsigned bit) {
    fh_store(word, fh_load(word) ^ UINT64_C(1) << bit);
}

static fh_word *state_of(size_t slot) {
    return &fh_slab_at(slot)->state;
}

/* ── Slots ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void bit_of_free_slot(void) {
    change_bit(&fh_slab_at(find_slot(is_free))->free[5], 3);
}
static void count_of_free_slot(void) {
    change_bit(state_of(find_slot(is_free)), 0);
}
static void slab_in_free_slot(void) {
    fh_store(state_of(find_slot(is_free)), fh_state_make(BREAK_CLASS, 1));
}
static void slab_slot_free(void) {
    size_t slot = find_slab(BREAK_CLASS, NULL);
    change_bit(&fh_chunk_at(slot / FH_CHUNK_SLOTS)->free, slot % FH_CHUNK_SLOTS);
}
static void slot_forgotten(void) {
    size_t slot = find_slot(is_free);
    change_bit(&fh_chunk_at(slot / FH_CHUNK_SLOTS)->free, slot % FH_CHUNK_SLOTS);
}
static void byte_after_release(void) {
    fh_class_set(find_slot(is_free), 9);
}
static void byte_of_slab(void) {
    fh_class_set(find_slab(BREAK_CLASS, NULL), 0);
}
static void byte_in_run(void) {
    fh_class_set(find_slab(FH_KIND_RUN, NULL) + 1, 9);
}
static void pages_of_free_slot(void) {
    fh_store(&fh_slab_at(find_slot(is_free))->pages, 3);
}

/* ── Slabs ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool is_partly_bumped(size_t slot) {
    uint64_t state = fh_load(state_of(slot));
    return fh_state_bump(state) < fh_class_table[fh_state_kind(state)].blocks;
}
static bool has_free(size_t slot) {
    return free_blocks(slot) >= 8;
}

static void free_and_short(void) {
    change_bit(fh_sampled_short_of(fh_slab_at(find_slab(SAMPLED, NULL)), SAMPLED, 1).word, 4);
}
/* A slab of a hardened partition is made for it: of its blocks one is taken, and the others are free. */
static void free_and_live(void) {
    unsigned c = fh_class_of(100);
    char *taken = fh_slab_take_in(FH_PARTITION_HARDENED, c);
    CHECK(taken, "no memory");
    fh_live_begin(c, taken);
    CHECK(fh_verify() == 0, "a hardened slab is not whole");
    fh_live at = fh_live_of(c, taken - (uintptr_t)taken % FH_SLOT_SIZE);
    fh_store(at.word, at.bit | at.bit << 1); /* one of the two is another one */
}
static void state_bit(void) {
    change_bit(state_of(find_slab(BREAK_CLASS, NULL)), 45);
}
static void long_run(void) {
    size_t slot = find_slab(FH_KIND_RUN, NULL);
    fh_store(state_of(slot), fh_state_make_run(slots() - slot + 1));
}
static bool is_cached_run(size_t slot) {
    return fh_byte_load(fh_class_byte(slot)) != FH_CLASS_SPECIAL;
}
static bool is_long_run(size_t slot) {
    return !is_cached_run(slot);
}
static void run_without_pages(void) {
    fh_store(&fh_slab_at(find_slab(FH_KIND_RUN, is_long_run))->pages, 0);
}
static void run_with_few_pages(void) {
    fh_add_relaxed(&fh_slab_at(find_slab(FH_KIND_RUN, is_cached_run))->pages, (uint64_t)-1);
}
static void run_with_many_pages(void) {
    size_t slot = find_slab(FH_KIND_RUN, is_long_run);
    fh_store(&fh_slab_at(slot)->pages, fh_state_run_slots(fh_load(state_of(slot))) * FH_SLOT_SIZE / 4096 + 1);
}
static void bump_too_far(void) {
    size_t slot = find_slab(BREAK_CLASS, NULL);
    fh_store(state_of(slot), fh_state_make(BREAK_CLASS, fh_class_table[BREAK_CLASS].blocks + 1));
}
static void bit_beyond(void) {
    unsigned c = fh_class_of(PARTLY), last = fh_class_table[c].blocks - 1u;
    change_bit(&fh_slab_at(find_slab(c, is_partly_bumped))->free[last / 64], last % 64);
}
static void count_too_high(void) {
    size_t slot = find_slab(BREAK_CLASS, NULL);
    fh_store(state_of(slot), fh_load(state_of(slot)) | fh_class_table[BREAK_CLASS].hint_at);
}
static void hint_not_set(void) {
    size_t slot = find_slab(BREAK_CLASS, has_free);
    change_bit(&fh_chunk_hints_at(slot / FH_CHUNK_SLOTS)->hint[BREAK_CLASS], slot % FH_CHUNK_SLOTS);
}

/* ── Slabs that are let ──────────────────────────────────────────────────────────────────────────────────────────── */

static size_t open_one(void) {
    size_t slot = find_slab(fh_class_of(LODGING), has_free);
    CHECK(fh_holes_open(slot, fh_class_of(LODGING)), "a slab is not let");
    CHECK(fh_verify() == 0, "letting a slab breaks something");
    return slot;
}
static void joined_free_unit(void) {
    fh_slab *slab = fh_slab_at(open_one());
    fh_store(&slab->free[FH_SLAB_WORDS / 2], fh_load(&slab->free[0]) & ~UINT64_C(1));
}
static void borrowed_slab_kept(void) {
    uint64_t all = fh_low_mask(fh_class_table[fh_class_of(LODGING)].blocks);
    size_t slot = open_one(), other = open_one();
    fh_store(&fh_slab_at(slot)->free[0], all);
    fh_store(&fh_slab_at(other)->free[0], all);
}

/* ── Chunks and hints ────────────────────────────────────────────────────────────────────────────────────────────── */

static bool is_free_and_dirty(size_t slot) {
    return is_free(slot) && is_dirty(slot);
}

static void dirty_and_unused(void) {
    size_t slot = find_slot(is_free_and_dirty);
    change_bit(&fh_chunk_at(slot / FH_CHUNK_SLOTS)->used, slot % FH_CHUNK_SLOTS);
}
static void chunk_lost(void) {
    change_bit(&fh_region_at(0)->lost, 0);
}
static bool goes_over_border(size_t slot) {
    return slot % FH_CHUNK_SLOTS + fh_state_run_slots(fh_load(state_of(slot))) > FH_CHUNK_SLOTS;
}
static void run_not_over_chunk(void) {
    size_t slot = find_slab(FH_KIND_RUN, goes_over_border);
    fh_store(&fh_chunk_at(slot / FH_CHUNK_SLOTS + 1)->over, 0);
}
static void run_over_chunk_of_others(void) {
    size_t slot = find_slab(BREAK_CLASS, NULL);
    fh_store(&fh_chunk_at(slot / FH_CHUNK_SLOTS)->over, find_slab(FH_KIND_RUN, goes_over_border) + 1);
}
static void page_twice(void) {
    size_t slot = find_slab(FH_CLASS_EDGE, NULL);
    fh_word *word = &fh_slab_at(slot)->free[0];
    fh_or_relaxed(word, ~fh_load(word) & -~fh_load(word) & 0xFFFF);
}
static void page_lost(void) {
    size_t slot = find_slab(FH_CLASS_EDGE, has_free);
    fh_and_relaxed(&fh_slab_at(slot)->free[0], fh_load(&fh_slab_at(slot)->free[0]) - 1);
}
static void page_clean_in_use(void) {
    fh_store(&fh_slab_at(find_slab(FH_CLASS_EDGE, NULL))->clean, 0xFFFF);
}
static void pieces_of_none(void) {
    fh_store(&fh_chunk_at(0)->moved, 0);
    fh_add_relaxed(&fh_chunk_at(0)->pieces, 1);
}
static void edge_of_nothing(void) {
    bool clean;
    size_t slot = fh_run_claim(1, 1, 0, &clean);
    fh_store(&fh_slab_at(slot)->state, fh_state_make(FH_CLASS_EDGE, 16));
    fh_store(&fh_slab_at(slot)->free[0], 0xFFFF);
}
static void hint_of_region(void) {
    size_t slot = find_slab(BREAK_CLASS, has_free);
    change_bit(&fh_region_at(0)->hints.hint[BREAK_CLASS], (unsigned)(slot / FH_CHUNK_SLOTS));
}
static void hint_of_unit(void) {
    change_bit(&fh_window.unit[0].hint[BREAK_CLASS], 0);
}
static void hint_at_top(void) {
    change_bit(&fh_window.top.hint[BREAK_CLASS], 0);
}
static void length_of_chunk(void) {
    for (unsigned i = 0; i < FH_LENGTHS; i++) fh_store(&fh_region_at(0)->hints.hint[FH_HINT_LENGTH + i], 0);
}

/* ── Counters ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void one_dirty_more(void) {
    fh_event_released(0, 1, true, true);
    fh_event_claimed(1, 0, 0);
}
static void one_used_less(void) {
    fh_event_dropped(1);
}
static void another_kept(void) {
    fh_store(&fh_counts.kept, fh_load(&fh_counts.kept) + (UINT64_C(1) << 32));
}
static void one_lost_more(void) {
    fh_add_relaxed(&fh_window.lost, 1);
}
static void claim_not_done(void) {
    fh_limits_install(0, FH_GIB, NULL);
    CHECK(fh_limit_admit(FH_SLOT_SIZE, false), "the limit is met");
}

const breakage break_shared[] = {
    {FH_EQUATION_SLOT_FREE, "a bit in a free slot", bit_of_free_slot},
    {FH_EQUATION_SLOT_FREE, "a count in a free slot", count_of_free_slot},
    {FH_EQUATION_SLOT_FREE, "pages of a run in a free slot", pages_of_free_slot},
    {FH_EQUATION_SLOT_OVERLAP, "a slab in a free slot", slab_in_free_slot},
    {FH_EQUATION_SLOT_OVERLAP, "a slab's slot is given back", slab_slot_free},
    {FH_EQUATION_SLOT_LOST, "a free slot is forgotten", slot_forgotten},
    {FH_EQUATION_SLOT_CLASS, "a class byte stays after release", byte_after_release},
    {FH_EQUATION_SLOT_CLASS, "a slab without its class byte", byte_of_slab},
    {FH_EQUATION_SLOT_CLASS, "a class byte within a run", byte_in_run},
    {FH_EQUATION_SLAB_STATE, "a bit of the state that means nothing", state_bit},
    {FH_EQUATION_SLAB_STATE, "a run beyond the end of the heap", long_run},
    {FH_EQUATION_COUNT_KEPT, "a run without a page", run_without_pages},
    {FH_EQUATION_SLAB_STATE, "a cached run that lacks a page", run_with_few_pages},
    {FH_EQUATION_SLAB_STATE, "a run with a page beyond its end", run_with_many_pages},
    {FH_EQUATION_SLAB_BUMP, "more blocks than there are", bump_too_far},
    {FH_EQUATION_SLAB_BEYOND, "a free block that was never handed out", bit_beyond},
    {FH_EQUATION_SLAB_COUNT, "a count that should have set the hint", count_too_high},
    {FH_EQUATION_SLAB_HINT, "a slab with free blocks and no hint", hint_not_set},
    {FH_EQUATION_SLAB_SHORT, "a free block is short of something", free_and_short},
    {FH_EQUATION_SLAB_LIVE, "a free block that the program has", free_and_live},
    {FH_EQUATION_HOLES_JOINED, "free units are joined", joined_free_unit},
    {FH_EQUATION_HOLES_EMPTY, "two borrowed slabs that are all free stay", borrowed_slab_kept},
    {FH_EQUATION_CHUNK_DIRTY, "a dirty slot that was never used", dirty_and_unused},
    {FH_EQUATION_CHUNK_LOST, "a chunk with slabs is lost", chunk_lost},
    {FH_EQUATION_CHUNK_OVER, "a chunk does not know the run that is over it", run_not_over_chunk},
    {FH_EQUATION_CHUNK_OVER, "a chunk knows of a run that is not over it", run_over_chunk_of_others},
    {FH_EQUATION_EDGE_PAGES, "a page of a block is free", page_twice},
    {FH_EQUATION_EDGE_PAGES, "a page of an edge is forgotten", page_lost},
    {FH_EQUATION_EDGE_EMPTY, "an edge beside no block", edge_of_nothing},
    {FH_EQUATION_EDGE_CLEAN, "a page of a block was never handed out", page_clean_in_use},
    {FH_EQUATION_CHUNK_PIECES, "moves are counted where nothing moved to", pieces_of_none},
    {FH_EQUATION_HINT_TREE, "a hint of a region is not set", hint_of_region},
    {FH_EQUATION_HINT_TREE, "a hint of 16 GiB is not set", hint_of_unit},
    {FH_EQUATION_HINT_TREE, "a hint of the window is not set", hint_at_top},
    {FH_EQUATION_HINT_LENGTH, "a chunk in no bucket", length_of_chunk},
    {FH_EQUATION_COUNT_DIRTY, "one dirty slot too many", one_dirty_more},
    {FH_EQUATION_COUNT_USED, "one used slot too few", one_used_less},
    {FH_EQUATION_COUNT_KEPT, "another run is said to be kept", another_kept},
    {FH_EQUATION_COUNT_LOST, "one lost chunk too many", one_lost_more},
    {FH_EQUATION_LIMIT_PENDING, "a claim that is never done", claim_not_done},
};
const unsigned break_shared_count = sizeof break_shared / sizeof break_shared[0];
