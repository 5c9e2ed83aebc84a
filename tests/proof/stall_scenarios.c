/* What the victim of stall.c does, and who comes between: together these reach every step of the shared protocols. */
#include "stall.h"

#include "cache/cache.h"
#include "reclaim/idle.h"
#include "store/events.h"
#include "store/slab_life.h"
#include "freehold/defer.h"
#include "freehold/defrag.h"
#include "freehold/freehold.h"
#include "store/depot.h"
#include "store/purge.h"
#include "store/chunk.h"
#include "store/large.h"
#include "store/run.h"
#include "store/window.h"
#include "store/slab.h"
#include "reclaim/trim.h"
#include "system/system.h"
#include "../support/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>

/* ── Time and faults ─────────────────────────────────────────────────────────────────────────────────────────────── */

static void no_more_faults(void) {
    stall_pressure = 0;
}

/* ── Blocks that are accounted for ───────────────────────────────────────────────────────────────────────────────── */

/* ── Everything once, by one thread ──────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    size_t size;
    unsigned live;
} kind;
static const kind kinds[] = {{16, 3000},    {64, 3000},   {1024, 200},  {40000, 8},   {131072, 3},
                             {1048576, 24}, {1500000, 1}, {3000000, 3}, {20000000, 2}};
#define KINDS (sizeof kinds / sizeof kinds[0])

static void *pool[3000];

static void round_of(kind k, uint64_t *seed) {
    for (unsigned i = 0; i < k.live; i++) CHECK((pool[i] = get(k.size)) != NULL, "no block of %zu", k.size);
    for (unsigned i = k.live; i > 1; i--) {
        unsigned j = (unsigned)random_below(seed, i);
        void *swap = pool[i - 1];
        pool[i - 1] = pool[j];
        pool[j] = swap;
    }
    for (unsigned i = 0; i < k.live; i++) {
        /* A few stay while the heap is trimmed, so that there are slabs with little in them. */
        if (i == k.live - k.live / 64 - 1) fh_malloc_trim(0);
        drop(pool[i], k.size);
    }
}

static void *short_lived(void *none) {
    stall_is_victim = 1;
    drop(get(100), 100);
    return none; /* and on to the end of its cache */
}

static void all_sizes(void) {
    uint64_t seed = 1;
    for (unsigned repeat = 0; repeat < 2; repeat++) {
        for (unsigned k = 0; k < KINDS; k++) round_of(kinds[k], &seed);
        stall_live += 14000000; /* what grows gets half as much again, and is in two places while it moves */
        void *p = fh_malloc(100000);
        static const size_t steps[] = {100000, 300000, 150000, 3000000, 6000000};
        for (unsigned i = 0; i < 5; i++) CHECK((p = fh_realloc(p, steps[i])) != NULL, "no %zu bytes", steps[i]);
        fh_free(p);
        stall_live -= 14000000;
        fh_free(fh_aligned_alloc(1 << 18, 1 << 18));
        fh_free(fh_calloc(1, 200000));
        fh_thread_flush();
        fh_malloc_trim(0);
        pthread_t other;
        if (pthread_create(&other, NULL, short_lived, NULL) == 0) pthread_join(other, NULL);
    }
}

/* Up and down again without a trim: magazines go into the depot and come out. Then only down: an ebb. */
static void up_and_down(void) {
    static void *block[40000];
    for (unsigned repeat = 0; repeat < 3; repeat++) {
        unsigned n = repeat < 2 ? 3000 : 40000;
        for (unsigned i = 0; i < n; i++) block[i] = get(256);
        for (unsigned i = 0; i < n; i++) drop(block[i], 256);
    }
}

/* ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void *reserve_block;

static void asked_to_free(size_t in_use, size_t limit) {
    (void)in_use, (void)limit;
    drop(reserve_block, 500000);
    reserve_block = NULL;
}

static void meet_limits(void) {
    static void *block[200];
    fh_limit_set(16 << 20, 40 << 20, asked_to_free);
    for (unsigned repeat = 0; repeat < 2; repeat++) {
        reserve_block = get(500000);
        unsigned n = 0;
        while (n < 200 && (block[n] = get(1000000)) != NULL) n++;
        CHECK(n < 200, "the limit refuses nothing");
        void *small = get(5000), *huge = get(3000000);
        if (small) drop(small, 5000);
        CHECK(!huge && !get(50 << 20), "a huge block beyond the limit");
        for (unsigned i = 0; i < n; i++) drop(block[i], 1000000);
        stall_live += 6000000;
        void *p = fh_malloc(3000000);
        p = fh_realloc(p, 6000000);
        fh_free(p);
        fh_free(fh_calloc(1, 100000));
        p = fh_malloc(1200000);
        p = fh_realloc(p, 1300000);
        fh_free(p);
        stall_live -= 6000000;
        drop(reserve_block, 500000);
    }
    fh_limit_set(0, 0, NULL);
}

/* The others live under a limit as well, but not that one. */
static void another_limit(void) {
    fh_limit_set(0, (size_t)8 << 30, NULL);
}

/* ── A system that refuses ───────────────────────────────────────────────────────────────────────────────────────── */

static void refused_chunks(void) {
    static void *block[64];
    fh_option_set("on_oom", "silent");
    void *first = get(1000);
    for (unsigned repeat = 0; repeat < 2; repeat++) {
        unsigned n = 0;
        stall_faults = STALL_CHUNK | STALL_MAP;
        while (n < 64 && (block[n] = get(900000)) != NULL) n++;
        CHECK(n < 64, "no refusal is noticed");
        for (unsigned i = 0; i < n; i++) drop(block[i], 900000);
        stall_faults = 0;
        for (n = 0; n < 20; n++) block[n] = get(900000);
        while (n-- > 0) drop(block[n], 900000);
    }
    drop(first, 1000);
}

static void refused_window(void) {
    static const unsigned faults[] = {STALL_PLACE, STALL_CHUNK, STALL_GUARD};
    fh_option_set("on_oom", "silent");
    for (unsigned i = 0; i < 3; i++) {
        stall_faults = faults[i];
        CHECK(get(100) == NULL, "memory from nowhere");
    }
    stall_faults = 0;
    drop(get(100), 100);
}

/* A block that is in one chunk alone, all of it. */
static void *get_chunk(void) {
    __atomic_fetch_add(&stall_live, FH_CHUNK_SIZE, __ATOMIC_RELAXED);
    stall_size = FH_CHUNK_SIZE;
    void *p = fh_aligned_alloc(FH_CHUNK_SIZE, FH_CHUNK_SIZE);
    CHECK(p != NULL, "no memory");
    return p;
}

/* A foreign mapping is in the way of new chunks, and then of one that was to be tried again. */
static void foreign_chunks(void) {
    static void *block[4];
    drop(get(100), 100);
    stall_foreign = fh_slot_address((fh_window_chunks() + 2) * FH_CHUNK_SLOTS);
    stall_faults = STALL_FOREIGN;
    block[0] = get(20 << 20);
    stall_foreign -= FH_CHUNK_SIZE;
    for (unsigned i = 1; i < 4; i++) block[i] = get_chunk();
    stall_faults = 0;
    for (unsigned i = 1; i < 4; i++) drop(block[i], 4 << 20);
    drop(block[0], 20 << 20);
}

/* Takes the slot behind a large block, so that it cannot grow where it is. */
static void block_behind(void *p, size_t *taken) {
    size_t size, slots, slot = fh_slot_of(p);
    bool clean;
    CHECK(fh_large_in(slot, &size, &slots) == p, "no large block");
    if (fh_run_extend(slot + slots, 1, &clean)) *taken = slot + slots;
}

static void refused_moves(void) {
    /* What is refused is reported, for once to nobody. */
    int errors = dup(2), nowhere = open("/dev/null", O_WRONLY);
    if (!getenv("STALL_LOUD")) dup2(nowhere, 2);
    fh_option_set("on_oom", "report");
    /* Chunks that are free then, and given up when a mapping is refused. */
    static void *block[32];
    for (unsigned i = 0; i < 32; i++) block[i] = get(900000);
    for (unsigned i = 0; i < 32; i++) drop(block[i], 900000);
    /* What grows gets half as much again as it asked for, once in a place that is lost then. */
    stall_live += 135000000;
    void *p = fh_malloc(4000000);
    size_t behind[4] = {0};
    CHECK(p != NULL, "no memory");
    block_behind(p, &behind[3]);
    stall_faults = STALL_CHUNK | STALL_MAP;
    CHECK(fh_realloc(p, 40000000) == NULL, "moved after all");
    CHECK(fh_malloc(30000000) == NULL, "mapped after all");
    /* The pages are moved; the bytes are copied; they are copied to another place than the one that is lost. */
    static const struct {
        unsigned faults;
        size_t size;
    } steps[] = {{0, 8000000}, {STALL_MOVE, 20000000}, {STALL_LOSE, 40000000}};
    for (unsigned i = 0; i < 3; i++) {
        stall_faults = steps[i].faults;
        void *q = fh_realloc(p, steps[i].size);
        CHECK(q != NULL && q != p, "not moved");
        p = q;
        block_behind(p, &behind[i]);
    }
    stall_faults = 0;
    fh_free(p);
    for (unsigned i = 0; i < 4; i++) {
        if (behind[i]) fh_run_release(behind[i], 1, true);
    }
    stall_live -= 74000000;
    /* Chunks that are dropped, and come again under another setting. */
    stall_faults = STALL_CHUNK;
    CHECK(fh_malloc(200000000) == NULL, "more after all");
    stall_faults = 0;
    dup2(errors, 2);
    fh_option_set("thp", "never");
    for (unsigned i = 0; i < 32; i++) block[i] = get(900000);
    for (unsigned i = 0; i < 32; i++) drop(block[i], 900000);
    fh_option_set("thp", "auto");
}

/* ── Time passes, memory is short ────────────────────────────────────────────────────────────────────────────────── */

static void phases(void) {
    static void *block[64];
    for (unsigned repeat = 0; repeat < 6; repeat++) {
        for (unsigned i = 0; i < 40; i++) block[i] = get(1000000);
        for (unsigned i = 0; i < 40; i++) drop(block[i], 1000000);
        if (repeat == 3) some_seconds_pass(1);
        if (repeat == 4) some_seconds_pass(5);
    }
    for (unsigned repeat = 0; repeat < 4; repeat++) {
        drop(get(30000000), 30000000);
        if (repeat == 2) some_seconds_pass(4);
    }
}

static void phases_eager(void) {
    fh_option_set("purge", "eager");
    phases();
    fh_option_set("purge", "budget");
}

static void group_is_short(void) {
    static void *block[64];
    for (unsigned percent = 92; percent < 102; percent += 7) {
        stall_pressure = percent;
        for (unsigned i = 0; i < 64; i++) {
            block[i] = get(1000000);
            /* At first a look for each share of the room, then one a second. */
            if (i >= 32) some_seconds_pass(1);
        }
        for (unsigned i = 0; i < 64; i++) drop(block[i], 1000000);
        stall_pressure = 0;
        some_seconds_pass(1);
        fh_malloc_trim(0);
        drop(get(5000000), 5000000); /* and sees that there is no such group any more */
    }
}

/* Free slots everywhere, and nowhere a piece that is worth its huge page. */
static void holes(void) {
    enum {
        BLOCKS = 1200,
        SIZE = 250000
    }; /* four slots, nearly full: what is live is what is used, whenever it stops */
    static void *block[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) block[i] = get(SIZE);
    stall_live += BLOCKS * SIZE / 2;
    for (unsigned i = 0; i < BLOCKS; i += 4) drop(block[i], SIZE);
    for (unsigned i = 2; i < BLOCKS; i += 8) drop(block[i], SIZE);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i % 4 && i % 8 != 2) drop(block[i], SIZE);
    }
    stall_live -= BLOCKS * SIZE / 2;
}

/* A heap that grows past its first chunks while huge pages come unasked and are slow, gives all of it back and grows again. */
static void slow_huge_pages(void) {
    enum { COUNT = 40000 };
    static void *block[COUNT];
    stall_faults = STALL_SLOW | STALL_ALWAYS;
    drop(get(30000000), 30000000);
    for (unsigned times = 0; times < 2; times++) {
        for (unsigned i = 0; i < COUNT; i++) block[i] = get(512);
        for (unsigned i = 0; i < COUNT; i++) drop(block[i], 512);
        fh_thread_flush();
        fh_malloc_trim(0);
    }
    stall_faults = 0;
}

/* A heap on huge pages gives all back but for a block here and there, and grows again; also where the kernel gathers no pages. */
static void grows_back(void) {
    enum { COUNT = 40000, SIZE = 512, KEPT = 3000, TIMES = 4 };
    static void *block[COUNT];
    fh_option_set("thp", "always");
    stall_live += COUNT / KEPT * 2 * FH_SLOT_SIZE; /* what the few that stay keep of their slabs */
    for (unsigned times = 0; times < TIMES; times++) {
        if (times > 1) stall_faults = STALL_APART;
        for (unsigned i = 0; i < COUNT; i++) block[i] = block[i] ? block[i] : get(SIZE);
        for (unsigned i = 0; i < COUNT; i++) {
            if (i % KEPT == 0 && times + 1 < TIMES) continue;
            drop(block[i], SIZE);
            block[i] = NULL;
        }
        fh_thread_flush();
        fh_malloc_trim(0);
    }
    stall_live -= COUNT / KEPT * 2 * FH_SLOT_SIZE;
    stall_faults = 0;
    fh_option_set("thp", "auto");
}

/* A heap that grows although nearly all of what it has is free, but for a block here and there. */
static void drift(void) {
    enum { SMALL = 80000, LARGE = 200 };
    static void *small[SMALL], *large[LARGE];
    stall_live += SMALL * 512; /* what the few that stay keep of their slabs */
    for (unsigned i = 0; i < SMALL; i++) small[i] = get(512);
    for (unsigned i = 0; i < SMALL; i++) {
        if (i % 100) drop(small[i], 512);
    }
    fh_thread_flush();
    for (unsigned i = 0; i < LARGE; i++) large[i] = get(300000);
    for (unsigned i = 0; i < LARGE; i++) drop(large[i], 300000);
    fh_malloc_trim(0);
    stall_ask_figures();
    for (unsigned i = 0; i < SMALL; i += 100) drop(small[i], 512);
    stall_live -= SMALL * 512;
}

/* Slabs of a size that nobody wants any more are let: another size comes to lie in their holes, and goes again. */
static void lodgers(void) {
    enum { SMALL = 400000, LARGE = 180000 }; /* more than the holes take */
    static void *small[SMALL], *large[LARGE];
    stall_live += SMALL * 96; /* what the few that stay keep of their slabs */
    for (unsigned i = 0; i < SMALL; i++) small[i] = get(96);
    for (unsigned i = 0; i < SMALL; i++) {
        if (i % 8) drop(small[i], 96);
    }
    fh_thread_flush();
    for (unsigned repeat = 0; repeat < 2; repeat++) {
        for (unsigned i = 0; i < LARGE; i++) large[i] = get(176);
        for (unsigned i = 0; i < LARGE; i += 64) CHECK(fh_malloc_usable_size(large[i]) >= 176, "size");
        for (unsigned i = 0; i < LARGE; i++) drop(large[i], 176);
    }
    stall_ask_figures();
    for (unsigned i = 0; i < SMALL; i += 8) drop(small[i], 96);
    fh_malloc_trim(0);
    stall_live -= SMALL * 96;
}

/* ── Figures and questions ───────────────────────────────────────────────────────────────────────────────────────── */

static void ask(void) {
    enum { BLOCKS = 2000 };
    static void *block[BLOCKS];
    for (unsigned repeat = 0; repeat < 2; repeat++) {
        for (unsigned i = 0; i < BLOCKS; i++) block[i] = get(64);
        for (unsigned i = 0; i < BLOCKS; i++) drop(block[i], 64);
    }
    char *p = get(100), *huge = get(5000000), *large = get(1500000);
    CHECK(fh_malloc_usable_size(p) >= 100, "size");
    CHECK(fh_large_around(huge + 4900000) == huge && fh_large_around(large + 700000) == large, "around");
    CHECK(!fh_slab_is_free(fh_class_at(p), p), "free");
    CHECK(fh_slab_block_of(fh_class_at(p), p + 3) == p, "block");
    CHECK(fh_large_size(huge) >= 5000000 && fh_large_size(huge) < 5004096, "large");
    (void)fh_depot_blocks(4);
    stall_ask_figures();
    drop(p, 100), drop(huge, 5000000), drop(large, 1500000);
}

/* ── Threads that end ────────────────────────────────────────────────────────────────────────────────────────────── */

enum { ENDING = 7 };
static sem_t may_end[ENDING], have_come;

static void *ends_later(void *number) {
    sem_t *mine = &may_end[(uintptr_t)number];
    drop(get(300), 300);
    sem_post(&have_come);
    while (sem_wait(mine) != 0) continue;
    stall_is_victim = 1;
    return NULL;
}

/* More threads than places for what they leave behind. */
static void ends(void) {
    static pthread_t thread[ENDING];
    sem_init(&have_come, 0, 0);
    for (uintptr_t i = 0; i < ENDING; i++) {
        sem_init(&may_end[i], 0, 0);
        CHECK(pthread_create(&thread[i], NULL, ends_later, (void *)i) == 0, "no thread");
    }
    for (unsigned i = 0; i < ENDING; i++) sem_wait(&have_come);
    for (unsigned i = 0; i < ENDING; i++) {
        sem_post(&may_end[i]);
        pthread_join(thread[i], NULL);
    }
    fh_thread_flush();
}

static void leave_in_the_callback(size_t in_use, size_t limit) {
    (void)in_use, (void)limit;
    drop(reserve_block, 500000);
    reserve_block = NULL;
    pthread_exit(NULL);
}
static void *meets_the_limit(void *unused) {
    stall_is_victim = 1;
    reserve_block = get(500000);
    drop(get(20000000), 20000000);
    return unused;
}
static void ends_in_a_callback(void) {
    pthread_t thread;
    fh_limit_set(10 << 20, 60 << 20, leave_in_the_callback);
    CHECK(pthread_create(&thread, NULL, meets_the_limit, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    fh_limit_set(0, 0, NULL);
}

/* ── Fork: a thread that is not there any more left its cache ────────────────────────────────────────────────────── */

static sem_t has_worked;

static void *left_behind(void *none) {
    static void *block[500];
    for (unsigned i = 0; i < 500; i++) block[i] = fh_malloc(16 + i);
    for (unsigned i = 0; i < 500; i++) fh_free(block[i]);
    sem_post(&has_worked);
    for (;;) pause();
    return none;
}

static void before_fork(void) {
    pthread_t thread;
    sem_init(&has_worked, 0, 0);
    fh_free(fh_malloc(50));
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&thread, NULL, left_behind, NULL) == 0, "no thread");
        sem_wait(&has_worked);
    }
}

static void after_fork(void) {
    for (unsigned i = 0; i < 10; i++) drop(get(200), 200);
}

/* ── The table ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Deferred frees by a thread that reads too, up to their bound; and a thread that ends with some of them. */
static void *defers_and_ends(void *none) {
    stall_is_victim = 1;
    CHECK(fh_reader_register("ends") && fh_defer_free(fh_malloc(64)), "not deferred");
    return none;
}

static void deferred(void) {
    pthread_t thread;
    stall_live += 8000000; /* what waits is the victim's, and stays if it is parked */
    CHECK(fh_reader_register("victim"), "no memory");
    for (unsigned i = 0; i < 1200; i++) CHECK(fh_defer_free(fh_malloc(64)), "not deferred");
    fh_quiescent();
    fh_reader_offline();
    fh_reader_online();
    fh_free(fh_defer_realloc(fh_malloc(100), 200));
    CHECK(fh_option_set("defer", "64k") == 0, "no such option");
    void *p = fh_malloc(1 << 20);
    CHECK(!fh_defer_free(p), "beyond the bound");
    fh_free(p);
    CHECK(fh_option_set("defer", "64m") == 0, "no such option");
    CHECK(fh_defer_free(fh_malloc(64)), "not deferred");
    fh_safepoint();
    CHECK(pthread_create(&thread, NULL, defers_and_ends, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    (void)fh_defer_barrier();
    (void)fh_defer_backlog();
    fh_reader_unregister();
    stall_live -= 8000000;
}

/* Blocks of thinned slabs are judged and moved. */
static void defragments(void) {
    enum { N = 3000 };
    static void *block[N];
    unsigned char worth;
    stall_live += N * 112;
    for (unsigned i = 0; i < N; i++) block[i] = fh_malloc(100);
    for (unsigned i = 0; i < N; i++) {
        if (i % 8 == 0 || i > N / 2) continue;
        fh_free(block[i]);
        block[i] = NULL;
    }
    fh_malloc_trim(0);
    for (unsigned i = 0; i < N; i++) {
        void *better = fh_defrag_worth((const void *const *)&block[i], 1, &worth) ? fh_defrag_malloc(100) : NULL;
        if (better) {
            fh_defrag_free(block[i]);
            block[i] = better;
        }
    }
    for (unsigned i = 0; i < N; i++) fh_free(block[i]);
    stall_live -= N * 112;
}

const stall_scenario stall_scenarios[] = {
    {.name = "defragments", .victim = defragments},
    {.name = "deferred", .victim = deferred},
    {.name = "all sizes", .victim = all_sizes},
    {.name = "up and down", .victim = up_and_down},
    {.name = "limits", .victim = meet_limits, .clear = another_limit},
    {.name = "no chunk", .victim = refused_chunks},
    {.name = "no window", .victim = refused_window},
    {.name = "foreign mappings", .victim = foreign_chunks},
    {.name = "no move", .victim = refused_moves},
    {.name = "phases", .victim = phases},
    {.name = "phases, eager", .victim = phases_eager},
    {.name = "a group's limit", .victim = group_is_short, .clear = no_more_faults},
    {.name = "slow huge pages", .victim = slow_huge_pages, .clear = no_more_faults},
    {.name = "grows back", .victim = grows_back, .clear = no_more_faults},
    {.name = "drift", .victim = drift},
    {.name = "lodgers", .victim = lodgers},
    {.name = "figures", .victim = ask},
    {.name = "after a fork", .prepare = before_fork, .victim = after_fork, .forks = true},
    {.name = "holes", .victim = holes},
    {.name = "ends of slabs", .victim = stall_ends_of_slabs},
    {.name = "observed", .victim = stall_observed_once},
    {.name = "observed, after a fork",
     .prepare = stall_observed_before_fork,
     .victim = stall_observed_child,
     .forks = true},
    {.name = "much is observed", .victim = stall_observed_much},
    {.name = "two observed",
     .prepare = stall_begin_to_observe,
     .victim = stall_two_observed,
     .other = stall_two_observed},
    {.name = "background", .victim = stall_background, .clear = stall_no_background, .own_thread = true},
    {.name = "no background", .victim = stall_background_without_thread, .clear = stall_no_background},
    {.name = "ends", .victim = ends},
    {.name = "heap", .prepare = stall_heap_before, .victim = stall_heap_blocks},
    {.name = "heap's stripes", .prepare = stall_stripes_before, .victim = stall_stripes},
    {.name = "heap's stripes of two", .prepare = stall_stripes_before, .victim = stall_stripes, .other = stall_stripes},
    {.name = "life of stripes", .prepare = stall_stripes_before, .victim = stall_stripes_life},
    {.name = "bounded heap", .prepare = stall_bounded_before, .victim = stall_bounded_blocks},
    {.name = "bounded heap of two",
     .prepare = stall_bounded_before,
     .victim = stall_bounded_blocks,
     .other = stall_bounded_blocks},
    {.name = "life of a bounded heap", .prepare = stall_bounded_before, .victim = stall_bounded_life},
    {.name = "type-stable large blocks", .prepare = stall_stripes_before, .victim = stall_stable_large},
    {.name = "heap of two", .prepare = stall_heap_before, .victim = stall_heap_blocks, .other = stall_heap_blocks},
    {.name = "private heap", .prepare = stall_heap_before, .victim = stall_heap_private, .other = stall_heap_blocks},
    {.name = "heap's scope", .prepare = stall_heap_before, .victim = stall_heap_scope, .other = stall_heap_blocks},
    {.name = "heap's spans", .prepare = stall_spans_before, .victim = stall_spans_blocks, .other = stall_spans_blocks},
    {.name = "life of spans", .prepare = stall_spans_before, .victim = stall_spans_life, .other = stall_spans_blocks},
    {.name = "paged heap", .prepare = stall_paged_before, .victim = stall_paged_blocks, .other = stall_paged_blocks},
    {.name = "life of pages", .prepare = stall_paged_before, .victim = stall_paged_life, .other = stall_paged_blocks},
    {.name = "heap's life", .prepare = stall_heap_before, .victim = stall_heap_life, .other = stall_heap_blocks},
    {.name = "given memory", .prepare = stall_given_before, .victim = stall_given_blocks, .other = stall_given_blocks},
    {.name = "given memory's life",
     .prepare = stall_given_before,
     .victim = stall_given_life,
     .other = stall_given_blocks},
    {.name = "types", .prepare = stall_types_before, .victim = stall_types, .other = stall_types},
    {.name = "types refused", .prepare = stall_types_before, .victim = stall_types_refused},
    {.name = "hardened", .prepare = stall_hardened_before, .victim = stall_hardened, .other = stall_hardened},
    {.name = "ends in a callback", .victim = ends_in_a_callback, .clear = another_limit},
};
const size_t stall_scenario_count = sizeof stall_scenarios / sizeof stall_scenarios[0];
