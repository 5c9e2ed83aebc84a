/* Magazines, depots and caches. */
#include "break.h"

#include "../support/check.h"
#include "base/classes.h"
#include "cache/magazine.h"
#include "cache/observed.h"
#include "cache/thread.h"
#include "store/depot.h"
#include "store/slab.h"
#include "store/window.h"

#include <freehold/freehold.h>

/* The loaded magazine of the calling thread's bin, with at least two blocks. */
static fh_magazine *loaded(void) {
    fh_free(fh_malloc(BREAK_SIZE));
    fh_magazine *m = fh_own()->rack[BREAK_CLASS].loaded;
    CHECK(m && fh_own()->bin[BREAK_CLASS].top >= m->block + 1, "no magazine to break");
    return m;
}

/* A word of the class's depots with a full magazine. */
static fh_word *full_slot(void) {
    for (unsigned shard = 0; shard < FH_SHARDS; shard++) {
        fh_word *words = (fh_word *)fh_depot_words(shard, BREAK_CLASS);
        for (unsigned i = 0; i < fh_depot_slots(BREAK_CLASS); i++) {
            uint64_t word = fh_load(&words[i]);
            if (word && !(word & FH_DEPOT_EMPTY)) return &words[i];
        }
    }
    CHECK(false, "no depot to break");
    return NULL;
}

/* A depot's full magazine. */
static fh_magazine *deposited(void) {
    return (fh_magazine *)(uintptr_t)fh_load(full_slot());
}

static fh_thread *find_parked(void) {
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        if (fh_thread_parked(i)) return (fh_thread *)fh_thread_parked(i);
    }
    CHECK(false, "no parked cache to break");
    return NULL;
}

/* ── Magazines ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void block_for_magazine(void) {
    fh_own()->rack[BREAK_CLASS].previous = fh_malloc(BREAK_SIZE);
}
static void wrong_capacity(void) {
    loaded()->capacity++;
}
static void no_sentinel(void) {
    fh_magazine *m = deposited();
    m->bottom = m;
}
static void magazine_overfull(void) {
    fh_magazine *m = deposited();
    m->count = m->capacity + 1u;
}
static void pointer_inside(void) {
    fh_magazine *m = deposited();
    m->block[0] = (char *)m->block[0] + 16;
}
static void pointer_nowhere(void) {
    deposited()->block[0] = (void *)(uintptr_t)0x1000;
}
static void block_of_another_class(void) {
    deposited()->block[0] = fh_malloc(700);
}
static void cached_block_free(void) {
    void *p = deposited()->block[0];
    fh_slab_give(BREAK_CLASS, 1, &p);
}
static void block_twice(void) {
    fh_magazine *m = deposited();
    CHECK(m->count > 1, "one block only");
    m->block[0] = m->block[1];
}
static void block_twice_across(void) {
    loaded()->block[0] = deposited()->block[0];
}
static void magazine_in_two_places(void) {
    fh_store(full_slot(), (uintptr_t)loaded());
}
/* What a thread that ends has forgotten. */
static void magazine_forgotten(void) {
    fh_thread *t = fh_own();
    (void)loaded();
    t->rack[BREAK_CLASS].loaded = NULL;
    fh_bin_reset(&t->bin[BREAK_CLASS]);
}
static void slot_forgotten(void) {
    fh_store(full_slot(), 0);
}
static void full_one_as_empty(void) {
    fh_word *word = full_slot();
    fh_store(word, fh_load(word) | FH_DEPOT_EMPTY);
}
static void empty_one_as_full(void) {
    deposited()->count = 0;
}

/* ── Caches ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void cache_busy(void) {
    fh_store(&find_parked()->state, FH_THREAD_BUSY);
}
static void cache_dead(void) {
    fh_store(&find_parked()->state, FH_THREAD_DEAD);
}
/* The next cache of the slab that this thread's is in, as if it had been given back. */
static void dead_cache_alive(void) {
    size_t slot = fh_slot_of(fh_own()), size = fh_class_size(FH_CLASS_THREAD);
    fh_slab *slab = fh_slab_at(slot);
    uint64_t state = fh_load(&slab->state);
    unsigned next = fh_state_bump(state);
    CHECK(next < fh_class_table[FH_CLASS_THREAD].blocks, "no cache is left");
    fh_store(&slab->state, state + (UINT64_C(1) << FH_STATE_BUMP_SHIFT));
    fh_or_relaxed(&slab->free[0], UINT64_C(1) << next);
    CHECK(fh_verify() == 0, "a dead cache that was given back is no mistake");
    fh_store(&((fh_thread *)(fh_slot_address(slot) + next * size))->state, FH_THREAD_LIVE);
}
static void depot_says_more(void) {
    fh_add_relaxed((fh_word *)fh_depot_full(0, BREAK_CLASS), 1);
}
static void parked_nowhere(void) {
    fh_store(&fh_own()->state, FH_THREAD_PARKED);
}
static void parked_and_live(void) {
    fh_store(&find_parked()->state, FH_THREAD_LIVE);
}
static void top_beyond_end(void) {
    (void)loaded();
    fh_bin *bin = &fh_own()->bin[BREAK_CLASS];
    bin->top = bin->end + 1;
}
static void end_beyond_magazine(void) {
    fh_magazine *m = loaded();
    fh_own()->bin[BREAK_CLASS].end = m->block + m->capacity + 1;
}
static void special_bin_open(void) {
    fh_own()->bin[0] = fh_own()->bin[BREAK_CLASS];
    CHECK(fh_own()->bin[0].top != (void **)&fh_empty_magazine[1], "the bin is empty itself");
}
static void no_limit(void) {
    (void)loaded();
    fh_own()->budget_used -= 2 * (size_t)fh_own()->rack[BREAK_CLASS].limit * BREAK_SIZE;
    fh_own()->rack[BREAK_CLASS].limit = 0;
}
static void budget_off(void) {
    fh_own()->budget_used += BREAK_SIZE;
}

const breakage break_own[] = {
    {FH_EQUATION_MAGAZINE_VALID, "a program's block for a magazine", block_for_magazine},
    {FH_EQUATION_MAGAZINE_VALID, "a magazine with another capacity", wrong_capacity},
    {FH_EQUATION_MAGAZINE_VALID, "a magazine without its sentinel", no_sentinel},
    {FH_EQUATION_MAGAZINE_COUNT, "a magazine that is more than full", magazine_overfull},
    {FH_EQUATION_MAGAZINE_BLOCK, "a pointer into a block", pointer_inside},
    {FH_EQUATION_MAGAZINE_BLOCK, "a pointer to nowhere", pointer_nowhere},
    {FH_EQUATION_MAGAZINE_BLOCK, "a block of another class", block_of_another_class},
    {FH_EQUATION_MAGAZINE_BLOCK, "a block that is free in its slab too", cached_block_free},
    {FH_EQUATION_MAGAZINE_TWICE, "a block twice in one magazine", block_twice},
    {FH_EQUATION_MAGAZINE_TWICE, "a block in a cache and a depot", block_twice_across},
    {FH_EQUATION_MAGAZINE_SHARED, "a magazine in a cache and a depot", magazine_in_two_places},
    {FH_EQUATION_MAGAZINE_LOST, "a bin that forgets its magazine", magazine_forgotten},
    {FH_EQUATION_MAGAZINE_LOST, "a depot that forgets a magazine", slot_forgotten},
    {FH_EQUATION_DEPOT_SLOT, "a full magazine said to be empty", full_one_as_empty},
    {FH_EQUATION_DEPOT_SLOT, "an empty magazine said to be full", empty_one_as_full},
    {FH_EQUATION_DEPOT_FULL, "a depot that says it has one more", depot_says_more},
    {FH_EQUATION_CACHE_STATE, "a cache that nobody has is busy", cache_busy},
    {FH_EQUATION_CACHE_STATE, "a dead cache that was not given back", cache_dead},
    {FH_EQUATION_CACHE_STATE, "a cache that was given back lives", dead_cache_alive},
    {FH_EQUATION_CACHE_PARKED, "a parked cache that nobody finds", parked_nowhere},
    {FH_EQUATION_CACHE_PARKED, "a live cache that is parked", parked_and_live},
    {FH_EQUATION_CACHE_BIN, "a top beyond the end", top_beyond_end},
    {FH_EQUATION_CACHE_BIN, "an end beyond the magazine", end_beyond_magazine},
    {FH_EQUATION_CACHE_BIN, "a special bin with blocks", special_bin_open},
    {FH_EQUATION_CACHE_LIMIT, "a magazine in a bin without a limit", no_limit},
    {FH_EQUATION_CACHE_BUDGET, "a budget that is off by one block", budget_off},
};
const unsigned break_own_count = sizeof break_own / sizeof break_own[0];
