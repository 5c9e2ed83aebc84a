#include "check/verify.h"

#include "base/assert.h"
#include "base/hooks.h"
#include "base/types.h"
#include "cache/observed.h"
#include "cache/thread.h"
#include "check/chunks.h"
#include "check/magazines.h"
#include "store/limit.h"
#include "store/events.h"
#include "store/window.h"
#include "system/system.h"

#include <errno.h>

/* ── What is checked, by names of its own ────────────────────────────────────────────────────────────────────────── */

static size_t counted_used_slots(void) {
    return fh_used_bytes() / FH_SLOT_SIZE;
}

static size_t counted_dirty_slots(void) {
    return fh_dirty_bytes() / FH_SLOT_SIZE;
}

static size_t counted_lost_chunks(void) {
    return (size_t)fh_load(&fh_window.lost);
}

static void in_heap(fh_verification *check, fh_equation e, uint64_t found, uint64_t expected) {
    if (found != expected) fh_check_violated(check, (fh_violation){e, FH_PLACE_HEAP, 0, 0, found, expected});
}

/* ── All of it ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* [count.used] [count.dirty] [count.lost] [count.kept] [limit.pending] */
static void check_counters(fh_verification *check) {
    in_heap(check, FH_EQUATION_COUNT_USED, counted_used_slots(), check->used_slots + check->counted_slots);
    in_heap(check, FH_EQUATION_COUNT_DIRTY, counted_dirty_slots(), check->dirty_slots);
    in_heap(check, FH_EQUATION_COUNT_LOST, counted_lost_chunks(), check->lost_chunks);
    in_heap(check, FH_EQUATION_COUNT_KEPT, check->kept_runs, fh_kept_slots() != 0);
    in_heap(check, FH_EQUATION_LIMIT_PENDING, (size_t)fh_load(&fh_limit.pending), 0);
}

void fh_check_heap(fh_verification *check) {
    fh_check_chunks(check);
    if (!check->leave_magazines) fh_check_magazines(check);
    check_counters(check);
}

size_t fh_check_all(void (*found)(const fh_violation *v), size_t *live) {
    int saved = errno;
    size_t bytes = fh_window_chunks() * FH_CHECK_SEEN_BYTES;
    /* Without memory for it, no block is looked for in two places. */
    bytes = fh_round_up(bytes, fh_system_page_size());
    uint64_t *seen = bytes ? fh_system_map(bytes, fh_system_page_size()) : NULL;
    fh_verification check = {.found = found, .seen = seen};
    fh_check_heap(&check);
    if (seen) fh_system_unmap(seen, bytes);
    if (live) *live = check.live_blocks;
    errno = saved;
    return check.violated;
}

/* ── By itself ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Of a process whose parent made it by _Fork, without handlers, the generation says nothing. */
static bool is_first_process(void) {
    static fh_word first;
    uint64_t seen = 0, pid = fh_system_pid();
    return fh_cas_relaxed(&first, &seen, pid) || seen == pid;
}

/* True if no other thread can be inside the allocator: this is the only one, and it holds nothing. In the child of a fork
 * what the others were in the middle of stays as it was. */
static bool is_at_rest(void) {
    if (!is_first_process() || fh_thread_generation() != 0 || fh_system_threads() != 1) return false;
    const fh_thread *t = fh_own();
    return t == &fh_thread_none || t == &fh_thread_over || fh_load(&t->state) == FH_THREAD_LIVE;
}

/* Refills and flushes between two checks of a thread's own cache, and slow paths between two checks of the heap: the larger
 * it is, the fewer. */
#define CACHE_PATHS 8u
#define HEAP_PATHS 1024u

/* Only read by a thread that is alone, so an exact count does not matter. */
static fh_word paths_left;

static bool heap_is_due(void) {
    uint64_t left = fh_load(&paths_left);
    fh_store(&paths_left, left ? left - 1 : HEAP_PATHS * (1 + fh_window_chunks()));
    return left == 0;
}

void fh_hook_left(const fh_thread *t) {
    if ((t->refills + t->flushes) % CACHE_PATHS == 0) {
        fh_verification own = {.found = fh_check_say};
        fh_check_bins(&own, t);
        FH_ASSERT(own.violated == 0);
    }
    if (FH_STRESS && heap_is_due() && is_at_rest()) FH_ASSERT_COSTLY(fh_check_all(fh_check_say, NULL) == 0);
}

bool fh_check_edge(void) {
    const fh_thread *t = fh_own();
    size_t violated = 0;
    if (t != &fh_thread_none && t != &fh_thread_over && (t->refills + t->flushes) % CACHE_PATHS == 0) {
        fh_verification own = {.found = fh_check_say};
        fh_check_bins(&own, t);
        violated = own.violated;
    }
    bool all = heap_is_due() && is_at_rest();
    if (all) violated += fh_check_all(fh_check_say, NULL);
    if (violated && FH_SETTING(on_error) == FH_ON_ERROR_ABORT) fh_system_abort();
    return all;
}

void fh_check_at_end(void) {
    if ((FH_CHECKED || FH_STRESS) && is_at_rest()) FH_ASSERT(fh_check_all(fh_check_say, NULL) == 0);
}
