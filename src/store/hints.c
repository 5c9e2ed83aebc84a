#include "store/hints.h"

#include "base/assert.h"
#include "base/tuning.h"
#include "store/window.h"

#define TOP_LEVEL 3

static fh_word *node(unsigned hint, unsigned level, size_t index) {
    FH_ASSERT(level <= TOP_LEVEL && hint < (level ? FH_HINTS : FH_CLASSES)); /* lengths are hints about chunks */
    switch (level) {
    case 0:
        return &fh_chunk_hints_at(index)->hint[hint];
    case 1:
        return &fh_region_at(index)->hints.hint[hint];
    case 2:
        return &fh_window.unit[index].hint[hint];
    default:
        return &fh_window.top.hint[hint];
    }
}

void fh_hint_set(unsigned hint, unsigned level, size_t child) {
    FH_ASSERT(level <= TOP_LEVEL);
    for (; level <= TOP_LEVEL; level++, child >>= 6) {
        fh_word *word = node(hint, level, child >> 6);
        uint64_t bit = UINT64_C(1) << (child & 63);
        /* Relaxed is enough for this load: the full barrier before it (in the caller, or below) orders it.
         *
         * A bit that is set says nothing of those above it: a thread that cleared one of them may have been stopped
         * before it read again. So this continues to the top. Else no thread would find what is below until that one
         * runs again: others then brought chunk after chunk, up to a region of them. */
        if (fh_load(word) & bit) continue;
        /* release: what the hint announces happened before; the acquire half keeps the levels in order. */
        fh_or_acq_rel(word, bit);
        fh_fence_after_rmw();
    }
}

/* Word `index` of `level` was seen to be 0: clears its bit in the level above, reads it again, and continues upwards
 * while the words become 0. */
static void lower(unsigned hint, unsigned level, size_t index) {
    while (level < TOP_LEVEL) {
        uint64_t bit = UINT64_C(1) << (index & 63);
        uint64_t before = fh_and_acq_rel(node(hint, level + 1, index >> 6), ~bit);
        fh_fence_after_rmw();
        if (fh_load_acquire(node(hint, level, index)) != 0) {
            fh_hint_set(hint, level + 1, index);
            return;
        }
        if (before & ~bit) return;
        level++;
        index >>= 6;
    }
}

void fh_hint_clear(unsigned hint, unsigned level, size_t child) {
    uint64_t bit = UINT64_C(1) << (child & 63);
    uint64_t before = fh_and_acq_rel(node(hint, level, child >> 6), ~bit);
    fh_fence_after_rmw();
    if ((before & ~bit) == 0) lower(hint, level, child >> 6);
}

/* The lowest region of the partition whose word is said not to be 0, of a unit from this one on; FH_NONE if there is none. Of
 * partition 0 it is in the first unit that has a hint, as a rule. */
static size_t find_region(unsigned partition, unsigned hint) {
    /* acquire: a thread that finds the bit sees what was written before it was set. */
    uint64_t units = fh_load_acquire(node(hint, TOP_LEVEL, 0));
    for (; units; units &= units - 1) {
        size_t unit = fh_lowest_bit(units);
        uint64_t regions = fh_load_acquire(node(hint, TOP_LEVEL - 1, unit));
        if (!regions) {
            lower(hint, TOP_LEVEL - 1, unit);
            regions = fh_load_acquire(node(hint, TOP_LEVEL - 1, unit));
        }
        regions &= fh_partition_regions(partition, unit);
        if (regions) return unit << 6 | fh_lowest_bit(regions);
    }
    return FH_NONE;
}

size_t fh_hint_find_in(unsigned partition, unsigned hint, unsigned lowest_level) {
    for (;;) {
        size_t index = find_region(partition, hint);
        if (index == FH_NONE) return FH_NONE;
        for (unsigned level = TOP_LEVEL - 2;; level--) {
            uint64_t word = fh_load_acquire(node(hint, level, index));
            if (!word) {
                lower(hint, level, index);
                break;
            }
            index = index << 6 | fh_lowest_bit(word);
            if (level == lowest_level) return index;
        }
    }
}

unsigned fh_hint_first(unsigned hint, unsigned end) {
    FH_ASSERT(end <= FH_HINTS);
    /* acquire: as in find_region, which this saves for hints that no child has. */
    while (hint < end && !fh_load_acquire(&fh_window.top.hint[hint])) hint++;
    return hint;
}

size_t fh_hint_next(unsigned hint, size_t from) {
    size_t chunks = fh_window_chunks(), chunk = from / FH_CHUNK_SLOTS;
    unsigned first = from % FH_CHUNK_SLOTS;
    while (chunk < chunks) {
        size_t region = chunk / FH_REGION_CHUNKS;
        /* acquire: as in fh_hint_find. */
        uint64_t rest = fh_region_at(region) ? fh_load_acquire(node(hint, 1, region)) >> chunk % FH_REGION_CHUNKS : 0;
        if (!rest) {
            chunk = (region + 1) * FH_REGION_CHUNKS;
        } else if (rest & 1) {
            uint64_t slots = fh_load_acquire(node(hint, 0, chunk)) & ~fh_low_mask(first);
            if (slots) return chunk * FH_CHUNK_SLOTS + fh_lowest_bit(slots);
            chunk++;
        } else {
            chunk += fh_lowest_bit(rest);
        }
        first = 0;
    }
    return FH_NONE;
}

bool fh_hint_other(unsigned hint, size_t slot) {
    unsigned partition = fh_partition_of_slot(slot);
    for (unsigned level = 0; level < TOP_LEVEL; level++, slot >>= 6) {
        uint64_t others = fh_load(node(hint, level, slot >> 6)) & ~(UINT64_C(1) << (slot & 63));
        if (level == TOP_LEVEL - 1) others &= fh_partition_regions(partition, slot >> 6);
        if (others) return true;
    }
    /* In other units: of partition 0, or so it is taken to be. */
    return !partition && fh_load(node(hint, TOP_LEVEL, 0)) & ~(UINT64_C(1) << slot);
}

size_t fh_hint_find_apart(unsigned partition, unsigned hint, const size_t *apart, unsigned n) {
    size_t lowest = fh_hint_find_in(partition, hint, 0);
    FH_ASSERT(n <= FH_SHARDS);
    bool taken = false;
    for (unsigned i = 0; i < n; i++) taken |= apart[i] == lowest;
    if (lowest == FH_NONE || !taken) return lowest;
    size_t region = lowest / FH_REGION_SLOTS;
    /* At most n chunks can have nothing but what others use, so this ends soon. */
    for (uint64_t chunks = fh_load_acquire(node(hint, 1, region)); chunks; chunks &= chunks - 1) {
        size_t chunk = region * FH_REGION_CHUNKS + fh_lowest_bit(chunks);
        uint64_t slots = fh_load_acquire(node(hint, 0, chunk));
        for (unsigned i = 0; i < n; i++) {
            if (apart[i] / FH_CHUNK_SLOTS == chunk) slots &= ~(UINT64_C(1) << apart[i] % FH_CHUNK_SLOTS);
        }
        if (slots) return chunk * FH_CHUNK_SLOTS + fh_lowest_bit(slots);
    }
    for (unsigned level = 2; level <= TOP_LEVEL; level++) {
        size_t child = lowest >> 6 * level;
        uint64_t others = fh_load(node(hint, level, child >> 6)) & ~(UINT64_C(1) << (child & 63));
        if (level == 2) others &= fh_partition_regions(partition, child >> 6);
        if (others) return lowest;
    }
    return FH_NONE;
}
