#include "reclaim/trim.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/settings.h"
#include "base/tuning.h"
#include "reclaim/budget.h"
#include "reclaim/idle.h"
#include "store/depot.h"
#include "store/pages.h"
#include "store/purge.h"
#include "store/slab_life.h"
#include "store/thp.h"
#include "store/window.h"

#define HALF (FH_CHUNK_SLOTS / 2)

/* Half of a chunk, the 2 MiB of a huge page. Unless `split` says that it may cost that page, there must be enough to gain. */
static size_t trim_half(size_t first, bool split) {
    FH_ASSERT(first % HALF == 0);
    size_t chunk = first / FH_CHUNK_SLOTS, free = split ? FH_HUGE_PAGE : 0;
    if (fh_thp_is_huge(chunk)) {
        for (size_t slot = first; slot < first + HALF && !split; slot++) free += fh_pages_free_bytes(slot);
        if (!free || !fh_thp_split(chunk, first / HALF % 2, free)) return 0;
    }
    return fh_pages_purge_half(first);
}

static size_t trim_halves(bool split) {
    size_t purged = 0;
    for (size_t chunk = 0; chunk < fh_window_chunks(); chunk++) {
        if (fh_load(&fh_chunk_at(chunk)->free) == FH_CHUNK_ALL) continue;
        if (fh_chunk_first_own(chunk) == (chunk + 1) * FH_CHUNK_SLOTS) continue; /* in the middle of a large block */
        purged += trim_half(chunk * FH_CHUNK_SLOTS, split) + trim_half(chunk * FH_CHUNK_SLOTS + HALF, split);
    }
    return purged;
}

size_t fh_trim_inside(void) {
    return trim_halves(true);
}

/* Bytes in the slab with that state, and of them in free blocks. */
static void weigh(size_t slot, uint64_t state, size_t *used, size_t *free) {
    unsigned c = fh_state_class(state), bump = fh_state_bump(state);
    if (c < 1 || c > FH_SMALL_LAST) return;
    FH_ASSERT(bump >= 1 && bump <= fh_class_table[c].blocks);
    for (unsigned w = 0; w < fh_slab_words(bump); w++)
        *free += fh_count_bits(fh_load(&fh_slab_at(slot)->free[w])) * fh_class_size(c);
    *used += bump * fh_class_size(c);
}

/* In a large heap every eighth chunk is weighed: reading all records would be noticed where a heap grows for good. In a small
 * one more of them, because a sample of four or five chunks is a game of dice. */
static size_t chunks_a_sample(size_t chunks) {
    size_t step = chunks < 64 ? 1 : chunks / 32;
    return step < FH_INSIDE_EVERY ? step : FH_INSIDE_EVERY;
}

void fh_trim_grown(void) {
    static fh_word last;
    size_t chunks = fh_window_chunks() - 1, used = 0, free = 0; /* the last has just come */
    uint64_t then = fh_load(&last), state;
    if (FH_LIKELY(!fh_inside_is_due(chunks, (size_t)then)) || FH_SETTING(purge) == FH_PURGE_LAZY) return;
    /* One thread moves the figure and does it; the others continue. */
    if (!fh_cas_relaxed(&last, &then, chunks)) return;
    size_t step = chunks_a_sample(chunks);
    for (size_t slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE; slot++) {
        if (slot / FH_CHUNK_SLOTS % step == 0) {
            weigh(slot, state, &used, &free);
        } else {
            slot |= FH_CHUNK_SLOTS - 1;
        }
    }
    if (used && fh_inside_pays(free, used)) trim_halves(false);
}

void fh_trim_caches(void) {
    /* The depots first: their magazines are in slabs too, of the classes behind the bins. */
    for (unsigned c = 1; c < FH_BINS; c++) fh_depot_empty(c);
    for (unsigned c = 1; c < FH_CLASSES; c++) {
        if (!fh_class_is_run(c)) fh_slab_release_empty(c);
    }
}

/* What is counted as purged is the program's memory; this comes on top. */
static void forget_chunks(void) {
    for (size_t chunk = 0; chunk < fh_window_chunks(); chunk++) fh_chunk_forget(chunk);
}

size_t fh_trim(size_t keep) {
    if (fh_window_chunks()) fh_trim_caches();
    size_t purged = fh_idle_purge_to(keep) + fh_trim_inside();
    forget_chunks();
    return purged;
}
