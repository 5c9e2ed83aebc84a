#include "reclaim/reclaim.h"

#include "base/assert.h"
#include "base/hooks.h"
#include "cache/observed.h"
#include "cache/thread.h"
#include "reclaim/background.h"
#include "reclaim/cold.h"
#include "reclaim/credit.h"
#include "reclaim/huge_pages.h"
#include "reclaim/idle.h"
#include "reclaim/inside.h"
#include "reclaim/limits.h"
#include "reclaim/refusal.h"
#include "reclaim/trim.h"
#include "store/run.h"
#include "store/window.h"
#include "system/system.h"

void fh_reclaim_configure(void) {
    fh_idle_configure();
    fh_huge_pages_configure();
    fh_background_configure();
}

/* The caller's due bits are its own from now on: of several threads at their safe points each takes some. */
static uint64_t take_due(fh_safe_point point) {
    uint64_t mine = point == FH_AFTER_FREE ? ~FH_DUE_ALLOCATION_ONLY : ~UINT64_C(0);
    return fh_load(&fh_due) & mine ? fh_and_relaxed(&fh_due, ~mine) & mine : 0;
}

/* Bytes that were mapped for chunks when the OS refused more last, and those that it refused. 0: it never has. */
static fh_word too_much;

/* Where the OS has refused memory the rest of the program needs some too: stacks of threads, libraries. So free chunks are
 * dropped while the heap is more than half of what it could not be. */
static void drop_where_short(void) {
    uint64_t most = fh_load(&too_much);
    if (FH_UNLIKELY(most != 0) && fh_window_mapped() > most / 2) fh_run_drop_free_chunks();
}

static void act(uint64_t due) {
    if (due & FH_DUE_LIMIT) fh_limits_check();
    if (due & (FH_DUE_GROWTH | FH_DUE_GROUP)) fh_limits_check_group();
    if (due & FH_DUE_GROWTH) {
        fh_trim_grown();
        fh_cold_grown();
    }
    if (due & FH_DUE_FLOW) fh_cold_flowed();
    if (due & FH_DUE_INSIDE) fh_inside_check();
    if (due & FH_DUE_HUGE_PAGE) fh_huge_pages_touched();
    if (due & FH_DUE_PARKED) fh_cache_flush_parked();
    if (due & FH_DUE_PEAK) fh_idle_note_peak();
    /* Last: what the others have freed counts. */
    if (due & (FH_DUE_IDLE | FH_DUE_REFAULT | FH_DUE_PEAK)) {
        drop_where_short();
        fh_idle_purge_excess();
    }
    if (due & FH_DUE_BACKGROUND) fh_background_check();
}

/* What may run the program's code, or take locks of the C library. */
static void act_after_allocation(uint64_t due, void *block) {
    if (due & FH_DUE_THREAD) fh_background_start();
    if (due & FH_DUE_METRICS) fh_hook_write();
    if (due & FH_DUE_CALLBACK) fh_limits_call_back(false, (uintptr_t)fh_own(), block);
}

/* What a thread remembers of its own walk for all of that, while another one did that one; and whether it is as much. Where
 * memory is so short that a thread has no cache, it shares this with some others of that kind. */
static fh_word *memory_of_walk(void) {
    static fh_word without_cache[16];
    fh_thread *t = fh_own();
    if (t != &fh_thread_none && t != &fh_thread_over) return &t->walked_beside;
    return &without_cache[((uintptr_t)&fh_here >> 12) * UINT64_C(0x9E3779B97F4A7C15) >> 60];
}
static uint64_t walked(uint64_t beside, uint64_t all) {
    return beside << 2 | all;
}
static bool has_walked(uint64_t beside, uint64_t all) {
    uint64_t mine = fh_load(memory_of_walk());
    return mine >> 2 == beside && (mine & 3) >= all;
}

/* True if all of that was released, and nothing has come back since. While one thread is at it, others that are refused walk too,
 * because what it has in its hands may be all that there is; but each of them once. Or the whole program would walk while that
 * thread does not run. */
static bool is_trimmed(uint64_t all) {
    uint64_t trimmed = fh_load(&fh_order.trimmed);
    return trimmed & FH_TRIMMING ? has_walked(trimmed, all) : trimmed >= all;
}

/* Of two walks by different threads, or at different times, no two have the same number for long. */
static uint64_t new_walk(uint64_t all) {
    static fh_word walks;
    return (fh_add_relaxed(&walks, 1) + 1) * (FH_TRIMMING << 1) | FH_TRIMMING | all;
}

/* There is no more memory. All that is free but kept is returned: what this thread has cached, the depots, empty slabs, the
 * address space of chunks that are empty then, and the memory of free slots. What was done before is not done again while
 * nothing has come back: a program that goes on asking pays no walk of the heap for each refusal. */
static void release_all(void) {
    /* A limit of the program's own is not about address space. */
    uint64_t refused = fh_system_refused_bytes();
    bool chunks = refused != 0;
    if (chunks) {
        /* What was refused last may be far more than was needed: another place for a long block that could not grow. */
        uint64_t all_of_it = fh_window_mapped() + refused, most = fh_system_most_bytes();
        fh_store(&too_much, all_of_it < most ? all_of_it : most);
        fh_or_relaxed(&fh_order.watch, FH_WATCH_ADDRESSES);
    }
    uint64_t all = chunks ? FH_TRIMMED_CHUNKS : FH_TRIMMED;
    if (fh_cache_has_blocks()) fh_cache_flush();
    if (is_trimmed(all)) return;
    /* Before the walk: what comes back during it is seen, or sets the word to 0 again. See fh_event_came_back. */
    uint64_t before = fh_load(&fh_order.trimmed), trimming = new_walk(all);
    bool first = !(before & FH_TRIMMING) && fh_cas_acq_rel(&fh_order.trimmed, &before, trimming);
    if (first) fh_fence_after_rmw();
    if (!first) fh_store(memory_of_walk(), walked(before, all));
    fh_trim_caches();
    if (chunks) fh_run_drop_free_chunks();
    fh_idle_purge_to(0);
    if (first) fh_cas_acq_rel(&fh_order.trimmed, &trimming, all);
}

/* True if trying again may help. Under a limit, first what is free already as far as the books go: slabs that are all free,
 * and blocks in the depots. A limit that refused may have been lifted since: so it is tried as often without one. */
static bool make_room(fh_safe_point point) {
    bool limited = fh_limit_is_set();
    if (point == FH_AFTER_LAST_REFUSAL) return false;
    if (point == FH_AFTER_REFUSAL && limited) {
        if (!is_trimmed(FH_TRIMMED)) fh_trim_caches();
    } else if (point == FH_AFTER_REFUSAL || limited) {
        fh_limits_call_back(true, (uintptr_t)fh_own(), NULL);
        release_all();
    }
    return true;
}

bool fh_hook_reclaim(fh_safe_point point) {
    uint64_t due = take_due(point);
    FH_ASSERT(point <= FH_AFTER_LAST_REFUSAL);
    FH_ASSERT(point != FH_AFTER_FREE || !(due & FH_DUE_ALLOCATION_ONLY));
    act(due);
    if (point == FH_AFTER_FREE) return false;
    act_after_allocation(due | take_due(FH_AFTER_ALLOC), NULL);
    return point != FH_AFTER_ALLOC && make_room(point);
}

void fh_hook_allocated(void *p) {
    uint64_t due = take_due(FH_AFTER_ALLOC);
    act(due);
    act_after_allocation(due | take_due(FH_AFTER_ALLOC), p);
}

void fh_hook_refused(size_t n) {
    fh_limits_refused();
    if (fh_is_observing()) fh_hook_observe_refusal();
    fh_refusal_report(n);
}

void fh_hook_thread_ends(fh_thread *t) {
    fh_limits_thread_ends((uintptr_t)t);
}

void fh_hook_forked(fh_thread *t) {
    fh_background_forked();
    fh_limits_forked((uintptr_t)t);
    if (fh_is_observing()) fh_hook_observe_fork();
}
