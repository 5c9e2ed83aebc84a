#include "store/thp.h"

#include "base/assert.h"
#include "base/tuning.h"
#include "store/events.h"
#include "store/window.h"
#include "system/system.h"

#define ADVISED_SHIFT 2
#define ADVISED (UINT64_C(3) << ADVISED_SHIFT)

/* At most FH_ADVISED_CHUNKS. */
static fh_word advised_chunks;

bool fh_thp_is_near(void) {
    size_t used = fh_used_bytes(), young = (size_t)fh_load(&fh_order.thp_first_chunk);
    if (young > FH_YOUNG_CHUNKS) return false; /* no huge page is wanted */
    return used < young * FH_CHUNK_SIZE && used >= young * (FH_CHUNK_SIZE - FH_CHUNK_SIZE / 4);
}

bool fh_thp_is_huge(size_t chunk) {
    return fh_load(&fh_region_at(chunk / FH_REGION_CHUNKS)->huge) >> chunk % FH_REGION_CHUNKS & 1;
}

/* True if so many halves that begin now are to do without. Relaxed: of two threads that count down at once one is lost,
 * which costs one huge page too many or too few. */
static bool pass_over(unsigned halves) {
    uint64_t skip = fh_load(&fh_order.thp_skip);
    if (FH_LIKELY(skip == 0)) return false;
    fh_cas_relaxed(&fh_order.thp_skip, &skip, skip > halves ? skip - halves : 0);
    return true;
}

/* ── Halves that are split ───────────────────────────────────────────────────────────────────────────────────────── */

bool fh_thp_split(size_t index, unsigned half, size_t free) {
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t bit = UINT64_C(1) << half;
    FH_ASSERT(half < 2);
    if (fh_load(&chunk->split) & bit) return true;
    if (free < fh_load(&fh_order.thp_split_bytes)) return false;
    fh_or_acq_rel(&chunk->split, bit);
    return true;
}

static void advise(size_t chunk, unsigned half, bool wanted) {
    size_t slot = chunk * FH_CHUNK_SLOTS + half * FH_CHUNK_SLOTS / 2;
    fh_system_huge_pages(fh_slot_address(slot), FH_HUGE_PAGE, wanted);
}

void fh_thp_keep_split(size_t index, unsigned half) {
    fh_chunk *chunk = fh_chunk_at(index);
    FH_ASSERT(half < 2);
    uint64_t bit = UINT64_C(1) << (ADVISED_SHIFT + half), seen = fh_load(&chunk->split);
    if (seen & bit || !fh_thp_is_huge(index)) return;
    if (!(seen & ADVISED) && fh_load(&advised_chunks) >= FH_ADVISED_CHUNKS) return;
    uint64_t before = fh_or_acq_rel(&chunk->split, bit);
    if (before & bit) return;
    if (!(before & ADVISED)) fh_add_relaxed(&advised_chunks, 1);
    advise(index, half, false);
}

void fh_thp_keep_slots_split(size_t first_slot, size_t last_slot) {
    for (size_t half = first_slot / (FH_CHUNK_SLOTS / 2); half <= last_slot / (FH_CHUNK_SLOTS / 2); half++)
        fh_thp_keep_split(half / 2, half % 2);
}

/* These halves, as bits 0 and 1, are whole again. Returns those about which the kernel was advised. */
static uint64_t forget_split(size_t index, uint64_t halves) {
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t bits = halves | halves << ADVISED_SHIFT, before = fh_and_acq_rel(&chunk->split, ~bits);
    if (before & ADVISED && !(before & ADVISED & ~bits)) {
        uint64_t chunks = fh_sub_relaxed(&advised_chunks, 1);
        FH_ASSERT(chunks >= 1);
    }
    return before >> ADVISED_SHIFT & halves;
}

void fh_thp_join(size_t index, uint64_t halves) {
    if (FH_LIKELY(!fh_load(&fh_chunk_at(index)->split)) || !halves) return;
    uint64_t advised = forget_split(index, halves);
    for (unsigned half = 0; half < 2; half++) {
        if (advised >> half & 1) advise(index, half, true);
    }
}

/* ── Chunks and halves that begin ────────────────────────────────────────────────────────────────────────────────── */

void fh_thp_begin_chunk(size_t chunk) {
    if (FH_UNLIKELY(fh_load(&fh_chunk_at(chunk)->split))) forget_split(chunk, 3);
    FH_ASSERT_COSTLY(fh_load(&fh_chunk_at(chunk)->free) == 0);
    char *p = fh_slot_address(chunk * FH_CHUNK_SLOTS);
    bool wanted = chunk >= fh_load(&fh_order.thp_first_chunk) && !pass_over(2);
    fh_word *huge = &fh_region_at(chunk / FH_REGION_CHUNKS)->huge;
    uint64_t bit = UINT64_C(1) << chunk % FH_REGION_CHUNKS;
    /* The bit is the caller's alone, who has not shown the chunk to any other thread yet. */
    if (((fh_load(huge) & bit) != 0) != wanted) wanted ? fh_or_release(huge, bit) : fh_and_acq_rel(huge, ~bit);
    if (wanted) {
        fh_system_huge_pages(p, FH_CHUNK_SIZE, true);
    } else if (fh_system_huge_pages_always()) {
        fh_system_huge_pages(p, FH_CHUNK_SIZE, false);
    }
}

void fh_thp_begin_half(size_t slot) {
    size_t index = slot / FH_CHUNK_SLOTS;
    unsigned half = slot % FH_CHUNK_SLOTS >= FH_CHUNK_SLOTS / 2;
    if (!fh_thp_is_huge(index) || fh_load(&fh_chunk_at(index)->split) >> half & 1) return;
    if (!fh_load(&fh_order.thp_timed)) return;
    if (pass_over(1)) {
        uint64_t before = fh_or_acq_rel(&fh_chunk_at(index)->split, UINT64_C(1) << half);
        FH_ASSERT(before >> 4 == 0);
        fh_thp_keep_split(index, half);
        return;
    }
    fh_event_touched(fh_system_touch(fh_slot_address(slot)));
}
