#include "cache/shrink.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/settings.h"
#include "store/depot.h"
#include "store/events.h"
#include "store/slab_life.h"
#include "system/system.h"

fh_word fh_shrink_class[FH_BINS];
fh_word fh_contraction;

/* What threads have cached is peak − flushed. The latter is a two's complement: it is below zero while a new peak is being
 * found. */
static fh_word peak;
static fh_word flushed;
static fh_word peak_second; /* when the peak grew last */
static fh_word deepest;     /* the most that was flushed in this contraction */

/* Shrinks class c, of which the word was `seen`. The thread that does so empties its depot. */
static bool shrink_class(unsigned c, uint64_t seen) {
    if (seen & FH_SHRUNK) return true;
    FH_ASSERT(seen != 0); /* one that is in demand has nothing to show for it */
    /* A class that is in demand at this very moment stays as it is. */
    if (!fh_cas_relaxed(&fh_shrink_class[c], &seen, seen | FH_SHRUNK)) return false;
    fh_depot_empty(c);
    return true;
}

bool fh_shrink_count(unsigned c, size_t bytes) {
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_BINS && bytes != 0);
    uint64_t now = fh_add_relaxed(&fh_shrink_class[c], bytes) + bytes;
    if (now & FH_SHRUNK) return true;
    return now >= fh_shrink_limit(fh_is_contracting()) && shrink_class(c, now);
}

bool fh_shrink_pass(unsigned c) {
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_BINS);
    uint64_t seen = fh_load(&fh_shrink_class[c]);
    if (seen == 0) {
        fh_cas_relaxed(&fh_shrink_class[c], &seen, 1);
        return false;
    }
    if (seen & FH_SHRUNK) return true;
    if (!shrink_class(c, seen)) return false;
    /* The last slab of a class stays with it even when all of it is free: there is no demand for it now. */
    if (!fh_class_is_run(c)) fh_slab_release_empty(c);
    return true;
}

static void begin_or_not(size_t now) {
    size_t most = (size_t)fh_load(&peak);
    if (FH_LIKELY(!fh_contraction_begins(now, most, 0, UINT64_MAX))) return;
    uint64_t since_growth = fh_system_seconds() - fh_load(&peak_second);
    /* With purge=eager memory is to go at once, whatever is wanted again. */
    size_t credit = FH_SETTING(purge) == FH_PURGE_EAGER ? 0 : (size_t)fh_load(&fh_order.credit);
    if (!fh_contraction_begins(now, most, credit, since_growth)) return;
    fh_store(&deepest, now);
    fh_store(&fh_contraction, 1);
}

static void continue_or_end(size_t now) {
    size_t most = (size_t)fh_load(&deepest);
    if (now > most) {
        fh_store(&deepest, now);
    } else if (fh_contraction_ends(now, most)) {
        /* What there is now is the new peak. */
        fh_store(&fh_contraction, 0);
        fh_sub_relaxed(&peak, fh_swap_acq_rel(&flushed, 0));
        fh_store(&peak_second, fh_system_seconds());
    }
}

/* Of several threads that find a new peak at once each adds what it has found below zero, and no more than that. */
static void new_peak(void) {
    int64_t below = (int64_t)fh_swap_acq_rel(&flushed, 0);
    fh_sub_relaxed(&peak, (uint64_t)below);
    fh_store(&peak_second, fh_system_seconds());
}

void fh_contraction_count(int64_t bytes) {
    int64_t now = (int64_t)(fh_add_relaxed(&flushed, (uint64_t)bytes) + (uint64_t)bytes);
    if (now < 0) new_peak();
    if (now <= 0 || FH_SETTING(purge) == FH_PURGE_LAZY) return;
    (fh_is_contracting() ? continue_or_end : begin_or_not)((size_t)now);
}
