#include "store/chunk.h"

#include "base/assert.h"
#include "store/hints.h"
#include "store/window.h"

#define NO_LENGTH FH_LENGTHS

/* ── Length buckets ──────────────────────────────────────────────────────────────────────────────────────────────── */

unsigned fh_chunk_bucket_of(unsigned length) {
    FH_ASSERT(length >= 1 && length <= FH_CHUNK_SLOTS);
    return length <= 32 ? length - 1 : 31 + (length - 32) / 2;
}

unsigned fh_chunk_length_of(unsigned bucket) {
    FH_ASSERT(bucket < FH_LENGTHS);
    return bucket <= 31 ? bucket + 1 : 32 + (bucket - 31) * 2;
}

unsigned fh_chunk_length(uint64_t free) {
    /* What is all free or all in use is most of a large heap. */
    if (free == FH_CHUNK_ALL) return FH_LENGTHS - 1;
    return free ? fh_chunk_bucket_of(fh_longest_run(free)) : NO_LENGTH;
}

static void enter_bucket(size_t chunk, unsigned length) {
    if (length != NO_LENGTH) fh_hint_set(FH_HINT_LENGTH + length, 1, chunk);
}

void fh_chunk_leave_bucket(size_t chunk, unsigned length) {
    FH_ASSERT(length < NO_LENGTH);
    fh_hint_clear(FH_HINT_LENGTH + length, 1, chunk);
    enter_bucket(chunk, fh_chunk_length(fh_load_acquire(&fh_chunk_at(chunk)->free)));
}

/* The thread that changes the word last also reads it last, so the right bucket is the one that stays hinted. A hint too many
 * is cleared by the thread that follows it. */
void fh_chunk_changed(size_t chunk, uint64_t before) {
    fh_fence_after_rmw();
    unsigned was = fh_chunk_length(before), now = fh_chunk_length(fh_load_acquire(&fh_chunk_at(chunk)->free));
    enter_bucket(chunk, now);
    if (was != NO_LENGTH && was != now) fh_chunk_leave_bucket(chunk, was);
}

/* ── Claim ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Places where something aligned to 1, 2, 4 … 64 slots may begin. */
static uint64_t aligned_places(unsigned align) {
    FH_ASSERT(fh_is_power_of_two(align) && align <= FH_CHUNK_SLOTS);
    uint64_t places = 1;
    for (unsigned step = 32; step >= align && step > 0; step /= 2) places |= places << step;
    return places;
}

/* The beginning of the shortest run that holds n slots at an allowed place, lowest first; 64 if there is none. */
static unsigned best_place(uint64_t free, unsigned n, uint64_t allowed) {
    uint64_t starts = fh_run_starts(free, n) & allowed;
    unsigned best = 64, best_length = 65;
    while (starts) {
        unsigned place = fh_lowest_bit(starts);
        uint64_t above = ~(free >> place);
        unsigned length = above ? fh_lowest_bit(above) : 64;
        if (length > 64 - place) length = 64 - place;
        if (length < best_length) {
            best = place;
            best_length = length;
        }
        starts &= ~fh_run_mask(place, length);
    }
    return best;
}

unsigned fh_chunk_claim_fit(size_t index, unsigned n, unsigned align, bool bare, uint64_t *before) {
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t allowed = aligned_places(align), free = fh_load(&chunk->free);
    FH_ASSERT(n >= 1 && n <= FH_CHUNK_SLOTS);
    for (;;) {
        /* Relaxed: a slot may get memory, or lose it, before it is ours. Then this was a guess that missed. */
        uint64_t dirty = bare ? fh_load(&chunk->dirty) : 0;
        unsigned place = best_place(free & ~dirty, n, allowed);
        if (place == 64) return 64;
        uint64_t mask = fh_run_mask(place, n);
        /* acquire: pairs with the release of the thread that released the slots. */
        if (!fh_cas_acquire(&chunk->free, &free, free & ~mask)) continue;
        FH_ASSERT((free & mask) == mask && place % align == 0);
        *before = free;
        fh_chunk_changed(index, free);
        return place;
    }
}

bool fh_chunk_claim_exactly(size_t index, uint64_t mask) {
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t free = fh_load(&chunk->free);
    FH_ASSERT(mask != 0);
    do {
        if ((free & mask) != mask) return false;
    } while (!fh_cas_acquire(&chunk->free, &free, free & ~mask)); /* acquire: as above */
    fh_chunk_changed(index, free);
    return true;
}

void fh_chunk_weigh(size_t index, uint64_t mask, fh_chunk_weight *sum) {
    const fh_chunk *chunk = fh_chunk_at(index);
    /* Relaxed: what was written to `dirty` before the slots were released came to us with the claim (acquire), and no
     * other thread writes these bits while the slots are ours. */
    uint64_t dirty = fh_load(&chunk->dirty) & mask, used = fh_load(&chunk->used) & mask;
    FH_ASSERT_COSTLY((dirty & ~used) == 0);
    sum->slots += fh_count_bits(mask);
    sum->dirty += fh_count_bits(dirty);
    sum->purged += fh_count_bits(used & ~dirty);
}

/* ── Release ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* True if nothing is left of what these slots were, as must be before they are free. For the assertions. */
static bool is_blank(size_t chunk, uint64_t mask) {
    for (; mask; mask &= mask - 1) {
        size_t slot = chunk * FH_CHUNK_SLOTS + fh_lowest_bit(mask);
        const fh_slab *slab = fh_slab_at(slot);
        uint64_t bits = fh_load(&slab->state) | fh_load(&slab->pages) | fh_byte_load(fh_class_byte(slot));
        for (unsigned w = 0; w < FH_SLAB_WORDS; w++) bits |= fh_load(&slab->free[w]);
        if (bits) return false;
    }
    return true;
}

void fh_chunk_note(size_t index, uint64_t mask, bool dirty) {
    fh_chunk *chunk = fh_chunk_at(index);
    /* While the slots are ours no other thread changes their bits in these two words. */
    uint64_t was_dirty = fh_load(&chunk->dirty) & mask, was_used = fh_load(&chunk->used) & mask;
    if (dirty) {
        if (was_dirty != mask) fh_or_release(&chunk->dirty, mask);
        if (was_used != mask) fh_or_release(&chunk->used, mask);
    } else {
        /* As if never used: their memory was not purged, but is elsewhere. */
        if (was_dirty) fh_and_acq_rel(&chunk->dirty, ~mask);
        if (was_used) fh_and_acq_rel(&chunk->used, ~mask);
    }
}

void fh_chunk_release(size_t index, uint64_t mask) {
    FH_ASSERT_COSTLY(is_blank(index, mask));
    /* release: the last use of the memory, and the words of fh_chunk_note, before it is free. */
    uint64_t before = fh_or_release(&fh_chunk_at(index)->free, mask);
    FH_ASSERT((before & mask) == 0);
    fh_chunk_changed(index, before);
}

void fh_chunk_open(size_t index) {
    FH_ASSERT_COSTLY(is_blank(index, FH_CHUNK_ALL));
    /* release: the empty metadata. An exchange and not a store, because a barrier after a locked instruction follows. */
    uint64_t before = fh_swap_acq_rel(&fh_chunk_at(index)->free, FH_CHUNK_ALL);
    FH_ASSERT(before == 0);
    fh_chunk_changed(index, 0);
}
