#include "cache/twice.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/settings.h"
#include "cache/cache.h"
#include "store/depot.h"
#include "store/window.h"
#include "system/report.h"

#include <string.h>

/* True if the place is among the first n of m, and holds p. */
static bool is_at(void *const *place, const fh_magazine *m, size_t n, const void *p) {
    return place >= m->block && place < m->block + n && *place == p;
}

/* The same for the depot, if it looks as if it were there. */
static bool is_in_depot(void *const *place, unsigned c, const void *p) {
    return FH_UNLIKELY(fh_place_holds(place, p)) && fh_depot_holds(c, place, p);
}

bool fh_twice_known(fh_thread *t, unsigned c, const void *p) {
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_BINS && t->head.watched_slots);
    const uint16_t *last = fh_last_place(t->bin, fh_place_index(p));
    const fh_magazine *loaded = t->rack[c].loaded, *previous = t->rack[c].previous;
    if (loaded) {
        void *const *place = fh_place_near(loaded->block, last);
        if (is_at(place, loaded, (size_t)(t->bin[c].top - loaded->block), p)) return true;
        if (previous && is_at(fh_place_near(previous->block, last), previous, previous->count, p)) return true;
        return is_in_depot(place, c, p);
    }
    return previous && is_at(fh_place_near(previous->block, last), previous, previous->count, p);
}

bool fh_bin_has(const fh_thread *t, unsigned c, const void *p) {
    for (void **q = t->bin[c].top; q[-1]; q--) {
        if (q[-1] == p) return true;
    }
    const fh_magazine *m = t->rack[c].previous;
    for (unsigned i = 0; m && i < m->count; i++) {
        if (m->block[i] == p) return true;
    }
    return false;
}

bool fh_twice_is_free(fh_thread *t, unsigned c, const void *p) {
    if (FH_LIKELY(t->head.watched_slots)) return fh_twice_known(t, c, p);
    return !t->head.unwatched_slots && fh_bin_has(t, c, p);
}

void fh_twice_note(fh_thread *t, void *const *places, size_t n) {
    if (!t->head.watched_slots) return;
    for (size_t i = 0; i < n; i++) *fh_last_place(t->bin, fh_place_index(places[i])) = (uint16_t)(uintptr_t)&places[i];
}

void fh_twice_forget(fh_thread *t, unsigned c, unsigned near) {
    const fh_magazine *loaded = t->rack[c].loaded, *previous = t->rack[c].previous;
    if (!t->head.watched_slots || loaded->capacity < FH_FORGET_FROM || !fh_depot_is_shared(c, near)) return;
    for (size_t i = 0; i < FH_PLACES; i++) t->last_place[i] = (uint16_t)(uintptr_t)loaded->block;
    /* In other 64 KiB its places are not found, and would be looked for among those of others. */
    if (previous && fh_in_same_reach(previous, loaded)) fh_twice_note(t, previous->block, previous->count);
}

/* Takes out the block in place i, which is in the magazine twice. */
static size_t take_out(unsigned c, void **places, size_t n, size_t i) {
    fh_report_fault(FH_FAULT_DOUBLE_FREE, NULL, places[i], 0, fh_class_size(c));
    places[i] = places[--n];
    places[n] = NULL;
    return n;
}

size_t fh_twice_look(fh_thread *t, unsigned c, void **places, size_t n) {
    if (!t->head.watched_slots) return n;
    for (size_t i = 0; i < n;) {
        uint16_t *last = fh_last_place(t->bin, fh_place_index(places[i]));
        void *const *before = fh_place_near(&places[i], last);
        if (before >= places && before < places + i && *before == places[i]) {
            n = take_out(c, places, n, i);
            continue;
        }
        *last = (uint16_t)(uintptr_t)&places[i++];
    }
    return n;
}

size_t fh_twice_look_at_some(fh_thread *t, unsigned c, void **places, size_t n, unsigned turn) {
    if (!t->head.watched_slots) return n;
    size_t part = turn % FH_LOOK_EVERY, i = n * part / FH_LOOK_EVERY, end = n * (part + 1) / FH_LOOK_EVERY;
    for (; i < end; i++) {
        void *const *noted = fh_place_near(&places[i], fh_last_place(t->bin, fh_place_index(places[i])));
        bool other = noted != &places[i] && noted >= places && noted < places + n;
        if (FH_UNLIKELY(other && *noted == places[i])) return take_out(c, places, n, i);
    }
    return n;
}

/* ── When ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void set(fh_thread *t, uint64_t watched, uint64_t unwatched) {
    t->head = (fh_row_head){.watched_slots = watched, .unwatched_slots = unwatched};
    /* Of a thread that was never observed nothing is written there, so that it has no memory for its decoys. */
    if (FH_UNLIKELY(fh_bins() == t->decoy)) t->decoy_head = t->head;
}

/* The thread is young no more. */
static void begin(fh_thread *t) {
    memset(t->last_place, 0, FH_PLACES * sizeof t->last_place[0]);
    set(t, fh_load(&fh_class_slots), 0);
    for (unsigned c = 1; c < FH_BINS; c++) {
        const fh_magazine *loaded = t->rack[c].loaded, *previous = t->rack[c].previous;
        if (loaded) fh_twice_note(t, loaded->block, (size_t)(t->bin[c].top - loaded->block));
        if (previous) fh_twice_note(t, previous->block, previous->count);
    }
}

void fh_twice_set(fh_thread *t) {
    uint64_t slots = fh_load(&fh_class_slots);
    if (FH_SETTING(double_free) == FH_DOUBLE_FREE_FLUSH) {
        set(t, 0, slots);
    } else if (t->young) {
        set(t, 0, 0);
    } else if (t->head.watched_slots) {
        set(t, slots, 0);
    } else {
        begin(t);
    }
}

void fh_twice_count(fh_thread *t) {
    if (t->young && !t->head.unwatched_slots && --t->young == 0) begin(t);
}
