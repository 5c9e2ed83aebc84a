#include "store/chunk.h"

#include "base/assert.h"
#include "base/tuning.h"
#include "store/hints.h"
#include "store/limit.h"
#include "store/thp.h"
#include "store/window.h"

/* Lengths of free runs that have a bucket of their own. Between two of them a chunk counts as the shorter. */
static const uint8_t lengths[FH_LENGTHS] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64};
#define NO_LENGTH FH_LENGTHS

unsigned fh_chunk_length(uint64_t free) {
    unsigned longest = fh_longest_run(free);
    if (longest == 0) return NO_LENGTH;
    unsigned length = FH_LENGTHS - 1;
    while (lengths[length] > longest) length--;
    return length;
}

static void enter_bucket(size_t chunk, unsigned length) {
    if (length != NO_LENGTH) fh_hint_set(FH_HINT_LENGTH + length, 1, chunk);
}

/* The chunk is no longer in this bucket, or so it seemed: clears its bit, and enters it where it belongs now. */
static void leave_bucket(size_t chunk, unsigned length) {
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
    if (was != NO_LENGTH && was != now) leave_bucket(chunk, was);
}

/* Places where something aligned to 1, 2, 4 … 64 slots may begin. */
static uint64_t aligned_places(unsigned align) {
    FH_ASSERT(fh_is_power_of_two(align) && align <= FH_CHUNK_SLOTS);
    uint64_t places = 1;
    for (unsigned step = 32; step >= align && step > 0; step /= 2) places |= places << step;
    return places;
}

/* The beginning of the shortest run that holds n slots at an allowed place, lowest first; 64 if there is none. */
static unsigned best_place(uint64_t free, unsigned n, uint64_t allowed) {
    FH_ASSERT((free & ~FH_CHUNK_OPEN) == 0);
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

/* Bookkeeping for slots that this thread has just claimed. True if all of them read as zero. */
static bool account_claim(fh_chunk *chunk, uint64_t mask) {
    /* Relaxed: what was written to `dirty` before the slots were released came to us with the claim (acquire), and no
     * other thread writes these bits while the slots are ours. */
    uint64_t dirty = fh_load(&chunk->dirty) & mask;
    uint64_t purged = fh_load(&chunk->used) & mask & ~dirty;
    FH_ASSERT(mask != 0 && (mask & ~FH_CHUNK_OPEN) == 0);
    FH_ASSERT_COSTLY((dirty & ~fh_load(&chunk->used)) == 0);
    fh_event_claimed(fh_count_bits(mask), fh_count_bits(dirty), fh_count_bits(purged));
    return dirty == 0;
}

/* True if this slot of a chunk whose free word was `free` is the first of its half, which has no memory. */
static bool begins_half(const fh_chunk *chunk, uint64_t free, unsigned place) {
    uint64_t half = fh_low_mask(32) << (place & 32);
    return (free & half) == half && !(fh_load(&chunk->dirty) & half);
}

/* Claims in this chunk: the place, or 64. */
static unsigned claim_in(size_t chunk_index, unsigned n, unsigned align, bool *clean) {
    fh_chunk *chunk = fh_chunk_at(chunk_index);
    uint64_t allowed = aligned_places(align);
    uint64_t free = fh_load(&chunk->free);
    for (;;) {
        unsigned place = best_place(free, n, allowed);
        if (place == 64) return 64;
        uint64_t mask = fh_run_mask(place, n);
        /* acquire: pairs with the release of the thread that released the slots. */
        if (!fh_cas_acquire(&chunk->free, &free, free & ~mask)) continue;
        FH_ASSERT((free & mask) == mask && place % align == 0);
        *clean = account_claim(chunk, mask);
        fh_chunk_changed(chunk_index, free);
        /* Not a large block, which may be memory that the program never touches. */
        if (n == 1 && begins_half(chunk, free, place)) fh_thp_begin_half(chunk_index * FH_CHUNK_SLOTS + place);
        return place;
    }
}

/* True if nothing is left of what these slots were, as must be before they are free. For the assertions. */
static bool is_blank(size_t slot, unsigned n) {
    for (size_t end = slot + n; slot < end; slot++) {
        const fh_slab *slab = fh_slab_at(slot);
        uint64_t bits = fh_load(&slab->state) | fh_byte_load(fh_class_byte(slot));
        for (unsigned w = 0; w < FH_SLAB_WORDS; w++) bits |= fh_load(&slab->free[w]);
        if (bits) return false;
    }
    return true;
}

/* A new chunk, open to all threads, all of it free. False: the OS has no more memory.
 *
 * The thread that brings it does not keep its first slots, but searches again like all others. While one thread waits in
 * the kernel for a chunk, others find no free run either and bring one each. When each took from its own, a thousand
 * threads that began at once took 195 chunks and, a huge page for each, 400 MiB. Now all go to the lowest, and the others
 * are address space that was never touched. */
static bool bring_chunk(void) {
    size_t index = fh_window_take_chunk();
    if (index == FH_NONE) return false;
    FH_ASSERT_COSTLY(is_blank(index * FH_CHUNK_SLOTS, FH_CHUNK_SLOTS));
    fh_thp_begin_chunk(index);
    fh_event_chunk(index);
    /* release: the empty metadata. An exchange and not a store, because a barrier after a locked instruction follows. */
    uint64_t before = fh_swap_acq_rel(&fh_chunk_at(index)->free, FH_CHUNK_OPEN);
    FH_ASSERT(before == 0);
    fh_chunk_changed(index, 0);
    return true;
}

/* Claims in a chunk that there is; FH_NONE if none has so long a run. */
static size_t claim_in_any(unsigned n, unsigned align, bool *clean) {
    /* A chunk with n + align − 1 free slots in a row fits for sure; one with n may. It is tried once, so that an aligned
     * run of exactly n slots is not passed over. */
    for (unsigned length = 0; length < FH_LENGTHS; length++) {
        if (lengths[length] < n) continue;
        bool sure = lengths[length] >= n + align - 1 || lengths[length] == 64;
        for (;;) {
            size_t chunk = fh_hint_find(FH_HINT_LENGTH + length, 1);
            if (chunk == FH_NONE) break;
            unsigned place = claim_in(chunk, n, align, clean);
            if (place < 64) return chunk * FH_CHUNK_SLOTS + place;
            unsigned now = fh_chunk_length(fh_load(&fh_chunk_at(chunk)->free));
            if (now != length) {
                leave_bucket(chunk, length);
            } else if (!sure) {
                break;
            }
        }
    }
    return FH_NONE;
}

static size_t claim(unsigned n, unsigned align, bool *clean) {
    for (;;) {
        size_t slot = claim_in_any(n, align, clean);
        if (slot != FH_NONE || !bring_chunk()) return slot;
    }
}

size_t fh_chunk_claim(unsigned n, unsigned align, bool *clean) {
    FH_ASSERT(n >= 1 && n <= FH_CHUNK_OPEN_SLOTS);
    if (!fh_limit_is_set()) return claim(n, align, clean);
    size_t bytes = n * FH_SLOT_SIZE;
    if (!fh_limit_admit(bytes, n == 1)) return FH_NONE;
    size_t slot = claim(n, align, clean);
    fh_limit_done(bytes);
    return slot;
}

/* As fh_chunk_extend, without asking the limit. */
static bool extend(size_t slot, unsigned n) {
    size_t index = slot / FH_CHUNK_SLOTS;
    unsigned place = slot % FH_CHUNK_SLOTS;
    FH_ASSERT(n >= 1);
    if (place + n > FH_CHUNK_SLOTS) return false;
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t mask = fh_run_mask(place, n), free = fh_load(&chunk->free);
    do {
        if ((free & mask) != mask) return false;
    } while (!fh_cas_acquire(&chunk->free, &free, free & ~mask));
    account_claim(chunk, mask);
    fh_chunk_changed(index, free);
    return true;
}

bool fh_chunk_extend(size_t slot, unsigned n) {
    if (!fh_limit_is_set()) return extend(slot, n);
    if (!fh_limit_admit(n * FH_SLOT_SIZE, false)) return false;
    bool done = extend(slot, n);
    fh_limit_done(n * FH_SLOT_SIZE);
    return done;
}

void fh_chunk_release(size_t slot, unsigned n) {
    FH_ASSERT(n >= 1 && slot % FH_CHUNK_SLOTS + n <= FH_CHUNK_OPEN_SLOTS);
    FH_ASSERT_COSTLY(is_blank(slot, n));
    size_t index = slot / FH_CHUNK_SLOTS;
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t mask = fh_run_mask(slot % FH_CHUNK_SLOTS, n);
    /* While the slots are ours no other thread changes their bits in these two words. */
    if ((fh_load(&chunk->dirty) & mask) != mask) fh_or_release(&chunk->dirty, mask);
    if ((fh_load(&chunk->used) & mask) != mask) fh_or_release(&chunk->used, mask);
    fh_event_released(n);
    /* release: the last use of the memory, and the words above, before it is free. */
    uint64_t before = fh_or_release(&chunk->free, mask);
    FH_ASSERT((before & mask) == 0);
    fh_chunk_changed(index, before);
}

size_t fh_chunk_drop_free(void) {
    size_t dropped = 0;
    for (size_t index = fh_window_chunks(); index-- > 0;) {
        fh_chunk *chunk = fh_chunk_at(index);
        uint64_t all = FH_CHUNK_OPEN;
        /* acquire: as in a claim. One that was never started, or is dropped already, has no free slots. */
        if (!fh_cas_acquire(&chunk->free, &all, 0)) continue;
        fh_chunk_changed(index, all);
        account_claim(chunk, FH_CHUNK_OPEN);
        fh_and_acq_rel(&chunk->dirty, 0);
        fh_and_acq_rel(&chunk->used, 0);
        fh_event_dropped(FH_CHUNK_OPEN_SLOTS);
        fh_window_drop_chunk(index);
        dropped += FH_CHUNK_SIZE;
    }
    return dropped;
}
