#include "cache/ebb.h"

#include "base/classes.h"
#include "base/settings.h"
#include "store/depot.h"
#include "store/policy.h"
#include "store/purge.h"
#include "store/regret.h"
#include "store/slab.h"
#include "system/system.h"

fh_word fh_ebb_class[FH_BINS];
fh_word fh_retreat;

/* What threads have in hand, in blocks and bins, is peak − given_back. The latter is a two's complement: it is below zero
 * for the moment in which a new peak is found. */
static fh_word peak;
static fh_word given_back;
static fh_word peak_second; /* when the peak grew last */
static fh_word deepest;     /* the most that was given back in this retreat */
static fh_word ebb_second;  /* when a class began to ebb last */
static fh_regret regret;    /* bytes that ebbed and were wanted again soon */

unsigned fh_ebb_bin_blocks(void) {
    uint64_t blocks = fh_load(&fh_retreat);
    return blocks ? (unsigned)blocks : FH_EBB_BLOCKS;
}

/* Makes class c ebb; whoever does so empties its depot. `seen` is what its word was. */
static bool begin(unsigned c, uint64_t seen) {
    if (seen & FH_EBBED) return true;
    /* A class that is wanted at this very moment goes on flowing. */
    if (!fh_cas_relaxed(&fh_ebb_class[c], &seen, seen | FH_EBBED)) return false;
    fh_store(&ebb_second, fh_system_seconds());
    fh_depot_empty(c);
    return true;
}

bool fh_ebb_count(unsigned c, size_t bytes) {
    uint64_t now = fh_add_relaxed(&fh_ebb_class[c], bytes) + bytes;
    if (now & FH_EBBED) return true;
    return now >= fh_ebb_limit(fh_is_retreat()) && begin(c, now);
}

bool fh_ebb_pass(unsigned c) {
    uint64_t seen = fh_load(&fh_ebb_class[c]);
    if (seen == 0) {
        fh_cas_relaxed(&fh_ebb_class[c], &seen, 1);
        return false;
    }
    if (seen & FH_EBBED) return true;
    if (!begin(c, seen)) return false;
    /* The last slab of a class stays with it even when all of it is free: nobody wants it now. */
    if (!fh_class_is_run(c)) fh_slab_release_empty(c);
    return true;
}

void fh_ebb_ends(unsigned c) {
    uint64_t seen = fh_swap_acq_rel(&fh_ebb_class[c], 0);
    if (!(seen & FH_EBBED) || !fh_purge_is_missed(fh_system_seconds() - fh_load(&ebb_second))) return;
    fh_regret_add(&regret, seen & ~FH_EBBED);
}

static void begin_or_not(size_t given) {
    size_t most = (size_t)fh_load(&peak);
    if (FH_LIKELY(!fh_retreat_begins(given, most, 0, UINT64_MAX))) return;
    if (!fh_retreat_begins(given, most, fh_regret_now(&regret), fh_system_seconds() - fh_load(&peak_second))) return;
    fh_store(&deepest, given);
    fh_store(&fh_retreat, fh_retreat_blocks(fh_purge_used_bytes()));
}

static void go_on_or_end(size_t given) {
    size_t most = (size_t)fh_load(&deepest);
    if (given > most) {
        fh_store(&deepest, given);
        fh_store(&fh_retreat, fh_retreat_blocks(fh_purge_used_bytes()));
    } else if (fh_retreat_ends(given, most)) {
        /* What there is now is the new peak. */
        fh_store(&fh_retreat, 0);
        fh_sub_relaxed(&peak, fh_swap_acq_rel(&given_back, 0));
        fh_store(&peak_second, fh_system_seconds());
    }
}

/* Of several threads that find a new peak at once each adds what it has found below zero, and no more than that. */
static void new_peak(void) {
    int64_t below = (int64_t)fh_swap_acq_rel(&given_back, 0);
    fh_sub_relaxed(&peak, (uint64_t)below);
    fh_store(&peak_second, fh_system_seconds());
}

void fh_retreat_note(int64_t bytes) {
    int64_t now = (int64_t)(fh_add_relaxed(&given_back, (uint64_t)bytes) + (uint64_t)bytes);
    if (now < 0) new_peak();
    if (now <= 0 || fh_settings.purge == FH_PURGE_LAZY) return;
    (fh_is_retreat() ? go_on_or_end : begin_or_not)((size_t)now);
}
