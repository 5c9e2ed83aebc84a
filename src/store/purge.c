#include "store/purge.h"

#include "base/assert.h"
#include "base/tuning.h"
#include "store/chunk.h"
#include "store/events.h"
#include "store/thp.h"
#include "store/window.h"
#include "system/system.h"

#include <string.h>

/* Of these slots, those that fill a whole half of the chunk: 2 MiB, a huge page. */
static uint64_t whole_halves(uint64_t slots) {
    uint64_t low = fh_low_mask(32), high = ~low;
    return ((slots & low) == low ? low : 0) | ((slots & high) == high ? high : 0);
}

/* The halves in which any of these slots is, whole. */
static uint64_t touched_halves(uint64_t slots) {
    uint64_t low = fh_low_mask(32);
    return (slots & low ? low : 0) | (slots & ~low ? ~low : 0);
}

/* Of these free slots of a chunk on huge pages, those that may be taken when they are not a whole half. */
static uint64_t worth_splitting(size_t index, uint64_t slots, uint64_t free, fh_purge_extent most) {
    uint64_t whole = whole_halves(free);
    for (unsigned half = 0; half < 2; half++) {
        uint64_t mask = fh_low_mask(32) << 32 * half;
        if (whole & mask || !(slots & mask)) continue;
        size_t bytes = most == FH_PURGE_EVERYTHING ? FH_HUGE_PAGE : fh_count_bits(slots & mask) * FH_SLOT_SIZE;
        if (most == FH_PURGE_WHOLE_ONES || !fh_thp_split(index, half, bytes)) slots &= ~mask;
    }
    return slots;
}

/* ── Pages that were moved ───────────────────────────────────────────────────────────────────────────────────────── */

/* At most FH_MOVED_CHUNKS, and those of the last move. */
static fh_word moved_chunks;

bool fh_purge_may_move(void) {
    return fh_load(&moved_chunks) < FH_MOVED_CHUNKS;
}

/* These slots, in one chunk, may be in a mapping of their own. */
static void note_moved(size_t slot, unsigned n) {
    fh_chunk *chunk = fh_chunk_at(slot / FH_CHUNK_SLOTS);
    fh_add_relaxed(&chunk->pieces, 1);
    if (!fh_or_acq_rel(&chunk->moved, fh_run_mask(slot % FH_CHUNK_SLOTS, n))) fh_add_relaxed(&moved_chunks, 1);
}

/* What is copied or left out: 4 KiB, whatever the OS's page is. */
#define COPIED ((size_t)4096)

static bool is_zero_page(const char *page) {
    const uint64_t *words = (const uint64_t *)(const void *)page;
    return words[0] == 0 && memcmp(words, words + 1, COPIED - sizeof *words) == 0;
}

void fh_purge_copy(char *to, const char *from, size_t bytes, bool clean) {
    FH_ASSERT(bytes % COPIED == 0);
    for (size_t at = 0, end; at < bytes; at = end) {
        for (end = at; end < bytes && !is_zero_page(from + end);) end += COPIED;
        if (end > at) {
            memcpy(to + at, from + at, end - at);
            continue;
        }
        end = at + COPIED;
        if (!clean && !is_zero_page(to + at)) memset(to + at, 0, COPIED);
    }
}

/* Slots that are in one chunk, and go to places in one chunk. */
static bool move_piece(size_t from, unsigned n, size_t to) {
    char *p = fh_slot_address(from), *q = fh_slot_address(to);
    bool may = fh_load(&fh_chunk_at(to / FH_CHUNK_SLOTS)->pieces) < FH_MOVED_PIECES;
    fh_move answer = may ? fh_system_move(p, n * FH_SLOT_SIZE, q) : FH_NOT_MOVED;
    if (answer == FH_MOVED) note_moved(to, n);
    if (answer == FH_NOT_MOVED) {
        fh_purge_copy(q, p, n * FH_SLOT_SIZE, true);
        fh_system_purge(p, n * FH_SLOT_SIZE);
    }
    return answer != FH_PLACE_LOST;
}

bool fh_purge_move(size_t from, size_t n, size_t to) {
    size_t moved = 0;
    while (n > 0) {
        unsigned here = FH_CHUNK_SLOTS - from % FH_CHUNK_SLOTS, there = FH_CHUNK_SLOTS - to % FH_CHUNK_SLOTS;
        if (here > there) here = there;
        if (here > n) here = (unsigned)n;
        if (!move_piece(from, here, to)) {
            memcpy(fh_slot_address(from - moved), fh_slot_address(to - moved), moved * FH_SLOT_SIZE);
            return false;
        }
        from += here;
        to += here;
        moved += here;
        n -= here;
    }
    return true;
}

static void forget_moved(size_t index, uint64_t mask) {
    uint64_t before = fh_and_acq_rel(&fh_chunk_at(index)->moved, ~mask);
    if (before && !(before & ~mask)) {
        fh_store(&fh_chunk_at(index)->pieces, 0); /* a piece that comes at this moment is not counted */
        uint64_t chunks = fh_sub_relaxed(&moved_chunks, 1);
        FH_ASSERT(chunks >= 1);
    }
}

void fh_purge_forget_moved(size_t index) {
    if (FH_UNLIKELY(fh_load(&fh_chunk_at(index)->moved))) forget_moved(index, FH_CHUNK_ALL);
}

/* Maps these slots of the caller's afresh. What was advised about huge pages is said again. */
static void map_afresh(size_t index, uint64_t mask, char *p, size_t bytes) {
    uint64_t low = fh_low_mask(FH_CHUNK_SLOTS / 2), split = fh_load(&fh_chunk_at(index)->split);
    bool is_split = (mask & low && split & 1) || (mask & ~low && split & 2);
    (void)fh_system_renew(p, bytes);
    if (fh_thp_is_huge(index) && !is_split) fh_system_huge_pages(p, bytes, true);
    forget_moved(index, mask);
}

/* Of slots that were moved, these are in the middle. Mapped afresh they would make three mappings of one. */
static bool is_in_the_middle(uint64_t moved, uint64_t mask) {
    return !(mask & ~moved) && mask << 1 & ~mask & moved && mask >> 1 & ~mask & moved;
}

/* ── Purging ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Purges these slots, all stretches of them together. */
static void purge_stretches(size_t index, uint64_t slots) {
    fh_piece piece[FH_CHUNK_SLOTS / 2];
    unsigned pieces = 0;
    while (slots) {
        unsigned place = fh_lowest_bit(slots);
        uint64_t above = ~(slots >> place);
        unsigned n = above ? fh_lowest_bit(above) : 64;
        if (n > 64 - place) n = 64 - place;
        uint64_t mask = fh_run_mask(place, n);
        FH_ASSERT(n >= 1);
        char *p = fh_slot_address(index * FH_CHUNK_SLOTS + place);
        uint64_t moved = fh_load(&fh_chunk_at(index)->moved);
        if (FH_UNLIKELY(moved & mask) && !is_in_the_middle(moved, mask)) {
            map_afresh(index, mask, p, n * FH_SLOT_SIZE);
        } else {
            piece[pieces++] = (fh_piece){p, n * FH_SLOT_SIZE};
        }
        slots &= ~mask;
    }
    fh_system_purge_pieces(piece, pieces);
}

/* On huge pages a slot that was never written to has memory all the same when a neighbour was. So there all free slots of a
 * half are purged that has a dirty one: without that a heap of 1.5 MiB blocks kept a quarter of its peak for ever. */
unsigned fh_chunk_purge(size_t index, fh_purge_extent most, size_t wanted) {
    bool huge = fh_thp_is_huge(index);
    uint64_t low = fh_low_mask(FH_CHUNK_SLOTS / 2);
    fh_chunk *chunk = fh_chunk_at(index);
    uint64_t free = fh_load(&chunk->free), take;
    do {
        take = free & fh_load(&chunk->dirty);
        /* A half counts as whole when all of it is free, be it dirty or not. */
        if (huge) take = worth_splitting(index, free & touched_halves(take), free, most);
        if (!take) return 0;
        take |= free & fh_load(&chunk->moved); /* perhaps they can be mapped afresh now */
        if (most == FH_PURGE_WHOLE_ONES && wanted <= FH_CHUNK_SLOTS / 2 && take & ~low) take &= ~low;
    } while (!fh_cas_acquire(&chunk->free, &free, free & ~take)); /* acquire: as in chunk.c's claim */
    FH_ASSERT((take & ~free) == 0);
    fh_chunk_changed(index, free);
    uint64_t whole = whole_halves(take);
    for (unsigned half = 0; half < 2 && huge; half++) {
        uint64_t mask = low << 32 * half;
        if (take & ~whole & mask) fh_thp_keep_split(index, half);
    }
    bool again = whole == FH_CHUNK_ALL && !huge && fh_thp_is_filled(index);
    purge_stretches(index, take);
    fh_thp_join(index, (whole & low ? 1 : 0) | (whole & ~low ? 2 : 0));
    if (again) fh_thp_again(index);
    /* Some of them may have been purged by another thread since `dirty` was read, and be free again. Of each slot only
     * the thread that clears its bit counts it. */
    uint64_t cleared = fh_and_acq_rel(&chunk->dirty, ~take) & take;
    fh_event_purged(fh_count_bits(cleared));
    uint64_t before = fh_or_release(&chunk->free, take); /* release: the purge before another claim of the slots */
    FH_ASSERT((before & take) == 0);
    fh_chunk_changed(index, before);
    return fh_count_bits(take);
}

/* ── Metadata ────────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_chunk_forget(size_t index) {
    const fh_chunk *chunk = fh_chunk_at(index);
    if (!fh_load(&chunk->used) || fh_load(&chunk->free) != FH_CHUNK_ALL) return;
    if (!fh_chunk_claim_exactly(index, FH_CHUNK_ALL)) return;
    size_t page = fh_system_page_size(), begin = (size_t)(uintptr_t)fh_slab_at(index * FH_CHUNK_SLOTS);
    size_t end = begin + sizeof(fh_slab[FH_CHUNK_SLOTS]);
    begin = fh_round_up(begin, page);
    end -= end % page;
    if (begin < end) fh_system_forget_zeroes((void *)begin, end - begin);
    fh_chunk_release(index, FH_CHUNK_ALL);
}
