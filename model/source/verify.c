/* The equations of src/base/types.h, checked over the whole heap when no thread is in the middle of anything. Every chunk
 * and slab that exists is looked at; what does not hold is reported through the `note` hook, which fails the run. */
#include "base/classes.h"
#include "store/hints.h"
#include "store/events.h"
#include "store/window.h"

enum {
    BROKEN_COUNT = 1, /* the count of a slab is beyond what its threads can have added */
    BROKEN_BEYOND,    /* a bit beyond bump is set */
    BROKEN_FREE_SLOT, /* a free slot has a state or bits */
    BROKEN_OVERLAP,   /* a slot belongs to two things, or is used and free at once */
    BROKEN_MARK,      /* a slab has something for takers and no mark */
    BROKEN_TREE,      /* a word is not 0 and the bit above it is not set */
    BROKEN_ROOM,      /* a chunk has a free run and no room mark for it */
    BROKEN_DIRTY,     /* the number of dirty slots is not what the chunks say */
    BROKEN_LOST_SLOT, /* a slot is neither free nor part of anything */
    BROKEN_BORROWED,    /* a borrowed slab's bump is not all its blocks */
    BROKEN_JOINED,    /* a unit is said to belong to the one before, but one of the two is free */
    BROKEN_BYTE,      /* a borrowed slab's blocks have a class to free */
    BROKEN_EMPTY,     /* a borrowed slab is all free, there is another, and it is still there */
    BROKEN_CLASS      /* a slab's class byte is another one */
};

static void broken(int what, uint64_t where) {
    fh_model->note(what, where, 0);
}

static void check_tree(unsigned mark, unsigned lowest, size_t child) {
    /* Every level above a set bit must be set as well. */
    static const unsigned top = 3;
    for (unsigned level = lowest; level <= top; level++, child >>= 6) {
        size_t node = child >> 6;
        const fh_word *word = level == 0   ? &fh_chunk_at(node)->hint[mark]
                              : level == 1 ? &fh_region_at(node)->hints.hint[mark]
                              : level == 2 ? &fh_window.unit[node].hint[mark]
                                           : &fh_window.top.hint[mark];
        if (!(fh_load(word) >> (child & 63) & 1)) broken(BROKEN_TREE, (uint64_t)mark << 32 | level);
    }
}

/* A slab's words, count and mark. */
static void check_slab(size_t slot, unsigned c, uint64_t state) {
    const fh_slab *slab = fh_slab_at(slot);
    const fh_class_info *info = &fh_class_table[c];
    unsigned bump = fh_state_bump(state), set = 0;
    for (unsigned w = 0; w * 64 < info->blocks; w++) {
        uint64_t bits = fh_load(&slab->free[w]);
        unsigned below = bump > w * 64 ? bump - w * 64 : 0;
        if (bits & ~fh_low_mask(below)) broken(BROKEN_BEYOND, slot);
        set += fh_count_bits(bits);
    }
    if (fh_state_count(state) > 4096) broken(BROKEN_COUNT, slot);
    bool something = bump < info->blocks || set >= info->hint_at || set == bump;
    if (!something) return;
    if (!(fh_load(&fh_chunk_at(slot / 64)->hint[c]) >> slot % 64 & 1)) {
        broken(BROKEN_MARK, slot);
        return;
    }
    check_tree(c, 0, slot);
}

static bool is_marked(size_t slot, unsigned mark) {
    return fh_load(&fh_chunk_at(slot / FH_CHUNK_SLOTS)->hint[mark]) >> slot % FH_CHUNK_SLOTS & 1;
}

/* The equations of store/holes.h. The last of several that got all free may stay, as in any class. No scenario has one that
 * was the only one when it got all free, and others later. */
static void check_borrowed(size_t slot, uint64_t state) {
    const fh_slab *slab = fh_slab_at(slot);
    unsigned blocks = fh_class_table[fh_state_class(state)].blocks, free = 0;
    if (fh_state_bump(state) != blocks || fh_state_count(state)) broken(BROKEN_BORROWED, slot);
    for (unsigned w = 0; w < FH_SLAB_WORDS / 2; w++) {
        uint64_t bits = fh_load(&slab->free[w]), joined = fh_load(&slab->free[FH_SLAB_WORDS / 2 + w]);
        unsigned below = blocks > w * 64 ? blocks - w * 64 : 0;
        if ((bits | joined) & ~fh_low_mask(below < 64 ? below : 64)) broken(BROKEN_BEYOND, slot);
        if ((joined & 1) || joined & (bits | bits << 1)) broken(BROKEN_JOINED, slot);
        free += fh_count_bits(bits);
    }
    if (fh_byte_load(fh_class_byte(slot))) broken(BROKEN_BYTE, slot);
    if (!free) return;
    if (!is_marked(slot, FH_CLASS_BORROWED)) {
        broken(BROKEN_MARK, slot);
        return;
    }
    check_tree(FH_CLASS_BORROWED, 0, slot);
    if (free == blocks && fh_hint_other(FH_CLASS_BORROWED, slot)) broken(BROKEN_EMPTY, slot);
}

/* The room marks as run.c keeps them: the chunk's longest free run must be findable. */
static void check_room(size_t chunk, uint64_t free) {
    static const uint8_t rooms[FH_LENGTHS] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64};
    unsigned longest = fh_longest_run(free), room = FH_LENGTHS - 1;
    if (!longest) return;
    while (rooms[room] > longest) room--;
    fh_region *region = fh_region_at(chunk / 64);
    if (!(fh_load(&region->hints.hint[FH_HINT_LENGTH + room]) >> chunk % 64 & 1)) {
        broken(BROKEN_ROOM, chunk);
        return;
    }
    check_tree(FH_HINT_LENGTH + room, 1, chunk);
}

/* Returns the number of free slots with memory behind them. `stray` slots may be in the test's own hands. */
static unsigned check_chunk(size_t chunk, unsigned *stray) {
    fh_chunk *c = fh_chunk_at(chunk);
    uint64_t free = fh_load(&c->free), used = 0;
    for (unsigned i = 0; i < FH_CHUNK_SLOTS; i++) {
        size_t slot = chunk * FH_CHUNK_SLOTS + i;
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        unsigned kind = fh_state_kind(state);
        if (kind == ~0u || state == 0) {
            if (state) broken(BROKEN_FREE_SLOT, slot);
            if (free >> i & 1 && fh_load(&fh_slab_at(slot)->free[0])) broken(BROKEN_FREE_SLOT, slot);
            if (free >> i & 1 && fh_load(&fh_slab_at(slot)->free[FH_SLAB_WORDS / 2])) broken(BROKEN_JOINED, slot);
            continue;
        }
        unsigned n = kind == FH_KIND_RUN ? fh_state_bump(state) : fh_class_table[fh_state_class(state)].slots;
        uint64_t mine = fh_run_mask(i, n);
        if ((free | used) & mine) broken(BROKEN_OVERLAP, slot);
        used |= mine;
        if (kind == FH_CLASS_BORROWED) {
            check_borrowed(slot, state);
        } else if (kind != FH_KIND_RUN) {
            check_slab(slot, kind, state);
            if (kind <= FH_SMALL_LAST && fh_byte_load(fh_class_byte(slot)) != kind) broken(BROKEN_CLASS, slot);
        }
    }
    *stray += fh_count_bits(~(free | used));
    check_room(chunk, free);
    uint64_t dirty = free & fh_load(&c->dirty);
    return fh_count_bits(dirty);
}

/* `held` slots were claimed by the test as bare runs and are in its hands. */
void fh_model_verify(unsigned held) {
    if (!fh_load(&fh_window.origin)) return;
    unsigned dirty = 0, stray = 0;
    for (size_t chunk = 0; chunk < fh_window_chunks(); chunk++) {
        /* One that the system had no memory for belongs to nobody. */
        bool lost = fh_load(&fh_region_at(chunk / FH_REGION_CHUNKS)->lost) >> chunk % FH_REGION_CHUNKS & 1;
        if (!lost) dirty += check_chunk(chunk, &stray);
    }
    if (stray != held) broken(BROKEN_LOST_SLOT, stray);
    if (fh_dirty_bytes() != dirty * FH_SLOT_SIZE) broken(BROKEN_DIRTY, fh_dirty_bytes() / FH_SLOT_SIZE);
}

/* Blocks of class c that are in somebody's hands: bump less set bits, over all slabs. */
size_t fh_model_blocks_out(unsigned c) {
    size_t out = 0;
    for (size_t slot = 0; fh_load(&fh_window.origin) && slot < fh_window_chunks() * FH_CHUNK_SLOTS; slot++) {
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        if (fh_state_kind(state) != c) continue;
        out += fh_state_bump(state);
        for (unsigned w = 0; w * 64 < fh_class_table[c].blocks; w++)
            out -= fh_count_bits(fh_load(&fh_slab_at(slot)->free[w]));
    }
    return out;
}

/* Units of borrowed slabs that are in somebody's hands; and in *joined, how many of them belong to the one before. */
size_t fh_model_parts_out(size_t *joined) {
    size_t out = 0;
    *joined = 0;
    for (size_t slot = 0; fh_load(&fh_window.origin) && slot < fh_window_chunks() * FH_CHUNK_SLOTS; slot++) {
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        if (fh_state_kind(state) != FH_CLASS_BORROWED) continue;
        out += fh_state_bump(state);
        for (unsigned w = 0; w < FH_SLAB_WORDS / 2; w++) {
            out -= fh_count_bits(fh_load(&fh_slab_at(slot)->free[w]));
            *joined += fh_count_bits(fh_load(&fh_slab_at(slot)->free[FH_SLAB_WORDS / 2 + w]));
        }
    }
    return out;
}

unsigned fh_model_class_at(const void *p) {
    return fh_class_at(p);
}
