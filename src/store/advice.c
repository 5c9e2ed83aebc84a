#include "store/advice.h"

#include "base/settings.h"
#include "store/limit.h"
#include "store/policy.h"
#include "store/purge.h"
#include "store/window.h"
#include "system/system.h"

/* The first chunks stay on small pages: a small process pays for what it touches, not for 2 MiB. With four of them a cold
 * start of 200 MB took 1.15 of the time that it takes with huge pages from the first byte, with two 1.04. */
#define YOUNG_CHUNKS 2u

static char *address_of(size_t chunk, unsigned half) {
    return fh_slot_address(chunk * FH_CHUNK_SLOTS + half * FH_CHUNK_SLOTS / 2);
}

bool fh_advice_huge_is_near(void) {
    size_t used = fh_purge_used_bytes(), young = YOUNG_CHUNKS * FH_CHUNK_SIZE;
    return used < young && used >= young - young / 4;
}

bool fh_advice_is_huge(size_t chunk) {
    return fh_load(&fh_region_at(chunk / FH_REGION_CHUNKS)->huge) >> chunk % FH_REGION_CHUNKS & 1;
}

/* ── Huge pages that are slow to come ────────────────────────────────────────────────────────────────────────────── */

/* How the last ones came and how many are to be passed over; see policy.h. Relaxed: a figure to steer by. Of two threads
 * that bring it up to date at once one is lost, which costs one huge page too many or too few. */
static fh_word patience;

/* True if so many halves that begin now are to do without. Only for thp=auto: the other settings do not look. */
static bool passes_over(unsigned halves) {
    uint64_t seen = fh_load(&patience);
    if (FH_LIKELY(!fh_patience_passes_over(seen))) return false;
    fh_cas_relaxed(&patience, &seen, fh_patience_passed(seen, halves));
    return true;
}

/* ── Huge pages that stay split ──────────────────────────────────────────────────────────────────────────────────── */

bool fh_advice_may_split(size_t index, unsigned half, size_t free) {
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t bit = UINT64_C(1) << half;
    if (fh_load(&chunk->split) & bit) return true;
    if (!fh_split_pays(free) && fh_limit_pressure() == FH_PRESSURE_NONE) return false;
    fh_or_acq_rel(&chunk->split, bit);
    return true;
}

/* The kernel gathers small pages into huge ones where these were asked for, from a single page in 2 MiB on and while the
 * program sleeps: of 2.2 MiB that were left after a burst it made 28. So a half of which pages went back one by one is
 * excepted before the first of them goes, and asked for again when all of it has gone. The same is done to a half that
 * begins while huge pages are slow.
 *
 *     not told ──▶ told        by fetch_or, by whoever gives pages of the half back or begins it, and therefore holds a
 *                              part of it
 *     told ──▶ not told        by fetch_and, by whoever purges the half whole and therefore holds all of it; or with a
 *                              chunk that is started anew
 *
 * The two never meet, so the kernel hears the advice in the order of the bits. A second one that gives pages back at the
 * same moment may be ahead of the advice; the kernel takes seconds to get there. */
#define TOLD_SHIFT 2
#define TOLD (UINT64_C(3) << TOLD_SHIFT)

/* A part with other advice is a mapping of its own, and there may be 65,530. So many chunks may have such parts, which are
 * two more mappings each at most, as neighbours with the same advice are one. */
#define MOST_TOLD_CHUNKS 1024u
static fh_word told_chunks;

static void tell(size_t chunk, unsigned half, bool wanted) {
    fh_system_huge_pages(address_of(chunk, half), FH_HUGE_PAGE, wanted);
}

void fh_advice_stay_split(size_t index, unsigned half) {
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t bit = UINT64_C(1) << (TOLD_SHIFT + half), seen = fh_load(&chunk->split);
    if (seen & bit || !fh_advice_is_huge(index)) return;
    if (!(seen & TOLD) && fh_load(&told_chunks) >= MOST_TOLD_CHUNKS) return;
    uint64_t before = fh_or_acq_rel(&chunk->split, bit);
    if (before & bit) return;
    if (!(before & TOLD)) fh_add_relaxed(&told_chunks, 1);
    tell(index, half, false);
}

void fh_advice_splits(size_t first_slot, size_t last_slot) {
    for (size_t half = first_slot / (FH_CHUNK_SLOTS / 2); half <= last_slot / (FH_CHUNK_SLOTS / 2); half++)
        fh_advice_stay_split(half / 2, half % 2);
}

/* These halves, as bits 0 and 1, are whole again. Returns those of which the kernel was told. */
static uint64_t forget_split(size_t index, uint64_t halves) {
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t bits = halves | halves << TOLD_SHIFT, before = fh_and_acq_rel(&chunk->split, ~bits);
    if (before & TOLD && !(before & TOLD & ~bits)) fh_sub_relaxed(&told_chunks, 1);
    return before >> TOLD_SHIFT & halves;
}

void fh_advice_whole_again(size_t index, uint64_t halves) {
    if (FH_LIKELY(!fh_load(&fh_chunk_at(index)->split)) || !halves) return;
    uint64_t told = forget_split(index, halves);
    for (unsigned half = 0; half < 2; half++) {
        if (told >> half & 1) tell(index, half, true);
    }
}

/* ── Halves and chunks that begin ──────────────────────────────────────────────────────────────────────────────────── */

void fh_advice_new_chunk(size_t chunk) {
    if (FH_UNLIKELY(fh_load(&fh_chunk_at(chunk)->split))) forget_split(chunk, 3);
    char *p = fh_slot_address(chunk * FH_CHUNK_SLOTS);
    bool grown = chunk >= YOUNG_CHUNKS && fh_purge_huge_pages_fit(fh_settings.limit);
    bool wanted = fh_settings.thp == FH_THP_ALWAYS || (fh_settings.thp == FH_THP_AUTO && grown && !passes_over(2));
    fh_word *huge = &fh_region_at(chunk / FH_REGION_CHUNKS)->huge;
    uint64_t bit = UINT64_C(1) << chunk % FH_REGION_CHUNKS;
    /* The bit is the caller's alone, who has not shown the chunk to anybody yet. */
    if (((fh_load(huge) & bit) != 0) != wanted) wanted ? fh_or_release(huge, bit) : fh_and_acq_rel(huge, ~bit);
    if (wanted) {
        fh_system_huge_pages(p, FH_CHUNK_SIZE, true);
    } else if (fh_system_huge_pages_always()) {
        fh_system_huge_pages(p, FH_CHUNK_SIZE, false);
    }
}

void fh_advice_opened(size_t slot) {
    size_t index = slot / FH_CHUNK_SLOTS;
    unsigned half = slot % FH_CHUNK_SLOTS >= FH_CHUNK_SLOTS / 2;
    if (!fh_advice_is_huge(index) || fh_load(&fh_chunk_at(index)->split) >> half & 1) return;
    if (fh_settings.thp != FH_THP_AUTO) return;
    if (passes_over(1)) {
        fh_or_acq_rel(&fh_chunk_at(index)->split, UINT64_C(1) << half);
        fh_advice_stay_split(index, half);
        return;
    }
    uint64_t seen = fh_load(&patience), now = fh_patience_after(seen, fh_system_touch(fh_slot_address(slot)));
    if (FH_UNLIKELY(now != seen)) fh_cas_relaxed(&patience, &seen, now);
}
