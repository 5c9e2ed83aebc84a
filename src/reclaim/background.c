#include "reclaim/background.h"

#include "base/assert.h"
#include "base/settings.h"
#include "cache/cache.h"
#include "cache/observed.h"
#include "reclaim/budget.h"
#include "reclaim/idle.h"
#include "reclaim/trim.h"
#include "system/system.h"

fh_word fh_background;

/* Wakes the thread if it sleeps and that is worth it. */
static void nudge(void) {
    /* The memory that was freed before the word is read; see the header. */
    fh_fence_after_rmw();
    uint64_t seen = fh_load(&fh_background);
    if (seen != FH_BACKGROUND_ASLEEP || !fh_background_is_worth(fh_dirty_bytes())) return;
    /* Relaxed: the thread reads nothing but counters because of it. */
    if (fh_cas_relaxed(&fh_background, &seen, FH_BACKGROUND_AWAKE)) fh_system_wake(&fh_background);
}

void fh_background_configure(void) {
    bool wanted;
    do { /* as in fh_idle_configure */
        wanted = FH_SETTING(purge) == FH_PURGE_BACKGROUND;
        if (wanted) {
            fh_or_acq_rel(&fh_order.watch, FH_WATCH_BACKGROUND);
        } else {
            fh_and_acq_rel(&fh_order.watch, ~FH_WATCH_BACKGROUND);
        }
    } while ((FH_SETTING(purge) == FH_PURGE_BACKGROUND) != wanted);
}

void fh_background_check(void) {
    uint64_t none = FH_BACKGROUND_NONE;
    bool large = fh_used_bytes() >= FH_BACKGROUND_FROM;
    if (large && fh_load(&fh_background) == none) fh_cas_relaxed(&fh_background, &none, FH_BACKGROUND_WANTED);
    if (fh_load(&fh_background) == FH_BACKGROUND_WANTED) fh_set_due(FH_DUE_THREAD);
    nudge();
}

/* Where it is started. Malloc may be called from anywhere in the C library, and starting a thread takes some of the C
 * library's own locks. So it is not started
 *   - before this library's constructor has run: the C library may not be ready. Not in that constructor either: a thread
 *     that is not wanted should not be, and the loader is at work;
 *   - from free: glibc frees what belonged to ended threads while it holds the lock of its stacks, which a new thread's
 *     stack needs too;
 *   - with anything of ours held, as a new thread's first memory comes from this allocator.
 * What is left is an allocation's slow path at its very end. musl's loader does not call malloc of others with its locks
 * held; glibc's are recursive. */
static fh_word allowed;

void fh_background_allow(void) {
    fh_store(&allowed, 1);
}

void fh_background_forked(void) {
    if (fh_load(&fh_background) != FH_BACKGROUND_OVER) fh_store(&fh_background, FH_BACKGROUND_NONE);
}

/* ── What it does ────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    uint64_t moves;        /* fh_counts.moves at the last round */
    unsigned quiet_rounds; /* in a row, at which nothing had moved */
} last_round;

/* The fewest dirty slots since this was asked last. */
static size_t lowest_bytes(void) {
    uint64_t lowest = fh_swap_acq_rel(&fh_counts.lowest_dirty, fh_load(&fh_counts.dirty_slots));
    return (size_t)lowest * FH_SLOT_SIZE;
}

/* Slots that were free for the whole time since the last round. */
static size_t purge_unused(void) {
    size_t dirty = fh_dirty_bytes(), keep = fh_background_keep(dirty, lowest_bytes());
    FH_ASSERT(keep <= dirty);
    return keep < dirty ? fh_idle_purge_unused(keep) : 0;
}

/* One round. True if there is nothing more to do until a thread frees. */
static bool go_round(last_round *m) {
    uint64_t moves = fh_load(&fh_counts.moves);
    m->quiet_rounds = moves == m->moves ? m->quiet_rounds + 1 : 0;
    size_t purged = purge_unused();
    if (m->quiet_rounds == FH_BACKGROUND_QUIET_ROUNDS) {
        fh_cache_flush(); /* this thread has no cache; it is for those that ended threads have left */
        fh_trim_caches();
        purged += fh_trim_inside() + fh_idle_purge_unused(0);
    }
    m->moves = fh_load(&fh_counts.moves);
    return m->quiet_rounds >= FH_BACKGROUND_QUIET_ROUNDS && purged == 0;
}

/* Sleeps until woken. False: the library ends. */
static bool sleep_until_wanted(void) {
    uint64_t awake = FH_BACKGROUND_AWAKE;
    size_t rest = fh_dirty_bytes();
    if (!fh_cas_acq_rel(&fh_background, &awake, FH_BACKGROUND_ASLEEP)) return false;
    fh_fence_after_rmw();
    /* The last check; see the header. What could not be purged before is no reason to stay awake. */
    size_t now = fh_dirty_bytes();
    if (now > rest && fh_background_is_worth(now - rest)) nudge();
    while (fh_load(&fh_background) == FH_BACKGROUND_ASLEEP) fh_system_wait(&fh_background, FH_BACKGROUND_ASLEEP, 0);
    return fh_load(&fh_background) == FH_BACKGROUND_AWAKE;
}

static void run(void) {
    last_round m = {0};
    while (fh_load(&fh_background) == FH_BACKGROUND_AWAKE) {
        fh_system_wait(&fh_background, FH_BACKGROUND_AWAKE, FH_BACKGROUND_PERIOD);
        if (fh_load(&fh_background) != FH_BACKGROUND_AWAKE) return;
        bool wanted = FH_SETTING(purge) == FH_PURGE_BACKGROUND;
        if (wanted && !go_round(&m)) continue;
        if (!sleep_until_wanted()) return;
        m = (last_round){0};
    }
}

/* ── Its life ────────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_background_start(void) {
    uint64_t wanted = FH_BACKGROUND_WANTED;
    /* The due bit may be from before the option changed. And what the C library allocates for a thread must not be of the heap in
     * whose scope this one is; the next check asks again. */
    if (FH_SETTING(purge) != FH_PURGE_BACKGROUND || fh_own()->scope) return;
    if (!fh_load(&allowed) || !fh_cas_acq_rel(&fh_background, &wanted, FH_BACKGROUND_AWAKE)) return;
    /* No thread to be had: the budget continues by itself, and this is not tried again. */
    if (!fh_system_thread_start(run)) fh_store(&fh_background, FH_BACKGROUND_FAILED);
}

void fh_background_end(void) {
    fh_store(&fh_background, FH_BACKGROUND_OVER);
}
