#include "cache/thread.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/hooks.h"
#include "base/tuning.h"
#include "cache/cache.h"
#include "cache/magazine.h"
#include "cache/observed.h"
#include "cache/shrink.h"
#include "cache/twice.h"
#include "store/slab.h"
#include "store/window.h"
#include "system/system.h"

/* A bin whose magazine is full and empty at once, and FH_BINS of them. */
#define B                                                                                                              \
    { (void **)&fh_empty_magazine[1], (void **)&fh_empty_magazine[1] }
#define B4 B, B, B, B
#define B16 B4, B4, B4, B4
#define B128 B16, B16, B16, B16, B16, B16, B16, B16
#define BINS B128, B16, B16, B16, B
_Static_assert(FH_BINS == 128 + 3 * 16 + 1, "as many as there are bins");

/* Neither looks for a block that is free already: it has none. */
#define NO_CACHE                                                                                                       \
    { .ticket = FH_NO_TICKET, .head.unwatched_slots = 1 }
const fh_thread fh_thread_none = NO_CACHE, fh_thread_over = NO_CACHE;

const fh_row fh_no_row = {.bin = {BINS}};
#define no_bins fh_no_row.bin

__thread fh_bin *fh_self_bins __attribute__((tls_model("initial-exec"))) = (fh_bin *)no_bins;
__thread fh_bin *fh_self_release_bins __attribute__((tls_model("initial-exec"))) = (fh_bin *)no_bins;
__thread fh_thread_state fh_here
    __attribute__((tls_model("initial-exec"))) = {.thread = (fh_thread *)&fh_thread_none, .bytes_until_sample = -1};
fh_word fh_observing;

/* Number of forks behind this process, in its own line of ancestors. A cache of an older generation belongs to
 * a thread that does not exist here: all but the one that forked, which renews its own. */
static fh_word generation;
static fh_word orphans; /* 1: the child has not yet flushed what the other threads had */
static fh_word threads_made;

/* What threads that are no more have counted, so that the sums never shrink. Relaxed: figures. */
fh_word fh_threads_gone[FH_THREAD_COUNTS];

static void keep_counts(const fh_thread *t) {
    const uint64_t counts[FH_THREAD_COUNTS] = {t->refills, t->flushes, t->from_depot, t->to_depot};
    for (unsigned i = 0; i < FH_THREAD_COUNTS; i++) fh_add_relaxed(&fh_threads_gone[i], counts[i]);
}

/* Caches that threads parked when they ended, for threads to come: fh_thread* or 0. See the end of this file. */
static fh_word parked[FH_SHARDS];

/* ── Fork ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Runs in the child, in the thread that forked, the only one there is. The work itself waits for the first slow path, as
 * most children call exec at once. */
static void after_fork_in_child(void) {
    fh_store(&generation, fh_load(&generation) + 1);
    fh_thread *t = fh_own();
    if (t != &fh_thread_none && t != &fh_thread_over) {
        fh_store(&t->generation, fh_load(&generation));
        t->interval = 0; /* or the child's generator would continue as the parent's does */
        t->ticket = FH_NO_TICKET;
    }
    /* Parked caches are found with the other orphans, because they are of an older generation. Here no thread may get one
     * too. */
    for (unsigned i = 0; i < FH_SHARDS; i++) fh_store(&parked[i], 0);
    fh_store_release(&orphans, 1);
    fh_window_mend();
    fh_hook_forked(t);
    fh_hook_participants_forked();
}

/* Flushes everything that t has to the store. */
static void flush_all(fh_thread *t) {
    for (unsigned c = 1; c < FH_BINS; c++) fh_bin_empty(t, c);
}

/* The same, and t itself. The caller has made it DEAD. */
static void dissolve(fh_thread *t) {
    FH_ASSERT_COSTLY(fh_load(&t->state) == FH_THREAD_DEAD);
    flush_all(t);
    FH_ASSERT(t->budget_used == 0);
    keep_counts(t);
    fh_contraction_count(t->flushed);
    void *p = t;
    fh_slab_give(FH_CLASS_THREAD, 1, &p);
}

/* Flushes the cache of a thread that did not survive the fork. One that was inside a slow path at that moment may have
 * a magazine half way to somewhere. It is left alone, which is a leak of at most FH_THREAD_BYTES
 * and FH_THREAD_BULKY_BYTES, and never a block twice. */
static void adopt(fh_thread *t, uint64_t state) {
    /* acq_rel: of two threads of the child that come here, one gets it. */
    if (fh_cas_acq_rel(&t->state, &state, FH_THREAD_DEAD)) dissolve(t);
}

/* Walks all caches there are: the slabs of their class. */
static void adopt_orphans(void) {
    uint64_t now = fh_load(&generation), state;
    for (size_t slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE; slot++) {
        if (fh_state_kind(state) != FH_CLASS_THREAD) continue;
        for (unsigned i = 0; i < fh_state_bump(state); i++) {
            fh_thread *t = (fh_thread *)(fh_slot_address(slot) + i * fh_class_size(FH_CLASS_THREAD));
            /* acquire: the generation that was written before. Without it a thread of this process that begins at this moment
             * could be taken for what its memory was before, and lose its cache. */
            uint64_t life = fh_load_acquire(&t->state);
            bool whole = life == FH_THREAD_LIVE || life == FH_THREAD_PARKED;
            if (whole && fh_load(&t->generation) < now) adopt(t, life);
        }
    }
}

void fh_process_start(void) {
    fh_system_at_fork(after_fork_in_child);
}

/* ── A thread's cache ────────────────────────────────────────────────────────────────────────────────────────────── */

static void thread_exit(void *value);

/* Each call of the thread whose cache is t is to take the slow half. */
static bool has_no_bins(const fh_thread *t) {
    return fh_load(&fh_observing) & (FH_MODE_CHECK | FH_MODES_UNOBSERVED) || t->scope;
}

/* The calling thread's cache is t from now on, and these are the bins that malloc and free see. A signal handler may come at
 * each step and allocate. Bins that are empty and full are always good while there are no bytes until a sample, so these
 * go first and come last. */
static void switch_to(const fh_thread *t, const fh_bin *bins) {
    FH_ASSERT(bins == no_bins ? t == &fh_thread_over || has_no_bins(t) : bins == t->bin || bins == t->decoy);
    fh_here.bytes_until_sample = -1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    fh_self_bins = fh_self_release_bins = (fh_bin *)no_bins;
    if (fh_hook_bins_change) fh_hook_bins_change();
    fh_here.thread = (fh_thread *)t;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    fh_self_bins = (fh_bin *)bins;
    fh_self_release_bins = (fh_bin *)(bins == t->decoy ? t->bin : bins);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (bins == t->decoy) fh_here.bytes_until_sample = INT64_MAX;
}

/* It usually is empty, and then its page is not written. */
static void empty_rack(fh_rack *r) {
    if (r->loaded || r->previous || r->limit || r->used || r->unused_ticks || r->most) *r = (fh_rack){0};
}

/* A cache with nothing in it; NULL when there is no memory. */
static fh_thread *make_empty(void) {
    void *p;
    if (!fh_window_start() || !fh_slab_take(FH_CLASS_THREAD, 1, &p)) return NULL;
    fh_thread *t = p;
    for (unsigned c = 0; c < FH_BINS; c++) {
        fh_bin_reset(&t->bin[c]);
        empty_rack(&t->rack[c]);
    }
    t->budget_used = t->bulky_used = 0;
    t->flushed = 0;
    t->refills = t->flushes = t->from_depot = t->to_depot = 0;
    t->head.watched_slots = 0;
    t->young = FH_YOUNG_FREES;
    t->left_behind = 0;
    if (t->handed_over) t->handed_over = 0; /* beside the racks */
    fh_twice_set(t);
    return t;
}

static fh_thread *unpark(unsigned shard);

static fh_thread *make(void) {
    fh_thread *t = NULL;
    for (unsigned i = 0, near = fh_system_cpu_hint(); !t && i < FH_SHARDS; i++) t = unpark((near + i) % FH_SHARDS);
    FH_ASSERT_COSTLY(!t || fh_load(&t->state) == FH_THREAD_PARKED);
    if (!t) t = make_empty();
    if (!t) return NULL;
    /* Relaxed, as is all of it: the release of `state` comes after. */
    fh_store(&t->generation, fh_load(&generation));
    t->number = (uint32_t)fh_add_relaxed(&threads_made, 1);
    t->ticks = t->next_idle = 0;
    t->interval = t->block_weight = t->polls = 0;
    t->participant = NULL;
    /* Rarely anything else, and then their page is not written. */
    const fh_deferring *d = &t->deferring;
    if (d->slots || d->top || d->end || d->room || d->given) t->deferring = (fh_deferring){0};
    if (t->scope) t->scope = NULL;
    t->ticket = FH_NO_TICKET;
    fh_store_release(&t->state, FH_THREAD_BUSY);
    fh_thread_observe(t, false);
    /* This may call malloc: from here on that works. If the OS has no such service left, what the thread has cached
     * when it ends stays where it is. */
    (void)fh_system_at_thread_exit(thread_exit, t);
    return t;
}

static void take_bins(fh_thread *t) {
    t->block_weight = 0;
    switch_to(t, no_bins);
}

void fh_thread_take_bins(uint64_t mode) {
    fh_or_relaxed(&fh_observing, mode);
    fh_thread *t = fh_own();
    if (t != &fh_thread_none && t != &fh_thread_over) take_bins(t);
}

void fh_thread_observe_all(void) {
    if (!fh_is_checking() && !fh_is_hardened()) fh_or_relaxed(&fh_observing, FH_MODE_OBSERVE);
}

bool fh_thread_check_all(void) {
    if (fh_is_observing() || fh_system_threads() > 1) return false;
    fh_or_relaxed(&fh_observing, FH_MODE_CHECK);
    fh_thread *t = fh_own();
    if (t != &fh_thread_none && t != &fh_thread_over) take_bins(t);
    return true;
}

void fh_thread_scope(fh_thread *t) {
    if (t->scope) fh_or_relaxed(&fh_observing, FH_MODE_SCOPE);
    t->interval = 0; /* not known any more: once out of scopes, the next slow path draws again */
    fh_thread_observe(t, false);
}

void fh_thread_observe(fh_thread *t, bool on) {
    if (!on || t->scope || (fh_load(&fh_observing) & FH_MODES_UNOBSERVED)) {
        t->block_weight = 0;
        switch_to(t, FH_UNLIKELY(has_no_bins(t)) ? no_bins : t->bin);
        return;
    }
    FH_ASSERT(!fh_is_checking());
    for (unsigned c = 0; c < FH_BINS; c++) fh_bin_reset(&t->decoy[c]);
    t->decoy_head = t->head;
    switch_to(t, t->decoy);
}

/* BUSY before a slow path begins: the last one never ended. A signal handler may have jumped out of it, or is in the middle of
 * it; either way what is found is whole except for the sums (cache/magazine.c). */
static void look_after(fh_thread *t) {
    if (FH_UNLIKELY(fh_load(&t->state) == FH_THREAD_BUSY)) fh_cache_recount(t);
}

fh_thread *fh_thread_enter(void) {
    fh_thread *t = fh_own();
    if (FH_UNLIKELY(t == &fh_thread_none)) {
        fh_hook_start();
        /* Reading the options may have allocated. */
        t = fh_own() == &fh_thread_none ? make() : fh_own();
    } else if (t == &fh_thread_over) {
        t = NULL;
    } else {
        look_after(t);
    }
    if (t) fh_store(&t->state, FH_THREAD_BUSY);
    if (FH_UNLIKELY(fh_load(&orphans)) && fh_swap_acq_rel(&orphans, 0)) adopt_orphans();
    uint64_t modes = fh_load(&fh_observing) & (FH_MODE_OBSERVE | FH_MODES_UNOBSERVED);
    if (FH_UNLIKELY(modes) && t) {
        if (modes & FH_MODES_UNOBSERVED) {
            fh_thread_observe(t, false);
        } else {
            fh_hook_observe(t);
        }
    }
    return t;
}

void fh_thread_leave(fh_thread *t) {
    /* release: for the child of a fork, which reads it in the snapshot. */
    if (t) fh_store_release(&t->state, FH_THREAD_LIVE);
    if ((FH_CHECKED || FH_STRESS) && t) fh_hook_left(t);
}

void fh_cache_flush_parked(void) {
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        fh_thread *left = unpark(i);
        if (!left) continue;
        fh_store(&left->state, FH_THREAD_DEAD);
        dissolve(left);
    }
}

void fh_cache_flush(void) {
    fh_cache_flush_parked();
    fh_thread *t = fh_own();
    if (t == &fh_thread_none || t == &fh_thread_over) return;
    fh_store(&t->state, FH_THREAD_BUSY);
    flush_all(t);
    fh_thread_leave(t);
}

bool fh_cache_has_blocks(void) {
    const fh_thread *t = fh_own();
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        if (fh_load(&parked[i])) return true;
    }
    for (unsigned c = 1; c < FH_BINS; c++) {
        const fh_magazine *previous = t->rack[c].previous;
        if (fh_bin_peek(&t->bin[c]) || (previous && previous->count)) return true;
    }
    return false;
}

/* ── Parked caches ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* A program may start a thread for each request. Each would empty its bins into the slabs and the next one fill them again,
 * 150,000 instructions for some hundred blocks. So a thread that ends parks its cache, with what is small in it, for one that
 * begins later, best near the same CPU. At most FH_SHARDS of them are parked.
 *
 *     BUSY ──(the thread ends)──▶ PARKED ──(swapped out of parked[], by one thread)──▶ BUSY, or DEAD and dissolved
 *
 * acq_rel on the exchange: the thread that gets the cache sees all that its last owner wrote into it. Progress: wait-free. */

static fh_thread *unpark(unsigned shard) {
    if (!fh_load(&parked[shard])) return NULL;
    return (fh_thread *)(uintptr_t)fh_swap_acq_rel(&parked[shard], 0);
}

/* Bytes of blocks that t has of class c, and of the magazines that they are in. */
static size_t bytes_cached(const fh_thread *t, unsigned c) {
    const fh_rack *rack = &t->rack[c];
    const fh_magazine *loaded = rack->loaded, *previous = rack->previous;
    FH_ASSERT(!loaded || loaded != previous);
    size_t blocks = (loaded ? (size_t)(t->bin[c].top - loaded->block) : 0) + (previous ? previous->count : 0);
    size_t places = (loaded ? loaded->capacity : 0) + (previous ? previous->capacity : 0);
    return blocks * fh_class_size(c) + places * sizeof(void *);
}

/* Looks for blocks that are in a magazine twice, before another thread gets it. */
static void look_through(fh_thread *t, unsigned c) {
    fh_magazine *loaded = t->rack[c].loaded, *previous = t->rack[c].previous;
    if (loaded) {
        size_t n = (size_t)(t->bin[c].top - loaded->block);
        t->bin[c].top = loaded->block + fh_twice_look(t, c, loaded->block, n);
    }
    if (previous) previous->count = (uint32_t)fh_twice_look(t, c, previous->block, previous->count);
}

/* A thread that ends is a check of each bin, as is a tick of a thread that lives on (cache/magazine.c). What some lives could do
 * without slow paths is more than the next one needs. Without it a parked cache is as large as the most that any life has
 * wanted, of each class. To empty such a bin, as a tick does, costs the next life three refills until it has its size again. */
static void fade(fh_thread *t, unsigned c) {
    if (fh_bin_is_unused(&t->rack[c], FH_BIN_LIVES_UNUSED)) fh_bin_halve(t, c);
}

/* Flushes what exceeds FH_PARKED_BYTES; the small classes stay. False: nothing is left. */
static bool lighten(fh_thread *t) {
    size_t kept = 0;
    bool look = fh_twice_is_due(t->left_behind++);
    for (unsigned c = 1; c < FH_BINS; c++) {
        if (!t->rack[c].limit) continue;
        fade(t, c);
        size_t bytes = bytes_cached(t, c);
        if (kept + bytes > FH_PARKED_BYTES) {
            fh_bin_empty(t, c);
        } else {
            kept += bytes;
            if (look) look_through(t, c);
        }
    }
    FH_ASSERT(kept <= FH_PARKED_BYTES);
    return kept != 0;
}

/* Parks t in a free place, or else in the place of one that is parked near here, and returns that one. */
static fh_thread *park(fh_thread *t) {
    FH_ASSERT_COSTLY(fh_load(&t->state) == FH_THREAD_PARKED);
    uint64_t word = (uint64_t)(uintptr_t)t;
    unsigned near = fh_system_cpu_hint();
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        uint64_t none = 0;
        fh_word *place = &parked[(near + i) % FH_SHARDS];
        if (!fh_load(place) && fh_cas_acq_rel(place, &none, word)) return NULL;
    }
    return (fh_thread *)(uintptr_t)fh_swap_acq_rel(&parked[near % FH_SHARDS], word);
}

const fh_thread *fh_thread_parked(unsigned shard) {
    return (const fh_thread *)(uintptr_t)fh_load_acquire(&parked[shard]);
}

uint64_t fh_thread_generation(void) {
    return fh_load(&generation);
}

static void leave_behind(fh_thread *t) {
    fh_thread *before = t;
    FH_ASSERT(t != fh_own());
    if (!fh_is_contracting() && lighten(t)) {
        /* release: for the child of a fork, as in fh_thread_leave. */
        fh_store_release(&t->state, FH_THREAD_PARKED);
        before = park(t);
        if (!before) return;
    }
    fh_store(&before->state, FH_THREAD_DEAD);
    dissolve(before);
}

/* At the end of a thread. Destructors that run after this one allocate and free block by block, straight in the store, so
 * nothing of theirs is left behind. */
static void thread_exit(void *value) {
    fh_thread *t = fh_own();
    if (t != value) return;
    FH_ASSERT(t != &fh_thread_none && t != &fh_thread_over);
    fh_hook_participant_ends();
    fh_hook_thread_ends(t);
    look_after(t);
    fh_store(&t->state, FH_THREAD_BUSY);
    switch_to(&fh_thread_over, no_bins);
    fh_hook_ticket_ends(t);
    keep_counts(t);
    t->refills = t->flushes = t->from_depot = t->to_depot = 0;
    leave_behind(t);
    fh_thread_safe_point(FH_AFTER_FREE);
}
