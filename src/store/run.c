#include "store/run.h"

#include "base/classes.h"
#include "store/advice.h"
#include "store/idle.h"
#include "store/limit.h"
#include "store/hints.h"
#include "store/purge.h"
#include "store/trim.h"
#include "store/window.h"
#include "system/report.h"

/* Lengths of free runs that have a mark of their own. Between two of them a chunk counts as the shorter. */
static const uint8_t rooms[FH_LENGTHS] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64};
#define NO_ROOM FH_LENGTHS

/* The room of a chunk whose free word is `free`. */
static unsigned room_of(uint64_t free) {
    unsigned longest = fh_longest_run(free);
    if (longest == 0) return NO_ROOM;
    unsigned room = FH_LENGTHS - 1;
    while (rooms[room] > longest) room--;
    return room;
}

/* The chunk is no longer of this room, or so it seemed: clear, look again. */
static void leave_room(size_t chunk, unsigned room) {
    fh_hint_clear(FH_HINT_LENGTH + room, 1, chunk);
    unsigned now = room_of(fh_load_acquire(&fh_chunk_at(chunk)->free));
    if (now != NO_ROOM) fh_hint_set(FH_HINT_LENGTH + now, 1, chunk);
}

/* The chunk's free word was `before` and has just been changed by this thread. Whoever changes it last looks last, so the
 * room that is left marked is the right one; a mark too many is cleared by whoever follows it. */
void fh_run_changed(size_t chunk, uint64_t before) {
    fh_fence_after_rmw();
    unsigned was = room_of(before), now = room_of(fh_load_acquire(&fh_chunk_at(chunk)->free));
    if (now != NO_ROOM) fh_hint_set(FH_HINT_LENGTH + now, 1, chunk);
    if (was != NO_ROOM && was != now) leave_room(chunk, was);
}

/* Places where something aligned to 1, 2, 4 … 64 slots may begin. */
static uint64_t aligned_places(unsigned align) {
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

/* Bookkeeping for slots that this thread has just claimed. True if all of them read as zero. */
static bool account_claim(fh_chunk *chunk, uint64_t mask) {
    /* Relaxed: what was written to `dirty` before the slots were given back came to us with the claim (acquire), and
     * nobody else writes these bits while the slots are ours. */
    uint64_t dirty = fh_load(&chunk->dirty) & mask;
    uint64_t purged = fh_load(&chunk->used) & mask & ~dirty;
    fh_purge_claimed(fh_count_bits(mask), fh_count_bits(dirty), fh_count_bits(purged));
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
        /* acquire: pairs with the release of whoever gave the slots back. */
        if (!fh_cas_acquire(&chunk->free, &free, free & ~mask)) continue;
        *clean = account_claim(chunk, mask);
        fh_run_changed(chunk_index, free);
        /* Not a large block, which may be memory that nobody ever touches. */
        if (n == 1 && begins_half(chunk, free, place)) fh_advice_opened(chunk_index * FH_CHUNK_SLOTS + place);
        return place;
    }
}

/* A heap of less than 16 MiB does not ask how much memory there is, and one of less than 32 looks for no holes. */
#define ASK_FROM 4u
#define LOOK_AROUND_FROM 8u

/* A new chunk for everybody, all of it free. False: the system has no more memory.
 *
 * Who brings it does not keep its first slots, but searches again like everybody else. While one thread waits in the
 * kernel for a chunk, others find no room either and bring one each. When each took from its own, a thousand threads that
 * began at once took 195 chunks and, a huge page for each, 400 MiB; now all go to the lowest, and the others are address
 * space that nobody has touched. */
static bool bring_chunk(void) {
    size_t index = fh_window_take_chunk();
    if (index == FH_NONE) return false;
    fh_advice_new_chunk(index);
    if (index >= ASK_FROM) fh_limit_grown();
    if (index >= LOOK_AROUND_FROM) {
        fh_trim_grown(index);
        fh_idle_grown(index);
    }
    /* release: the empty metadata. An exchange and not a store, because a barrier after a locked instruction follows. */
    fh_swap_acq_rel(&fh_chunk_at(index)->free, ~UINT64_C(0));
    fh_run_changed(index, 0);
    return true;
}

/* Claims in a chunk that there is; FH_NONE if none has room. */
static size_t claim_in_any(unsigned n, unsigned align, bool *clean) {
    /* A chunk with n + align − 1 free slots in a row fits for sure; one with n may. It is tried once, so that an aligned
     * hole of exactly n slots is not passed over. */
    for (unsigned room = 0; room < FH_LENGTHS; room++) {
        if (rooms[room] < n) continue;
        bool sure = rooms[room] >= n + align - 1 || rooms[room] == 64;
        for (;;) {
            size_t chunk = fh_hint_find(FH_HINT_LENGTH + room, 1);
            if (chunk == FH_NONE) break;
            unsigned place = claim_in(chunk, n, align, clean);
            if (place < 64) return chunk * FH_CHUNK_SLOTS + place;
            unsigned now = room_of(fh_load(&fh_chunk_at(chunk)->free));
            if (now != room) {
                leave_room(chunk, room);
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

size_t fh_run_claim(unsigned n, unsigned align, bool *clean) {
    if (FH_UNLIKELY(fh_load(&fh_limit_grouped))) fh_limit_grown();
    if (!fh_limit_is_set()) return claim(n, align, clean);
    size_t bytes = n * FH_SLOT_SIZE;
    if (!fh_limit_admit(bytes, n == 1)) return FH_NONE;
    size_t slot = claim(n, align, clean);
    fh_limit_done(bytes);
    return slot;
}

/* As fh_run_extend, without a look at the limit. */
static bool extend(size_t slot, unsigned n) {
    size_t index = slot / FH_CHUNK_SLOTS;
    unsigned place = slot % FH_CHUNK_SLOTS;
    if (place + n > FH_CHUNK_SLOTS) return false;
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t mask = fh_run_mask(place, n), free = fh_load(&chunk->free);
    do {
        if ((free & mask) != mask) return false;
    } while (!fh_cas_acquire(&chunk->free, &free, free & ~mask));
    account_claim(chunk, mask);
    fh_run_changed(index, free);
    return true;
}

bool fh_run_extend(size_t slot, unsigned n) {
    if (!fh_limit_is_set()) return extend(slot, n);
    if (!fh_limit_admit(n * FH_SLOT_SIZE, false)) return false;
    bool done = extend(slot, n);
    fh_limit_done(n * FH_SLOT_SIZE);
    return done;
}

void fh_run_release(size_t slot, unsigned n) {
    size_t index = slot / FH_CHUNK_SLOTS;
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t mask = fh_run_mask(slot % FH_CHUNK_SLOTS, n);
    /* While the slots are ours nobody else changes their bits in these two words. */
    if ((fh_load(&chunk->dirty) & mask) != mask) fh_or_release(&chunk->dirty, mask);
    if ((fh_load(&chunk->used) & mask) != mask) fh_or_release(&chunk->used, mask);
    fh_purge_released(n);
    /* release: the last use of the memory, and the words above, before it is free. */
    uint64_t before = fh_or_release(&chunk->free, mask);
    fh_run_changed(index, before);
    fh_purge_over_budget();
}

size_t fh_run_drop_free_chunks(void) {
    size_t dropped = 0;
    for (size_t index = fh_window_chunks(); index-- > 0;) {
        fh_chunk *chunk = fh_chunk_at(index);
        uint64_t all = ~UINT64_C(0);
        /* acquire: as in a claim. One that was never started, or is dropped already, has no free slots. */
        if (!fh_cas_acquire(&chunk->free, &all, 0)) continue;
        fh_run_changed(index, all);
        account_claim(chunk, ~UINT64_C(0));
        fh_and_acq_rel(&chunk->dirty, 0);
        fh_and_acq_rel(&chunk->used, 0);
        fh_purge_dropped(FH_CHUNK_SLOTS);
        fh_window_drop_chunk(index);
        dropped += FH_CHUNK_SIZE;
    }
    return dropped;
}

/* ── Large blocks ────────────────────────────────────────────────────────────────────────────────────────────────── */

static unsigned slots_of(size_t size) {
    return (unsigned)((size + FH_SLOT_SIZE - 1) >> FH_SLOT_SHIFT);
}

/* Says what a run's first slot is. Up to 16 slots it has a class, so that free puts it into a magazine. */
static void label(size_t slot, unsigned n) {
    fh_class_set(slot, n <= FH_RUN_CACHED_MAX / FH_SLOT_SIZE && n >= 2 ? fh_class_marked(FH_RUN_FIRST - 2 + n) : 0);
    /* release: a reader of the heap that sees the state sees the class. */
    fh_store_release(&fh_slab_at(slot)->state, fh_state_make(FH_KIND_RUN, n, 0));
}

void *fh_large_alloc(size_t size, size_t align, bool *clean) {
    unsigned n = slots_of(size);
    unsigned align_slots = align > FH_SLOT_SIZE ? (unsigned)(align >> FH_SLOT_SHIFT) : 1;
    size_t slot = fh_run_claim(n, align_slots, clean);
    if (slot == FH_NONE) return NULL;
    label(slot, n);
    return fh_slot_address(slot);
}

size_t fh_large_size(const void *p) {
    if (!fh_in_window(p) || (uintptr_t)p % FH_SLOT_SIZE) return 0;
    size_t slot = fh_slot_of(p);
    if (slot / FH_CHUNK_SLOTS >= fh_window_chunks()) return 0;
    uint64_t state = fh_load(&fh_slab_at(slot)->state);
    return fh_state_kind(state) == FH_KIND_RUN ? fh_state_bump(state) * FH_SLOT_SIZE : 0;
}

void *fh_large_around(const void *p) {
    size_t slot = fh_slot_of(p), first = slot - slot % FH_CHUNK_SLOTS;
    for (size_t s = slot + 1; s-- > first;) {
        char *start = fh_slot_address(s);
        size_t size = fh_large_size(start);
        if (size) return (uintptr_t)p < (uintptr_t)start + size ? start : NULL;
    }
    return NULL;
}

void fh_large_free(void *p) {
    size_t slot = fh_slot_of(p);
    fh_slab *head = fh_slab_at(slot);
    unsigned n = fh_state_bump(fh_load(&head->state));
    fh_class_set(slot, 0);
    fh_store_release(&head->state, 0);
    fh_run_release(slot, n);
}

void fh_large_give(unsigned c, void *p) {
    size_t size = fh_large_size(p);
    if (FH_LIKELY(size == fh_class_size(c))) {
        fh_large_free(p);
        return;
    }
    /* Only the first slot of a run has its class, so p is in that slot, and not at its beginning; or the block has been
     * freed since, and perhaps made anew. */
    void *around = size ? NULL : fh_large_around(p);
    if (around) {
        fh_report_fault(FH_FAULT_INSIDE, NULL, p, (size_t)around, fh_large_size(around));
    } else {
        fh_report_fault(FH_FAULT_DOUBLE_FREE, NULL, p, 0, fh_class_size(c));
    }
}

bool fh_large_resize(void *p, size_t size) {
    size_t slot = fh_slot_of(p);
    unsigned old = fh_state_bump(fh_load(&fh_slab_at(slot)->state)), n = slots_of(size);
    /* What follows the last slot of a chunk belongs to another one. */
    if (slot % FH_CHUNK_SLOTS + n > FH_CHUNK_SLOTS) return false;
    if (n > old && !fh_run_extend(slot + old, n - old)) return false;
    label(slot, n);
    if (n < old) fh_run_release(slot + n, old - n);
    return true;
}
