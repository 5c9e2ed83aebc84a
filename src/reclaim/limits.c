#include "reclaim/limits.h"

#include "base/assert.h"
#include "base/settings.h"
#include "cache/cache.h"
#include "reclaim/budget.h"
#include "reclaim/huge_pages.h"
#include "reclaim/idle.h"
#include "reclaim/trim.h"
#include "store/guarded.h"
#include "store/run.h"
#include "system/system.h"

static fh_word soft_limit;
static fh_word callback_word; /* an fh_limit_callback; a word, because it may be changed while threads run */
static fh_word calling;       /* the thread that is in the callback, 0: none */
static fh_word not_given;     /* its block, which the program does not have yet, 0: none; only that thread uses it */
static fh_word installed;     /* 1: the program has set the limits itself */
static fh_word announced;     /* bytes in use when it was called last, 0 once below the soft limit again */
static fh_word group_pressure, group_second; /* the control group's part, and when it was read, in units of 2^30 ns */
static fh_word stalled;                      /* the pressure that the group's waiting for memory makes */
static fh_word last_limit, last_used;        /* of the last reading in a sandboxed program; 0: there is no limit */

/* A hard limit that is never met stands beside a soft one that is alone. */
#define NEVER_MET (SIZE_MAX / 2)

static void publish_pressure(fh_pressure own) {
    uint64_t group = fh_load(&group_pressure), now = (uint64_t)own > group ? (uint64_t)own : group;
    FH_ASSERT(own <= FH_PRESSURE_HIGH && now <= FH_PRESSURE_HIGH);
    if (fh_load(&fh_order.pressure) == now) return;
    fh_store(&fh_order.pressure, now);
    fh_idle_configure();
    fh_huge_pages_configure();
}

/* Purges what is free until live and idle memory together fit below `most`. */
static void make_room(size_t live, size_t most) {
    size_t keep = live < most ? most - live : 0;
    fh_run_settle();
    if (fh_dirty_bytes() > keep) fh_idle_purge_to(keep);
}

/* ── The own limit ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* Asks for the callback when the soft limit is passed, and again for each further 32nd of it. */
static void check_soft(size_t in_use) {
    size_t soft = (size_t)fh_load(&soft_limit), last = (size_t)fh_load(&announced);
    if (!soft) return;
    if (in_use <= soft) {
        if (last) fh_store(&announced, 0);
    } else if (last == 0 || in_use > last + soft / 32) {
        fh_store(&announced, in_use);
        fh_set_due(FH_DUE_CALLBACK);
    }
}

void fh_limits_check(void) {
    size_t hard = (size_t)fh_load(&fh_limit.hard), reserve = fh_limit_reserve(hard);
    if (!hard) {
        publish_pressure(FH_PRESSURE_NONE);
        return;
    }
    FH_ASSERT(reserve <= hard);
    fh_run_settle(); /* it was kept before there was a limit */
    size_t in_use = fh_charged_bytes() + (size_t)fh_load(&fh_limit.pending);
    publish_pressure(fh_limit_judge(in_use, hard));
    check_soft(in_use);
    make_room(in_use, fh_load(&fh_limit.reserve_is_open) ? hard : hard - reserve);
    if (in_use + 2 * reserve <= hard) fh_store(&fh_limit.reserve_is_open, 0);
    if (FH_UNLIKELY(fh_load(&fh_limit.hard) != hard)) fh_set_due(FH_DUE_LIMIT); /* changed meanwhile: once more */
}

fh_limit_figures fh_limits_now(void) {
    size_t hard = (size_t)fh_load(&fh_limit.hard);
    return (fh_limit_figures){(size_t)fh_load(&soft_limit), hard == NEVER_MET ? 0 : hard, fh_charged_bytes(),
                              fh_load(&fh_limit.refusals), fh_load(&installed) != 0};
}

void fh_limits_refused(void) {
    if (fh_limit_is_set()) fh_store(&fh_limit.reserve_is_open, 1);
}

/* The one word that says what the limit is. */
static void set_hard(size_t bytes) {
    fh_store(&fh_limit.hard, bytes);
    fh_run_settle();
    fh_set_due(FH_DUE_LIMIT); /* also of a limit that is lifted: the pressure ends */
    if (!bytes) publish_pressure(FH_PRESSURE_NONE);
    fh_huge_pages_configure(); /* a small limit does without them */
}

void fh_limits_configure(void) {
    set_hard((size_t)FH_SETTING(limit));
}

/* ── The callback ────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_limits_install(size_t soft, size_t hard, fh_limit_callback callback) {
    fh_store(&callback_word, (uint64_t)(uintptr_t)callback);
    fh_store(&soft_limit, soft);
    fh_store(&installed, 1);
    fh_store(&announced, 0);
    set_hard(hard ? hard : soft ? NEVER_MET : 0);
}

void fh_limits_call_back(bool refused, uint64_t caller, void *block) {
    fh_limit_callback callback = (fh_limit_callback)(uintptr_t)fh_load(&callback_word);
    uint64_t none = 0;
    FH_ASSERT(caller != 0);
    /* acq_rel: one thread at a time, and not again from within. */
    if (!callback || !fh_cas_acq_rel(&calling, &none, caller)) return;
    fh_store(&not_given, (uintptr_t)block);
    callback(fh_charged_bytes(), (size_t)fh_load(refused ? &fh_limit.hard : &soft_limit));
    FH_ASSERT_COSTLY(fh_load(&calling) == caller);
    /* First: a thread that is cancelled between the two, or before it has put its own block there, must not free this one. */
    fh_store(&not_given, 0);
    fh_store_release(&calling, 0);
}

void fh_limits_thread_ends(uint64_t caller) {
    /* Only the thread itself has put its number there, so between the two no other changes the word. */
    if (FH_LIKELY(fh_load(&calling) != caller)) return;
    void *block = (void *)(uintptr_t)fh_load(&not_given); // NOLINT(performance-no-int-to-ptr)
    fh_store(&not_given, 0);
    fh_store_release(&calling, 0);
    if (block) fh_release_not_given(block);
}

void fh_limits_forked(uint64_t caller) {
    if (fh_load(&calling) != caller) {
        fh_store(&not_given, 0);
        fh_store(&calling, 0);
    }
    fh_limit_forked();
}

/* ── The control group ───────────────────────────────────────────────────────────────────────────────────────────── */

static bool is_watched(void) {
    return fh_load(&fh_order.watch) & FH_WATCH_GROUP;
}

static size_t own_bytes(void) {
    return fh_used_bytes() + fh_dirty_bytes();
}

void fh_limits_remember_group(void) {
    size_t limit, used;
    if (!fh_system_group_memory(&limit, &used)) return;
    fh_store(&last_used, used - own_bytes()); /* modulo 2^64: what others use */
    fh_store(&last_limit, limit);
}

static bool ask_group(size_t *limit, size_t *used) {
    if (!fh_system_is_restricted()) return fh_system_group_memory(limit, used);
    *limit = (size_t)fh_load(&last_limit);
    *used = (size_t)fh_load(&last_used) + own_bytes();
    return *limit != 0;
}

/* The group's pressure now. How much it waits for memory is asked once a second only.
 *
 * What was claimed since the last reading counts as used. The program has it, but may not have touched it: a block of half
 * the group's memory is usually claimed and then written, with no safe point between the two. */
static fh_pressure read_group(bool new_second) {
    static fh_word read_then; /* `wanted` at the last reading */
    uint64_t wanted = fh_load(&fh_counts.wanted), claimed = wanted - fh_swap_acq_rel(&read_then, wanted);
    size_t limit, used;
    if (!ask_group(&limit, &used)) {
        if (is_watched()) fh_and_relaxed(&fh_order.watch, ~FH_WATCH_GROUP);
        fh_huge_pages_note_group(0);
        return FH_PRESSURE_NONE;
    }
    /* Of two readers at once the slower one may see less than the other. What is estimated has it already. */
    if ((int64_t)claimed > 0 && !fh_system_is_restricted()) used += (size_t)claimed;
    fh_store(&fh_order.group_read_at, wanted + fh_group_next_read(limit, used));
    fh_or_relaxed(&fh_order.watch, FH_WATCH_GROUP);
    fh_huge_pages_note_group(limit);
    if (new_second) fh_store(&stalled, fh_stall_judge(fh_system_group_stall()));
    fh_pressure by_use = fh_limit_judge(used, limit), by_waiting = (fh_pressure)fh_load(&stalled);
    return by_use > by_waiting ? by_use : by_waiting;
}

#define FAR (UINT64_C(1) << 62) /* beyond what is wanted while one thread reads */

/* Takes the turn of reading: for a new second, or for a share of what was left that is used up. */
static bool take_turn(bool *new_second) {
    uint64_t now = fh_system_seconds(), then = fh_load(&group_second), at = fh_load(&fh_order.group_read_at);
    *new_second = now != then && fh_cas_relaxed(&group_second, &then, now);
    if (*new_second) return true;
    /* The reading that follows says how long the next share is. */
    uint64_t wanted = fh_load(&fh_counts.wanted);
    return is_watched() && (int64_t)(wanted - at) >= 0 && fh_cas_relaxed(&fh_order.group_read_at, &at, wanted + FAR);
}

void fh_limits_check_group(void) {
    bool new_second;
    if (!take_turn(&new_second)) return;
    fh_pressure group = read_group(new_second);
    fh_store(&group_pressure, group);
    size_t hard = (size_t)fh_load(&fh_limit.hard);
    if (hard) fh_run_settle();
    publish_pressure(hard ? fh_limit_judge(fh_charged_bytes(), hard) : FH_PRESSURE_NONE);
    if (group == FH_PRESSURE_NONE) return;
    if (group == FH_PRESSURE_HIGH) fh_cache_flush();
    fh_trim_caches();
    make_room(0, group == FH_PRESSURE_SOME ? FH_IDLE_FLOOR_SLOTS / 2 * FH_SLOT_SIZE : 0);
    if (group == FH_PRESSURE_HIGH) fh_trim_inside();
}
