/* Scenarios of stall.c in which two threads meet: the second does all that it does between two steps of the first. */
#include "stall.h"

#include "base/tuning.h"
#include "cache/cache.h"
#include "reclaim/idle.h"
#include "store/events.h"
#include "store/slab_life.h"
#include "store/depot.h"
#include "store/run.h"
#include "store/slab.h"
#include "store/window.h"

/* So many blocks of a class, straight from the slabs and back, out of and into `hand`. */
typedef struct {
    void *block[256];
    unsigned count;
} hand;

static void take(hand *h, unsigned c, unsigned n) {
    __atomic_fetch_add(&stall_live, n * fh_class_size(c), __ATOMIC_RELAXED);
    stall_size = fh_class_size(c);
    unsigned got = fh_slab_take(c, n, h->block + h->count);
    CHECK(got == n, "%u of %u blocks", got, n);
    h->count += got;
}

/* Slots in the hands of the scenario, which the check of the heap must be told of. */
static size_t claim_at(size_t n, size_t align, size_t phase) {
    bool clean;
    __atomic_fetch_add(&stall_live, n * FH_SLOT_SIZE, __ATOMIC_RELAXED);
    size_t run = fh_run_claim(n, align, phase, &clean);
    if (run == FH_NONE) {
        __atomic_fetch_sub(&stall_live, n * FH_SLOT_SIZE, __ATOMIC_RELAXED);
    } else {
        __atomic_fetch_add(&stall_slots, n, __ATOMIC_RELAXED);
    }
    return run;
}

static size_t claim(size_t n, size_t align) {
    return claim_at(n, align, 0);
}

typedef bool extend_fn(size_t slot, size_t n, bool *clean);

static bool extend_by(extend_fn *how, size_t slot, size_t n) {
    bool clean;
    __atomic_fetch_add(&stall_live, n * FH_SLOT_SIZE, __ATOMIC_RELAXED);
    if (!how(slot, n, &clean)) {
        __atomic_fetch_sub(&stall_live, n * FH_SLOT_SIZE, __ATOMIC_RELAXED);
        return false;
    }
    __atomic_fetch_add(&stall_slots, n, __ATOMIC_RELAXED);
    return true;
}

static bool extend(size_t slot, size_t n) {
    return extend_by(fh_run_extend, slot, n);
}

static void release(size_t slot, size_t n) {
    __atomic_fetch_sub(&stall_slots, n, __ATOMIC_RELAXED);
    fh_run_release(slot, n, true);
    __atomic_fetch_sub(&stall_live, n * FH_SLOT_SIZE, __ATOMIC_RELAXED);
}

/* The oldest of the hand. */
static void give(hand *h, unsigned c, unsigned n) {
    stall_size = fh_class_size(c);
    fh_slab_give(c, n, h->block);
    h->count -= n;
    memmove(h->block, h->block + n, h->count * sizeof h->block[0]);
    __atomic_fetch_sub(&stall_live, n * fh_class_size(c), __ATOMIC_RELAXED);
}

static void begin(void) {
    CHECK(fh_window_start(), "no window");
}

#define X 112u /* 64 KiB: a slab has eight blocks */
#define Y 111u
#define Z 64u /* 1 KiB: 64 blocks a slot */

static hand rest, mine, yours;

static void first_call(void) {
    drop(get(100), 100);
}

static void slab_with_two_owners(void) {
    begin();
    take(&rest, X, 8);
    take(&mine, X, 4);
    take(&yours, X, 4);
    give(&rest, X, 1);
}
static void give_mine(void) {
    give(&mine, X, mine.count);
}
static void give_yours(void) {
    give(&yours, X, yours.count);
}
static void take_and_give_one(void) {
    take(&yours, X, 1);
    give(&yours, X, 1);
}
static void take_more_than_there_is(void) {
    take(&yours, X, 8);
}
static void take_two(void) {
    take(&mine, X, 2);
}

/* The slab at hand goes and comes back as another class. */
static void slab_of_another_class(void) {
    begin();
    take(&rest, X, 8);
    take(&yours, X, 8);
    give(&rest, X, 1);
}
static void change_class(void) {
    give(&yours, X, 8);
    take(&yours, Y, 2);
    give(&yours, Y, 1);
}
static void change_class_all_free(void) {
    change_class();
    give(&yours, Y, 1);
}
static void take_one(void) {
    take(&mine, X, 1);
}

/* All of a slab comes back, but for blocks never handed out that somebody takes. */
static void half_a_slab(void) {
    begin();
    take(&rest, X, 8);
    take(&mine, X, 4);
    give(&rest, X, 7);
}

static void counted_blocks(void) {
    begin();
    take(&mine, Z, 64); /* a whole slab, and no mark leads to it */
}
static void give_counted_take_many(void) {
    give(&mine, Z, 2);
    take(&mine, Z, 3); /* it has two: its mark goes, and what was counted */
    give(&mine, Z, 60);
}
static void take_and_give_counted(void) {
    take(&yours, Z, 3);
    give(&yours, Z, 3);
}

/* Threads near two processors, with a slab each, and a third that looks for one. */
static void near_another(void) {
    begin();
    hand *const hands[] = {&rest, &mine, &yours};
    for (unsigned i = 0; i < 3; i++) {
        stall_near = i;
        take(hands[i], Z, 100);
    }
    stall_near = 0;
}
static void look_near_the_third(void) {
    for (unsigned near = 3; near > 0; near--) {
        stall_near = near;
        take(&mine, Z, 70);
        give(&mine, Z, 70);
    }
}
static void take_and_give_many(void) {
    take(&yours, Z, 100);
    give(&yours, Z, 100);
}

/* A hole that is long enough, and not where it should begin. */
static void hole_at_one(void) {
    begin();
    static const unsigned lengths[] = {1, 4, 56, 3};
    for (size_t i = 0, at = 0; i < 4; at += lengths[i++]) {
        size_t run = claim(lengths[i], 1);
        CHECK(run == at, "a run at %zu, not at %zu", run, at);
    }
    release(1, 4);
}
static void claim_aligned(void) {
    size_t run = claim(4, 4);
    CHECK(run % 4 == 0, "a run at %zu", run);
    release(run, 4);
}

static size_t my_run, your_run;

static void runs(void) {
    begin();
    my_run = claim(4, 1);
    your_run = claim(2, 1);
    CHECK(my_run != FH_NONE && your_run != FH_NONE, "no run");
}
static void release_and_purge(void) {
    release(my_run, 4);
    fh_idle_purge_to(0);
}
static void claim_a_run(void) {
    release(your_run, 2);
    your_run = claim(6, 2);
    CHECK(your_run != FH_NONE, "no run");
    fh_idle_purge_to(0);
}
static void extend_a_run(void) {
    if (extend(my_run + 6, 3)) release(my_run + 6, 3);
    size_t run = claim(8, 8);
    release(run, 8);
}

static void full_depot(void) {
    begin();
    fh_magazine *empty, *full = fh_magazine_new(6);
    CHECK(full && fh_depot_put(Z, 0, full, &empty), "depot");
}
static void exchange(void) {
    fh_magazine *empty = NULL, *m = fh_depot_get(Z, 0, NULL);
    if (m) {
        m->count = 0;
        if (!fh_depot_put(Z, 0, m, &empty)) fh_magazine_delete(m);
        if (empty) fh_magazine_delete(empty);
    }
    fh_depot_empty(Z);
}

/* All that was put in near one CPU is got near another one, and made up for. */
static void full_depots(void) {
    for (unsigned i = 0; i < 2 * FH_AWAY_LEAST; i++) full_depot();
}
static void get_from_afar(void) {
    for (fh_magazine *m; (m = fh_depot_get(Z, 1, NULL)) != NULL;) {
        m->count = 0;
        fh_magazine_delete(m);
    }
    fh_magazine *empty, *full = fh_magazine_new(6);
    CHECK(full && fh_depot_put(Z, 1, full, &empty), "depot");
    (void)fh_depot_lacks(Z, 0, 6);
    fh_depot_empty(Z);
}
static void empty_depot(void) {
    full_depot();
    fh_depot_empty(Z);
}

/* ── Over several chunks ─────────────────────────────────────────────────────────────────────────────────────────── */

/* Four chunks, of which all but the first 40 slots and the last 24 are free. */
static void free_over_borders(void) {
    begin();
    size_t all = claim(4 * FH_CHUNK_SLOTS, 1);
    CHECK(all == 0, "a run at %zu", all);
    release(40, 4 * FH_CHUNK_SLOTS - 64);
}
static void claim_and_release(size_t n) {
    size_t run = claim(n, 1);
    CHECK(run != FH_NONE, "no run");
    release(run, n);
}
/* Two of these fit into what is free. */
static void claim_over_one_border(void) {
    claim_and_release(90);
}
/* And of these one does. */
static void claim_over_two_borders(void) {
    claim_and_release(130);
}
static void claim_and_keep(void) {
    CHECK((your_run = claim(100, 1)) != FH_NONE, "no run");
}
static void claim_in_phase(void) {
    size_t run = claim_at(100, 32, 9);
    CHECK(run != FH_NONE && run % 32 == 9, "a run at %zu", run);
    release(run, 100);
    CHECK((run = claim(70, 128)) % 128 == 0, "a run at %zu", run);
    release(run, 70);
}
static void extend_over_borders(void) {
    if (extend(40, 100)) release(40, 100);
    if (extend(40, 160)) release(40, 160);
}
/* Just behind the run that is extended, then further on, then all of it. */
static void claim_behind(void) {
    size_t run = claim(10, 1), second = claim(80, 1);
    CHECK(run != FH_NONE && second != FH_NONE, "no run");
    release(run, 10);
    release(second, 80);
    claim_and_release(190);
}

/* What is free there has memory. */
static void release_long_and_purge(void) {
    size_t run = claim(150, 1);
    CHECK(run != FH_NONE, "no run");
    release(run, 150);
    fh_idle_purge_to(0);
}
static void claim_long(void) {
    claim_and_release(150);
    claim_and_keep();
}

#define RUN_AT_END ((size_t)2 * FH_CHUNK_SLOTS)

/* Several chunks at once, where there are none. */
static void bring_chunks(void) {
    drop(get(20 << 20), 20 << 20);
}
/* A run that ends with the heap grows by a chunk and more. */
static size_t last_run;
static void run_at_the_end(void) {
    first_call();
    CHECK((last_run = claim(RUN_AT_END, FH_CHUNK_SLOTS)) != FH_NONE, "no run");
}
static void extend_at_the_end(void) {
    size_t end = last_run + RUN_AT_END;
    if (extend_by(fh_run_extend_bringing, end, 100)) release(end, 100);
}
/* Two chunks behind the run were dropped, and behind them is another. */
static void hole_behind_a_run(void) {
    run_at_the_end();
    size_t hole = claim(RUN_AT_END, FH_CHUNK_SLOTS), last = claim(FH_CHUNK_SLOTS, FH_CHUNK_SLOTS);
    CHECK(hole == last_run + RUN_AT_END && last == hole + RUN_AT_END, "a hole at %zu", hole);
    release(hole, RUN_AT_END);
    CHECK(fh_run_drop_free_chunks() > 0 && fh_window_is_lost(hole / FH_CHUNK_SLOTS), "nothing was dropped");
}
static void claim_into_the_hole(void) {
    claim_and_release(RUN_AT_END);
}
/* Once in vain, unless the other has brought a chunk. */
static void claim_into_the_hole_at_last(void) {
    stall_faults = STALL_CHUNK;
    size_t run = claim(FH_CHUNK_SLOTS, FH_CHUNK_SLOTS);
    if (run != FH_NONE) release(run, FH_CHUNK_SLOTS);
    stall_faults = 0;
    claim_into_the_hole();
}
/* The first gets no memory for them, and the second one has others by then, or not yet. */
static void bring_chunks_in_vain(void) {
    stall_faults = STALL_CHUNK;
    CHECK(claim(5 * FH_CHUNK_SLOTS, 1) == FH_NONE, "memory from nowhere");
    size_t run = claim(FH_CHUNK_SLOTS,
                       FH_CHUNK_SLOTS); /* one of those that are lost now, in vain again; or what the other has left */
    if (run != FH_NONE) release(run, FH_CHUNK_SLOTS);
    stall_faults = 0;
    for (unsigned i = 0; i < 8; i++) claim_and_release(FH_CHUNK_SLOTS);
}
static void bring_chunks_and_keep(void) {
    CHECK(get(9 << 20), "no memory");
}

/* ── Blocks that grow and move ───────────────────────────────────────────────────────────────────────────────────── */

#define GROWS_FROM ((size_t)4 << 20)
#define GROWS_TO ((size_t)9 << 20)

static char *my_block, *your_block;
static void two_blocks(void) {
    drop(get(2 * GROWS_FROM), 2 * GROWS_FROM); /* where they are had memory before */
    my_block = get(GROWS_FROM);
    your_block = get(GROWS_FROM);
    CHECK(my_block && your_block, "no memory");
}
/* Both places of it, the new one with its room. */
static void grow_mine(void) {
    stall_size = GROWS_TO;
    __atomic_fetch_add(&stall_live, GROWS_TO + GROWS_TO / 2, __ATOMIC_RELAXED);
    my_block = fh_realloc(my_block, GROWS_TO);
    CHECK(my_block && my_block[0] == 0x5A && my_block[63] == 0x5A && my_block[GROWS_FROM] == 0, "its bytes are lost");
    /* Where pages were moved to they are mapped afresh. */
    fh_free(my_block);
    fh_idle_purge_to(0);
    __atomic_fetch_sub(&stall_live, GROWS_FROM + GROWS_TO + GROWS_TO / 2, __ATOMIC_RELAXED);
}
static void replace_yours(void) {
    drop(your_block, GROWS_FROM);
    your_block = get(GROWS_FROM / 4 * 5);
    CHECK(your_block, "no memory");
}

const stall_scenario stall_meetings[] = {
    {.name = "two begin", .victim = first_call, .other = first_call},
    {.name = "two give the last", .prepare = slab_with_two_owners, .victim = give_mine, .other = give_yours},
    {.name = "give, take and give", .prepare = slab_with_two_owners, .victim = give_mine, .other = take_and_give_one},
    {.name = "take, give", .prepare = slab_with_two_owners, .victim = take_two, .other = give_yours},
    {.name = "another class", .prepare = slab_of_another_class, .victim = take_one, .other = change_class},
    {.name = "another class, free",
     .prepare = slab_of_another_class,
     .victim = take_one,
     .other = change_class_all_free},
    {.name = "failed release", .prepare = half_a_slab, .victim = give_mine, .other = take_more_than_there_is},
    {.name = "count", .prepare = counted_blocks, .victim = give_counted_take_many, .other = take_and_give_counted},
    {.name = "near", .prepare = near_another, .victim = look_near_the_third, .other = take_and_give_many},
    {.name = "purge, claim", .prepare = runs, .victim = release_and_purge, .other = claim_a_run},
    {.name = "unaligned hole", .prepare = hole_at_one, .victim = claim_aligned, .other = claim_aligned},
    {.name = "extend, claim", .prepare = runs, .victim = extend_a_run, .other = claim_a_run},
    {.name = "depot", .prepare = full_depot, .victim = exchange, .other = exchange},
    {.name = "depot, from afar", .prepare = full_depots, .victim = get_from_afar, .other = get_from_afar},
    {.name = "depot, emptied", .prepare = full_depot, .victim = exchange, .other = empty_depot},
    {.name = "one border", .prepare = free_over_borders, .victim = claim_over_one_border, .other = claim_and_keep},
    {.name = "two borders", .prepare = free_over_borders, .victim = claim_over_two_borders, .other = claim_and_keep},
    {.name = "borders, in phase",
     .prepare = free_over_borders,
     .victim = claim_in_phase,
     .other = claim_over_one_border},
    {.name = "extend over borders", .prepare = free_over_borders, .victim = extend_over_borders, .other = claim_behind},
    {.name = "purge, claim long", .prepare = free_over_borders, .victim = release_long_and_purge, .other = claim_long},
    {.name = "bring chunks", .victim = bring_chunks, .other = bring_chunks},
    {.name = "extend at the end", .prepare = run_at_the_end, .victim = extend_at_the_end, .other = bring_chunks},
    {.name = "extend into a hole",
     .prepare = hole_behind_a_run,
     .victim = extend_at_the_end,
     .other = claim_into_the_hole},
    {.name = "claim in a hole",
     .prepare = hole_behind_a_run,
     .victim = claim_into_the_hole_at_last,
     .other = extend_at_the_end},
    {.name = "bring chunks in vain",
     .prepare = first_call,
     .victim = bring_chunks_in_vain,
     .other = bring_chunks_and_keep},
    {.name = "move, claim", .prepare = two_blocks, .victim = grow_mine, .other = replace_yours},
};
const size_t stall_meeting_count = sizeof stall_meetings / sizeof stall_meetings[0];
