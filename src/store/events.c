#include "store/events.h"

#include "base/assert.h"
#include "system/system.h"

fh_word fh_due;
fh_counters fh_counts;
fh_class_events fh_class_event[FH_CLASSES];
fh_orders fh_order = {
    .idle_slots = {FH_IDLE_FLOOR_SLOTS},
    .peak_slots = {FH_IDLE_FLOOR_SLOTS},
    .inside_step = {FH_IDLE_FLOOR_SLOTS * FH_SLOT_SIZE},
    .thp_first_chunk = {FH_YOUNG_CHUNKS},
    .thp_dense_chunk = {UINT64_MAX},
    .thp_timed = {1},
    .thp_split_bytes = {FH_SPLIT_BYTES},
};

/* Only while they are counted: that slots were claimed or released, and how few were dirty after it. */
static void watch_slots(uint64_t dirty) {
    fh_add_relaxed(&fh_counts.moves, 1);
    if (dirty < fh_load(&fh_counts.lowest_dirty)) fh_store(&fh_counts.lowest_dirty, dirty);
    fh_set_due(FH_DUE_BACKGROUND);
}

/* `bytes` are about to get memory, in a process whose control group has a limit. */
static void count_for_group(size_t bytes) {
    uint64_t wanted = fh_add_relaxed(&fh_counts.wanted, bytes) + bytes;
    if ((int64_t)(wanted - fh_load(&fh_order.group_read_at)) >= 0) fh_set_due(FH_DUE_GROUP);
}

void fh_event_claimed(size_t slots, size_t dirty, size_t purged) {
    uint64_t watch = fh_load(&fh_order.watch);
    uint64_t used = fh_add_relaxed(&fh_counts.used_slots, slots);
    if (FH_UNLIKELY(used + slots > fh_load(&fh_order.peak_slots))) fh_set_due(FH_DUE_PEAK);
    if (FH_UNLIKELY(watch & FH_WATCH_GROUP)) count_for_group(slots > dirty ? (slots - dirty) * FH_SLOT_SIZE : 0);
    if (dirty) {
        uint64_t before = fh_sub_relaxed(&fh_counts.dirty_slots, dirty), now = before - dirty;
        FH_ASSERT(before >= dirty); /* they were counted before they were free */
        if (fh_load(&fh_order.credit)) fh_add_relaxed(&fh_counts.reused, dirty * FH_SLOT_SIZE);
        if (FH_UNLIKELY(watch & FH_WATCH_BACKGROUND)) watch_slots(now);
    }
    if (FH_UNLIKELY(watch & FH_WATCH_BACKGROUND)) fh_set_due(FH_DUE_BACKGROUND);
    /* Reading the clock is nothing beside the page faults to come. */
    if (purged && fh_is_refault(fh_system_seconds() - fh_load(&fh_counts.purged_second)))
        fh_event_refaulted(purged * FH_SLOT_SIZE);
}

void fh_event_released(size_t first, size_t slots, bool is_dirty, bool counted) {
    uint64_t used = counted ? fh_sub_relaxed(&fh_counts.used_slots, slots) : slots;
    FH_ASSERT(used >= slots);
    uint64_t watch = fh_load(&fh_order.watch);
    if (FH_UNLIKELY(watch & FH_WATCH_ADDRESSES) && slots >= FH_CHUNK_SLOTS) fh_set_due(FH_DUE_IDLE);
    if (!is_dirty) return;
    /* Where a purge that this leads to had better begin. */
    if (slots >= FH_CHUNK_SLOTS) fh_store(&fh_counts.released_end, (first + slots - 1) / FH_CHUNK_SLOTS + 1);
    uint64_t dirty = fh_add_relaxed(&fh_counts.dirty_slots, slots) + slots;
    if (FH_UNLIKELY(watch & FH_WATCH_BACKGROUND)) watch_slots(UINT64_MAX);
    if (FH_UNLIKELY(dirty + fh_kept_slots() > fh_load(&fh_order.idle_slots))) fh_set_due(FH_DUE_IDLE);
}

/* Of a buffer that comes and goes the policy is asked once, while nothing else changes. The credit fades with time, and reading the
 * clock costs as much as all the rest: so with credit it is asked now and then. */
static bool is_known_to_fit(size_t slots) {
    uint64_t now = fh_load(&fh_counts.used_slots) << 32 | slots, times = fh_load(&fh_counts.kept_times) + 1;
    fh_store(&fh_counts.kept_times, times); /* of two threads at once one may be lost */
    return now == fh_load(&fh_order.keep) && (times % FH_KEEP_ASKED || !fh_load(&fh_order.credit));
}

void fh_event_kept(size_t slots) {
    if (fh_free_slots() > fh_load(&fh_order.idle_slots) && !is_known_to_fit(slots)) fh_set_due(FH_DUE_IDLE);
}

void fh_event_taken_again(size_t slots) {
    if (fh_load(&fh_order.credit)) fh_add_relaxed(&fh_counts.reused, slots * FH_SLOT_SIZE);
}

void fh_event_dropped(size_t slots) {
    uint64_t used = fh_sub_relaxed(&fh_counts.used_slots, slots);
    FH_ASSERT(used >= slots);
}

/* Slabs whose free pages were purged are filled again. Which blocks have lost their memory is not known: all that is refilled
 * counts, up to what was purged. */
static void count_inside_refault(size_t bytes) {
    uint64_t purged = fh_load(&fh_counts.inside_purged);
    bool missed = fh_is_refault(fh_system_seconds() - fh_load(&fh_counts.inside_second));
    uint64_t again = missed && bytes < purged ? bytes : purged;
    /* Of two threads at once one counts. */
    if (fh_cas_relaxed(&fh_counts.inside_purged, &purged, purged - again) && missed) fh_event_refaulted(again);
}

/* Of threads at once one may be lost. */
static void count_growth(uint64_t bytes) {
    if (FH_LIKELY(!fh_load(&fh_counts.split))) return;
    uint64_t grown = fh_add_relaxed(&fh_counts.grown, bytes) + bytes;
    if ((int64_t)grown < 0) fh_store(&fh_counts.grown, 0);
}

void fh_event_flushed(int64_t bytes) {
    count_growth(0 - (uint64_t)bytes);
    int64_t now = (int64_t)(fh_add_relaxed(&fh_counts.flushed, (uint64_t)bytes) + (uint64_t)bytes);
    if (bytes < 0 && FH_UNLIKELY(fh_load(&fh_counts.inside_purged))) count_inside_refault((size_t)-bytes);
    /* A heap that grows: what is flushed counts from its peak on. What is added meanwhile is lost. */
    if (now < 0) fh_store(&fh_counts.flushed, 0);
    if (now > (int64_t)fh_load(&fh_order.inside_step)) fh_set_due(FH_DUE_INSIDE);
}

void fh_event_may_touch(size_t bytes) {
    if (FH_UNLIKELY(fh_load(&fh_order.watch) & FH_WATCH_GROUP)) count_for_group(bytes);
}
