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

/* ── The peak ────────────────────────────────────────────────────────────────────────────────────────────────────────
 *
 *     control.live_bytes    Σ over all sites of what is live. acq_rel: who changes it sees the peaks that were before
 *     control.peak_number   the highest live_bytes that was noted: a peak is named by its bytes, so one step makes it and
 *                           says which
 *     site.peak_of          peak_number when the site last kept its share of one
 *
 * A peak lasts until live_bytes falls. The thread that reached it may be stopped before it notes it. So the thread that lets
 * the sum fall notes it first: from the very value that it takes away from. A site keeps its share before its own sums change. A thread
 * that is stopped between the two sums leaves one of them too high by its one sample: so far a share may be off, for
 * each such thread, in a figure that is an estimate of many. */

/* Raises the word to n, and is true if it was below. relaxed: live_bytes is what orders it. */
static bool raise_to(uint64_t *word, uint64_t n) {
    uint64_t was = fh_load(fh_profile_word(word));
    while (was < n) {
        if (fh_cas_relaxed(fh_profile_word(word), &was, n)) return true;
    }
    return false;
}

static void note_peak(fh_profile_control *control, uint64_t live, uint64_t now) {
    if (!raise_to(&control->peak_number, live)) return;
    raise_to(&control->peak_bytes, live);
    raise_to(&control->peak_ns, now);
}

/* Writes the site's part of a peak over what was there. A thread that was stopped before it wrote the part of an earlier
 * peak does not write it over this one; if it just did, it is written over. */
static void put_share(fh_profile_site *entry, uint64_t number, uint64_t *word, uint64_t was, uint64_t share) {
    while (!fh_cas_relaxed(fh_profile_word(word), &was, share) && fh_load(fh_profile_word(&entry->peak_of)) == number) {
    }
}

static void keep_share_of_peak(fh_profile_control *control, fh_profile_site *entry) {
    uint64_t number = fh_load(fh_profile_word(&control->peak_number));
    uint64_t of = fh_load(fh_profile_word(&entry->peak_of));
    while (FH_UNLIKELY(of < number)) {
        uint64_t old_bytes = fh_load(fh_profile_word(&entry->peak_bytes));
        uint64_t old_blocks = fh_load(fh_profile_word(&entry->peak_blocks));
        /* Read before the one step that says whose share it is. */
        uint64_t bytes = difference(&entry->allocated_bytes, &entry->freed_bytes);
        uint64_t blocks = difference(&entry->allocated_blocks, &entry->freed_blocks);
        if (!fh_cas_relaxed(fh_profile_word(&entry->peak_of), &of, number)) continue;
        put_share(entry, number, &entry->peak_bytes, old_bytes, bytes);
        put_share(entry, number, &entry->peak_blocks, old_blocks, blocks);
        return;
    }
}

/* After the site's sum has grown. */
static void grown(fh_profile_control *control, uint64_t bytes, uint64_t now) {
    note_peak(control, fh_add_acq_rel(fh_profile_word(&control->live_bytes), bytes) + bytes, now);
}

/* Before the site's sum shrinks. */
static void shrink(fh_profile_control *control, fh_profile_site *entry, uint64_t bytes, uint64_t now) {
    uint64_t live = fh_load(fh_profile_word(&control->live_bytes));
    do {
        note_peak(control, live, now);
    } while (!fh_cas_acq_rel(fh_profile_word(&control->live_bytes), &live, live - bytes));
    FH_ASSERT(live >= bytes); /* a sample counts before it can be found */
    keep_share_of_peak(control, entry);
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
    shrink(control, entry, w->bytes, now);
    add(&entry->freed_samples, 1);
    add(&entry->freed_bytes, w->bytes);
    add(&entry->freed_blocks, w->blocks);
    add(&entry->freed_variance, w->variance);
    add(&entry->freed_at_age[age_class(now > born ? now - born : 0)], w->bytes);
}

void fh_site_resized(fh_profile_control *control, uint32_t number, const fh_weight *before, const fh_weight *after,
                     uint64_t age) {
    fh_profile_site *entry = fh_profile_entry(FH_PROFILE_SITES, number);
    if (!entry) return;
    uint64_t last = fh_load(fh_profile_word(&entry->last_ns));
    if (after->bytes > before->bytes) {
        keep_share_of_peak(control, entry);
        add(&entry->allocated_bytes, after->bytes - before->bytes);
        add(&entry->allocated_variance, after->variance - before->variance);
        grown(control, after->bytes - before->bytes, last);
    } else {
        shrink(control, entry, before->bytes - after->bytes, last);
        add(&entry->freed_bytes, before->bytes - after->bytes);
        add(&entry->freed_at_age[age_class(age)], before->bytes - after->bytes);
        add(&entry->freed_variance, before->variance - after->variance);
    }
}

void fh_sites_clear(void) {
    fh_index_clear(&known);
}

size_t fh_sites_bytes(void) {
    return fh_index_bytes(&known);
}
