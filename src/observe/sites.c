#include "observe/sites.h"

#include "base/assert.h"
#include "base/bits.h"
#include "observe/index.h"

static fh_index known;

typedef struct {
    uint32_t node, heap;
} place;

static bool same(uint32_t number, const void *key) {
    const place *wanted = key;
    const fh_profile_site *entry = fh_profile_entry(FH_PROFILE_SITES, number);
    return entry && entry->node == wanted->node && entry->heap == wanted->heap;
}

static uint32_t make(const void *key) {
    uint64_t number = fh_profile_add(FH_PROFILE_SITES);
    fh_profile_site *entry = number < UINT32_MAX ? fh_profile_entry(FH_PROFILE_SITES, number) : NULL;
    if (!entry) return 0;
    entry->node = ((const place *)key)->node;
    entry->heap = ((const place *)key)->heap;
    const uint64_t both = entry->node | (uint64_t)entry->heap << 32;
    entry->place_check = fh_profile_checked(fh_profile_check(0, &both, sizeof both));
    return (uint32_t)number;
}

uint32_t fh_site_of(uint32_t node, uint32_t heap) {
    place key = {node, heap};
    uint64_t h = (node + UINT64_C(1) + ((uint64_t)heap << 32)) * UINT64_C(0x9E3779B97F4A7C15);
    fh_index_search search = {.hash = h ^ h >> 29, .same = same, .make = make, .key = &key};
    return fh_index_get(&known, &search);
}

static void add(uint64_t *sum, uint64_t n) {
    /* relaxed, like all sums: nothing is read through them. */
    if (n) fh_add_relaxed(fh_profile_word(sum), n);
}

static uint64_t difference(uint64_t *larger, uint64_t *smaller) {
    return fh_load(fh_profile_word(larger)) - fh_load(fh_profile_word(smaller));
}

/* Before the site's live sum changes: if a new peak was reached since it last did, what it is now is its share of that
 * peak. Of two threads that come at the same time one keeps it, and may keep the other's change along with it: an error
 * of one sample, in a figure that is an estimate of many. */
static void keep_share_of_peak(const fh_profile_control *control, fh_profile_site *entry) {
    uint64_t number = fh_load((const fh_word *)&control->peak_number), of = fh_load(fh_profile_word(&entry->peak_of));
    if (FH_LIKELY(of == number) || !fh_cas_relaxed(fh_profile_word(&entry->peak_of), &of, number)) return;
    fh_store(fh_profile_word(&entry->peak_bytes), difference(&entry->allocated_bytes, &entry->freed_bytes));
    fh_store(fh_profile_word(&entry->peak_blocks), difference(&entry->allocated_blocks, &entry->freed_blocks));
}

/* All sites together have that many bytes more. A peak is the highest that a thread has seen: each tries its own. */
static void grown(fh_profile_control *control, uint64_t bytes, uint64_t now) {
    uint64_t live = fh_add_relaxed(fh_profile_word(&control->live_bytes), bytes) + bytes;
    fh_word *peak = fh_profile_word(&control->peak_bytes);
    uint64_t highest = fh_load(peak);
    while (live > highest) {
        if (!fh_cas_relaxed(peak, &highest, live)) continue;
        fh_add_relaxed(fh_profile_word(&control->peak_number), 1);
        fh_store(fh_profile_word(&control->peak_ns), now);
        return;
    }
}

static void shrunk(fh_profile_control *control, uint64_t bytes) {
    uint64_t live = fh_sub_relaxed(fh_profile_word(&control->live_bytes), bytes);
    FH_ASSERT(live >= bytes); /* a sample counts before it can be found */
}

void fh_site_allocated(fh_profile_control *control, uint32_t number, const fh_weight *w, uint64_t now) {
    fh_profile_site *entry = fh_profile_entry(FH_PROFILE_SITES, number);
    if (!entry) return;
    keep_share_of_peak(control, entry);
    uint64_t none = 0;
    if (fh_cas_relaxed(fh_profile_word(&entry->first_ns), &none, now)) {
        fh_store(fh_profile_word(&entry->first_check), fh_profile_checked(fh_profile_check(0, &now, sizeof now)));
    }
    fh_store(fh_profile_word(&entry->last_ns), now);
    add(&entry->allocated_samples, 1);
    add(&entry->allocated_bytes, w->bytes);
    add(&entry->allocated_blocks, w->blocks);
    add(&entry->allocated_variance, w->variance);
    grown(control, w->bytes, now);
}

/* The place in freed_at_age of a block that has lived so long: below 1 µs, 4 µs, 16 µs … 4^14 µs, and the rest. */
static unsigned age_class(uint64_t ns) {
    uint64_t us = ns / 1000;
    unsigned k = us ? fh_highest_bit(us) / 2 + 1 : 0;
    return k < FH_PROFILE_AGES ? k : FH_PROFILE_AGES - 1;
}

void fh_site_freed(fh_profile_control *control, uint32_t number, const fh_weight *w, uint64_t now, uint64_t born) {
    fh_profile_site *entry = fh_profile_entry(FH_PROFILE_SITES, number);
    if (!entry) return;
    keep_share_of_peak(control, entry);
    add(&entry->freed_samples, 1);
    add(&entry->freed_bytes, w->bytes);
    add(&entry->freed_blocks, w->blocks);
    add(&entry->freed_variance, w->variance);
    add(&entry->freed_at_age[age_class(now > born ? now - born : 0)], w->bytes);
    shrunk(control, w->bytes);
}

void fh_site_resized(fh_profile_control *control, uint32_t number, const fh_weight *before, const fh_weight *after,
                     uint64_t age) {
    fh_profile_site *entry = fh_profile_entry(FH_PROFILE_SITES, number);
    if (!entry) return;
    keep_share_of_peak(control, entry);
    if (after->bytes > before->bytes) {
        add(&entry->allocated_bytes, after->bytes - before->bytes);
        add(&entry->allocated_variance, after->variance - before->variance);
        grown(control, after->bytes - before->bytes, fh_load(fh_profile_word(&entry->last_ns)));
    } else {
        add(&entry->freed_bytes, before->bytes - after->bytes);
        add(&entry->freed_at_age[age_class(age)], before->bytes - after->bytes);
        add(&entry->freed_variance, before->variance - after->variance);
        shrunk(control, before->bytes - after->bytes);
    }
}

void fh_sites_clear(void) {
    fh_index_clear(&known);
}

size_t fh_sites_bytes(void) {
    return fh_index_bytes(&known);
}
