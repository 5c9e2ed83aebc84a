#include "store/limit.h"

#include "store/huge.h"
#include "store/purge.h"
#include "store/trim.h"
#include "system/system.h"

fh_word fh_limit_pressure_word;
fh_word fh_limit_due; /* the callback is to be called */

static fh_word pending;         /* bytes admitted and not yet in the books */
static fh_word reserve_is_open; /* 1 from the first refusal until there is room again */
static fh_word soft_limit;
static fh_word callback_word; /* an fh_limit_callback; a word, because it may be changed while threads run */
static fh_word calling;       /* the thread that is in the callback, 0: none */
static fh_word installed;     /* 1: the program has set the limits itself */
static fh_word refusals;      /* claims beyond the hard limit, for the statistics */
static fh_word announced;     /* bytes in use when it was called last, 0 once below the soft limit again */
static fh_word group_pressure, group_looked_at; /* the control group's part, and when, in units of 2^30 ns */
static fh_word until_look;                      /* bytes that may get memory before the next look; may fall below 0 */
static fh_word stalled;                         /* the pressure that the group's waiting for memory makes */
fh_word fh_limit_grouped;

static size_t live_bytes(void) {
    return fh_purge_used_bytes() + fh_huge_claimed_bytes();
}

/* With what is free and has memory. */
static size_t bytes_in_use(void) {
    return fh_purge_used_bytes() + fh_huge_bytes() + fh_purge_dirty_bytes() + fh_huge_cached_bytes();
}

static void publish_pressure(fh_pressure own) {
    uint64_t group = fh_load(&group_pressure), now = (uint64_t)own > group ? (uint64_t)own : group;
    if (fh_load(&fh_limit_pressure_word) != now) fh_store(&fh_limit_pressure_word, now);
}

/* Gives back what is free until live and idle memory together fit below `most`. */
static void make_room(size_t live, size_t most) {
    size_t keep = live < most ? most - live : 0, cached = fh_huge_cached_bytes();
    if (cached + fh_purge_dirty_bytes() <= keep) return;
    fh_huge_trim(0);
    if (fh_purge_dirty_bytes() > keep) fh_purge_to(keep);
}

/* ── The own limit ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* Asks for the callback when the soft limit is passed, and again for each further 32nd of it. */
static void look_at_soft(size_t in_use) {
    size_t soft = (size_t)fh_load(&soft_limit), last = (size_t)fh_load(&announced);
    if (!soft) return;
    if (in_use <= soft) {
        if (last) fh_store(&announced, 0);
    } else if (last == 0 || in_use > last + soft / 32) {
        fh_store(&announced, in_use);
        fh_store(&fh_limit_due, 1);
    }
}

bool fh_limit_admit(size_t bytes, bool spare) {
    size_t hard = fh_settings.limit, reserve = fh_limit_reserve(hard);
    if (bytes > hard) { /* and the sum below cannot overflow */
        fh_add_relaxed(&refusals, 1);
        return false;
    }
    /* acquire: who took its bytes away before has them in the books, and these are read below. Relaxed would admit two
     * beyond the limit on a machine that shows the second word before the first. */
    size_t claimed = (size_t)fh_add_acq_rel(&pending, bytes) + bytes;
    for (int tries = 0; tries < 2; tries++) {
        size_t most = spare && fh_load(&reserve_is_open) ? hard : hard - reserve;
        size_t live = live_bytes(), in_use = live + claimed;
        publish_pressure(fh_limit_judge(in_use, hard));
        if (in_use <= most) {
            look_at_soft(in_use);
            make_room(in_use, most);
            if (in_use + 2 * reserve <= hard) fh_store(&reserve_is_open, 0);
            return true;
        }
        /* Slabs that are all free are in use as far as the books say, and so are blocks in the depots and the huge block
         * that was freed last. */
        if (tries == 0) fh_trim_caches();
        fh_huge_trim(0);
    }
    fh_sub_relaxed(&pending, bytes);
    fh_add_relaxed(&refusals, 1);
    return false;
}

fh_limit_figures fh_limit_now(void) {
    /* A soft limit alone stands beside a hard one that is never met. */
    size_t hard = fh_settings.limit == SIZE_MAX / 2 ? 0 : fh_settings.limit;
    return (fh_limit_figures){(size_t)fh_load(&soft_limit), hard, bytes_in_use(), fh_load(&refusals),
                              fh_load(&installed) != 0};
}

size_t fh_limit_pending(void) {
    return (size_t)fh_load(&pending);
}

void fh_limit_done(size_t bytes) {
    fh_sub_release(&pending, bytes); /* release: the books before it; see fh_limit_admit */
}

void fh_limit_refused(void) {
    if (fh_settings.limit) fh_store(&reserve_is_open, 1);
}

/* ── The callback ────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_limit_install(size_t soft, size_t hard, fh_limit_callback callback) {
    fh_store(&callback_word, (uint64_t)(uintptr_t)callback);
    fh_store(&soft_limit, soft);
    fh_store(&installed, 1);
    fh_store(&announced, 0);
    fh_settings.limit = hard ? hard : soft ? SIZE_MAX / 2 : 0;
    if (!fh_settings.limit) publish_pressure(FH_PRESSURE_NONE);
}

bool fh_limit_relieve(bool refused, uint64_t caller) {
    fh_store(&fh_limit_due, 0);
    fh_limit_callback callback = (fh_limit_callback)(uintptr_t)fh_load(&callback_word);
    if (!callback) return false;
    uint64_t nobody = 0;
    /* acq_rel: one thread at a time, and not again from within. */
    if (!fh_cas_acq_rel(&calling, &nobody, caller)) return false;
    callback(bytes_in_use(), refused ? fh_settings.limit : (size_t)fh_load(&soft_limit));
    fh_store_release(&calling, 0);
    return true;
}

void fh_limit_left(uint64_t caller) {
    /* Only the thread itself has put its number there, so between the two nobody else changes the word. */
    if (FH_UNLIKELY(fh_load(&calling) == caller)) fh_store_release(&calling, 0);
}

void fh_limit_forked(uint64_t caller) {
    if (fh_load(&calling) != caller) fh_store(&calling, 0);
}

/* ── The control group ───────────────────────────────────────────────────────────────────────────────────────────── */

void fh_limit_count(size_t bytes) {
    fh_sub_relaxed(&until_look, bytes);
}

/* A new second, for whoever moves the clock. */
static bool second_is_over(void) {
    uint64_t now = fh_system_seconds(), then = fh_load(&group_looked_at);
    return now != then && fh_cas_relaxed(&group_looked_at, &then, now);
}

/* A share of the room is used up, for whoever is first to say so. The look that follows says how long the next one is. */
static bool share_is_used(void) {
    uint64_t left = fh_load(&until_look);
    return fh_load(&fh_limit_grouped) && (int64_t)left <= 0 && fh_cas_relaxed(&until_look, &left, INT64_MAX);
}

/* The group's pressure at this moment. How much it waits for memory is asked once a second only. */
static fh_pressure look_at_group(bool new_second) {
    size_t limit, used;
    if (!fh_system_group_memory(&limit, &used)) {
        if (fh_load(&fh_limit_grouped)) fh_store(&fh_limit_grouped, 0);
        return FH_PRESSURE_NONE;
    }
    fh_store(&until_look, fh_group_next_look(limit, used));
    fh_store(&fh_limit_grouped, 1);
    if (new_second) fh_store(&stalled, fh_stall_judge(fh_system_group_stall()));
    fh_pressure by_use = fh_limit_judge(used, limit), by_waiting = (fh_pressure)fh_load(&stalled);
    return by_use > by_waiting ? by_use : by_waiting;
}

void fh_limit_grown(void) {
    bool new_second = second_is_over();
    if (!new_second && !share_is_used()) return;
    fh_pressure group = look_at_group(new_second);
    fh_store(&group_pressure, group);
    size_t hard = fh_settings.limit;
    publish_pressure(hard ? fh_limit_judge(live_bytes(), hard) : FH_PRESSURE_NONE);
    if (group == FH_PRESSURE_NONE) return;
    fh_trim_caches();
    make_room(0, group == FH_PRESSURE_SOME ? FH_PURGE_FLOOR_SLOTS / 4 * FH_SLOT_SIZE : 0);
    if (group == FH_PRESSURE_HIGH) fh_trim_inside();
}
