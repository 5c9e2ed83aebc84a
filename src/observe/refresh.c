#include "observe/refresh.h"

#include "observe/heaps.h"
#include "observe/modules.h"
#include "observe/nodes.h"
#include "observe/profile_file.h"
#include "observe/records.h"
#include "observe/residency.h"
#include "observe/sites.h"
#include "observe/statistics.h"
#include "observe/unwind/modules.h"
#include "observe/unwind/stack.h"
#include "store/events.h"
#include "store/window.h"
#include "system/system.h"

#include <stdbool.h>

#define MS UINT64_C(1000000)
#define LEAST_NS (100 * MS)
#define LEAST_CHANGED_NS (20 * MS)
#define COST_FACTOR 1000u
#define COST_FACTOR_CHANGED 500u
#define LEAST_CHANGE (1024u * 1024u)
#define POINTS_OF_LIFE 256u

/* 1 while a thread takes statistics. One that dies or is parked there ends the statistics, and nothing else. */
static fh_word taking;
/* All relaxed, and written only by the thread that is taking. */
static fh_word last_end, last_cost, last_used, last_point, last_modules;

/* The list of mappings is half of what statistics cost. The walker learns of a module when it meets it, so the list is
 * only needed for modules that nothing allocates in, and for those that are gone. */
#define MODULES_NS (500 * MS)

/* In a heap of more chunks, 8 GiB, the kernel is asked what is resident only when a command asks for statistics, and at
 * the end: it takes too long for a thread of the program that just comes by. */
#define MEASURED_CHUNKS 4096u

static uint64_t bytes_in_use(void) {
    return fh_used_bytes();
}

static bool changed_much(void) {
    uint64_t used = bytes_in_use(), last = fh_load(&last_used);
    uint64_t change = used > last ? used - last : last - used;
    return change > LEAST_CHANGE && change > last / 64;
}

static bool is_due(bool soon) {
    uint64_t now = fh_system_nanoseconds(), since = now - fh_load(&last_end), cost = fh_load(&last_cost);
    if (since > LEAST_NS && since > COST_FACTOR * cost) return true;
    return since > LEAST_CHANGED_NS && since > COST_FACTOR_CHANGED * cost && (soon || changed_much());
}

/* A point of the timeline, out of the statistics that were just taken. */
static void add_point(fh_profile_header *profile, const fh_profile_statistics *f) {
    uint64_t now = f->taken_ns, places;
    uint64_t apart = (now - profile->begun_ns) / POINTS_OF_LIFE, last = fh_load(&last_point);
    fh_profile_point *ring = fh_profile_extent(FH_PROFILE_TIMELINE, 0, &places);
    if (!ring || (last && now - last < apart)) return;
    uint64_t number = fh_load(fh_profile_word(&profile->section[FH_PROFILE_TIMELINE].used));
    fh_profile_point *m = &ring[number % places];
    /* 0 while the others are written; release: they come before the time that makes them count. */
    fh_swap_acq_rel(fh_profile_word(&m->ns), 0);
    fh_store(fh_profile_word(&m->check), 0);
    m->resident_bytes = f->resident_bytes;
    m->live_bytes = f->live_bytes;
    m->cached_bytes = f->cached_bytes;
    m->free_bytes = f->free_bytes;
    m->dirty_bytes = f->dirty_bytes;
    m->huge_bytes = f->huge_bytes;
    uint64_t h = fh_profile_check(0, &now, sizeof now);
    const size_t begin = offsetof(fh_profile_point, resident_bytes), end = offsetof(fh_profile_point, check);
    fh_store(fh_profile_word(&m->check), fh_profile_checked(fh_profile_check(h, (const char *)m + begin, end - begin)));
    fh_store_release(fh_profile_word(&m->ns), now);
    fh_store_release(fh_profile_word(&profile->section[FH_PROFILE_TIMELINE].used), number + 1);
    fh_store(&last_point, now);
}

/* Known from the first slab on. */
static void set_window(fh_profile_header *profile) {
    if (profile->window_begin || fh_window_base() == FH_NO_WINDOW) return;
    uint64_t both[2] = {fh_window_base(), FH_WINDOW_SIZE};
    profile->window_check = fh_profile_checked(fh_profile_check(0, both, sizeof both));
    fh_store(fh_profile_word(&profile->window_bytes), FH_WINDOW_SIZE);
    fh_records_show(profile);
    fh_store_release(fh_profile_word(&profile->window_begin), fh_window_base());
}

static void refresh_modules(fh_profile_header *profile, bool all, uint64_t now) {
    uint64_t last = fh_load(&last_modules);
    if (!all && last && now - last < MODULES_NS) return;
    fh_modules_refresh();
    fh_modules_enter(profile, true);
    fh_store(&last_modules, now);
}

/* Bytes of private memory that the observer has taken. The file is counted in its own header. */
static uint64_t observer_bytes(void) {
    return fh_nodes_bytes() + fh_sites_bytes() + fh_heap_names_bytes() + fh_stack_memory();
}

static uint64_t check_of(const fh_profile_statistics *f) {
    const size_t begin = offsetof(fh_profile_statistics, taken_ns), end = offsetof(fh_profile_statistics, check);
    uint64_t h = fh_profile_check(0, (const char *)f + begin, end - begin);
    return fh_profile_checked(fh_profile_check(h, f->row, f->rows * sizeof f->row[0]));
}

/* `all`: they are the last ones. Those that were asked for are as complete. */
static void take(fh_profile_header *profile, bool all) {
    fh_profile_statistics *f = fh_profile_entry(FH_PROFILE_STATISTICS, 0);
    fh_profile_control *control = fh_profile_controls(profile);
    uint64_t asked = fh_load(fh_profile_word(&control->refresh));
    uint64_t begun = fh_system_nanoseconds(), used = bytes_in_use();
    all = all || asked != fh_load(fh_profile_word(&control->refreshed));
    set_window(profile);
    refresh_modules(profile, all, begun);
    /* An exchange, because what follows must not be written before it; the release at the end is for what came
     * before. */
    uint64_t sequence = fh_load(fh_profile_word(&f->sequence));
    fh_swap_acq_rel(fh_profile_word(&f->sequence), sequence | 1);
    fh_statistics_collect(f);
    if (all || f->chunks <= MEASURED_CHUNKS) fh_residency_measure(f);
    f->observer_bytes = observer_bytes();
    f->check = check_of(f);
    fh_store_release(fh_profile_word(&f->sequence), (sequence | 1) + 1);
    add_point(profile, f);
    fh_store(fh_profile_word(&control->refreshed), asked);
    uint64_t end = fh_system_nanoseconds();
    fh_store(&last_used, used);
    fh_store(&last_cost, end - begun);
    fh_store(&last_end, end);
}

void fh_refresh(fh_profile_header *profile, fh_refresh_when when) {
    fh_profile_control *control = fh_profile_controls(profile);
    bool asked = fh_refresh_is_asked(control);
    if (when == FH_REFRESH_IF_ASKED && !asked) return;
    if (when != FH_REFRESH_NOW && !asked && !is_due(when == FH_REFRESH_SOON)) return;
    uint64_t free = 0;
    /* acquire and release: one taker sees the words of the one before. */
    if (!fh_cas_acq_rel(&taking, &free, 1)) return;
    take(profile, when == FH_REFRESH_NOW);
    fh_store_release(&taking, 0);
}

void fh_refresh_clear(void) {
    fh_store(&last_end, 0);
    fh_store(&last_cost, 0);
    fh_store(&last_point, 0);
    fh_store(&last_modules, 0);
    fh_store(&taking, 0);
}
