#include "check/chunks.h"

#include "base/classes.h"
#include "base/tuning.h"
#include "store/edge.h"
#include "store/hints.h"
#include "store/holes.h"
#include "store/large.h"
#include "store/run.h"
#include "store/sampled.h"
#include "store/window.h"

#define TOP_LEVEL 3
#define NO_BUCKET FH_LENGTHS

/* ── What is checked, by names of its own ────────────────────────────────────────────────────────────────────────── */

static bool is_lost(size_t chunk) {
    return fh_load(&fh_region_at(chunk / FH_REGION_CHUNKS)->lost) >> chunk % FH_REGION_CHUNKS & 1;
}

static const fh_word *hint_word(unsigned hint, unsigned level, size_t index) {
    return level == 0   ? &fh_chunk_hints_at(index)->hint[hint]
           : level == 1 ? &fh_region_at(index)->hints.hint[hint]
           : level == 2 ? &fh_window.unit[index].hint[hint]
                        : &fh_window.top.hint[hint];
}

static bool hint_is_set(unsigned hint, unsigned level, size_t child) {
    return fh_load(hint_word(hint, level, child >> 6)) >> (child & 63) & 1;
}

/* The bucket of a chunk with that free word. The rule is written out here as well: a check must not trust what it checks. */
static unsigned bucket_of(uint64_t free) {
    unsigned longest = fh_longest_run(free);
    if (longest == 0) return NO_BUCKET;
    return longest <= 32 ? longest - 1 : longest / 2 + 15;
}

/* Classes that a slab may be of: all but 0 and those of runs. */
static bool is_slab_class(unsigned kind) {
    return kind != FH_CLASS_SPECIAL && kind < FH_CLASSES && !fh_class_is_run(kind) && kind != FH_CLASS_BORROWED;
}

static bool is_large(unsigned kind) {
    return kind == FH_KIND_RUN || kind == FH_CLASS_EDGE;
}

static bool is_borrowed(unsigned kind, unsigned owner) {
    return kind == FH_CLASS_BORROWED && owner >= 1 && owner <= FH_SMALL_LAST;
}

/* The class byte that free wants to see in a slab of that kind. */
static unsigned byte_of(size_t slot, unsigned kind) {
    return kind <= FH_SMALL_LAST && !fh_partition_of_slot(slot) ? kind : FH_CLASS_SPECIAL;
}

static bool is_hardened(size_t slot) {
    return fh_partition_of_slot(slot) & FH_PARTITION_HARDENED;
}

static void at_slot(fh_verification *check, fh_equation e, size_t slot, unsigned c, uint64_t found, uint64_t expected) {
    fh_check_violated(check, (fh_violation){e, FH_PLACE_SLOT, slot, c, found, expected});
}

/* ── Hints ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* [hint.tree] The word that holds child `child` of a level is not 0: so is the bit above it, at `level`. */
static bool check_above(fh_verification *check, unsigned hint, unsigned level, size_t child) {
    if (hint_is_set(hint, level, child)) return true;
    fh_check_violated(check, (fh_violation){FH_EQUATION_HINT_TREE, FH_PLACE_HINT, child, hint, level, level});
    return false;
}

/* From a bit that is set up to the top. A check that is not brief walks the whole tree instead. */
static void check_path(fh_verification *check, unsigned hint, unsigned level, size_t child) {
    for (; check->brief && level <= TOP_LEVEL; level++, child >>= 6) {
        if (!check_above(check, hint, level, child)) return;
    }
}

/* Bits may be set too many, because a thread that follows one finds nothing and clears it. None may be missing. */
static void check_trees(fh_verification *check, size_t chunks) {
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        for (unsigned h = 0; h < FH_CLASSES; h++) {
            if (fh_load(hint_word(h, 0, chunk))) (void)check_above(check, h, 1, chunk);
        }
    }
    for (unsigned level = 1; level < TOP_LEVEL; level++) {
        size_t words = (chunks - 1) >> 6 * level;
        for (size_t index = 0; index <= words; index++) {
            for (unsigned h = 0; h < FH_HINTS; h++) {
                if (fh_load(hint_word(h, level, index))) (void)check_above(check, h, level + 1, index);
            }
        }
    }
}

/* [slab.hint] */
static void check_hint(fh_verification *check, size_t slot, unsigned hint) {
    if (hint_is_set(hint, 0, slot)) {
        check_path(check, hint, 1, slot >> 6);
    } else {
        at_slot(check, FH_EQUATION_SLAB_HINT, slot, hint, 0, 1);
    }
}

/* [hint.length] */
static void check_length(fh_verification *check, size_t chunk, uint64_t free) {
    unsigned bucket = bucket_of(free);
    if (bucket == NO_BUCKET) return;
    if (hint_is_set(FH_HINT_LENGTH + bucket, 1, chunk)) {
        check_path(check, FH_HINT_LENGTH + bucket, 2, chunk >> 6);
    } else {
        fh_check_violated(
            check, (fh_violation){FH_EQUATION_HINT_LENGTH, FH_PLACE_CHUNK, chunk, 0, 0, FH_HINT_LENGTH + bucket});
    }
}

/* ── Slabs ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Number of bits that are set below `blocks`. [slab.beyond] None is set above, in the first `words` words. */
static unsigned count_free(fh_verification *check, size_t slot, unsigned c, unsigned blocks, unsigned words) {
    unsigned set = 0;
    for (unsigned w = 0; w < words; w++) {
        uint64_t bits = fh_load(&fh_slab_at(slot)->free[w]);
        unsigned below = blocks > w * 64 ? blocks - w * 64 : 0;
        if (bits & ~fh_low_mask(below)) at_slot(check, FH_EQUATION_SLAB_BEYOND, slot, c, bits, fh_low_mask(below));
        set += fh_count_bits(bits & fh_low_mask(below));
    }
    return set;
}

/* [slab.short] Only of a block that is handed out. */
static void check_short(fh_verification *check, size_t slot, unsigned c, unsigned bump) {
    fh_slab *slab = fh_slab_at(slot);
    for (unsigned i = 0; i < fh_class_table[c].blocks; i++) {
        fh_sampled_short s = fh_sampled_short_of(slab, c, i);
        uint64_t less = fh_load(s.word) >> s.shift & s.mask;
        bool out = i < bump && !(fh_load(&slab->free[i / 64]) >> i % 64 & 1);
        if (less && !out) at_slot(check, FH_EQUATION_SLAB_SHORT, slot, c, less, 0);
    }
}

/* [slab.live] */
static void check_live(fh_verification *check, size_t slot, unsigned c, unsigned blocks, unsigned words) {
    const fh_slab *slab = fh_slab_at(slot);
    const unsigned half = FH_SLAB_WORDS / 2;
    for (unsigned w = 0; w < words; w++) {
        uint64_t live = fh_load(&slab->free[half + w]), free = fh_load(&slab->free[w]);
        uint64_t all = blocks > w * 64 ? fh_low_mask(blocks - w * 64 < 64 ? blocks - w * 64 : 64) : 0;
        if (live & (free | ~all)) at_slot(check, FH_EQUATION_SLAB_LIVE, slot, c, live, all & ~free);
    }
}

/* [slab.bump] [slab.count] [slab.hint], and what is out of the magazines' classes. */
static void check_slab(fh_verification *check, size_t slot, unsigned c, uint64_t state) {
    const fh_class_info *info = &fh_class_table[c];
    bool hardened = is_hardened(slot), halved = fh_class_is_sample(c) || hardened;
    unsigned bump = fh_state_bump(state), all = halved ? FH_SLAB_WORDS / 2 : FH_SLAB_WORDS;
    unsigned words = check->brief ? (info->blocks + 63u) / 64 : all;
    if (bump < 1 || bump > info->blocks) {
        at_slot(check, FH_EQUATION_SLAB_BUMP, slot, c, bump, info->blocks);
        return;
    }
    unsigned set = count_free(check, slot, c, bump, words);
    if (fh_state_count(state) >= info->hint_at) {
        at_slot(check, FH_EQUATION_SLAB_COUNT, slot, c, fh_state_count(state), info->hint_at);
    }
    if (bump < info->blocks || set >= info->hint_at || set == bump) check_hint(check, slot, c);
    if (fh_class_is_sample(c) && !check->brief) check_short(check, slot, c, bump);
    if (hardened) check_live(check, slot, c, bump, words);
    if (c >= FH_CLASS_MAGAZINE && c < FH_CLASS_MAGAZINE + FH_MAGAZINE_SIZES) check->magazines_out += bump - set;
    if (c <= FH_SMALL_LAST || fh_class_is_sample(c)) check->live_blocks += bump - set;
}

/* [holes.empty] Of all slabs that are open one may be all free, as in any class: the last that got so, or one that got so
 * while there was no other. In a brief check, where all that are open were opened before, none may be while there is another. */
static bool empty_may_stay(fh_verification *check, size_t slot) {
    return check->brief ? !fh_hint_other(FH_CLASS_BORROWED, slot) : check->empty_holes++ == 0;
}

/* [holes.joined] [holes.empty] */
static void check_borrowed(fh_verification *check, size_t slot, uint64_t state) {
    const fh_slab *slab = fh_slab_at(slot);
    const unsigned c = FH_CLASS_BORROWED, half = FH_SLAB_WORDS / 2;
    unsigned blocks = fh_class_table[fh_state_class(state)].blocks;
    if (fh_state_bump(state) != blocks) at_slot(check, FH_EQUATION_SLAB_BUMP, slot, c, fh_state_bump(state), blocks);
    if (fh_state_count(state)) at_slot(check, FH_EQUATION_SLAB_COUNT, slot, c, fh_state_count(state), 0);
    unsigned free = count_free(check, slot, c, blocks, half);
    for (unsigned w = 0; w < half; w++) {
        uint64_t bits = fh_load(&slab->free[w]), joined = fh_load(&slab->free[half + w]);
        unsigned below = blocks > w * 64 ? blocks - w * 64 : 0;
        if ((joined & 1) || joined & (bits | bits << 1) || joined & ~fh_low_mask(below)) {
            at_slot(check, FH_EQUATION_HOLES_JOINED, slot, c, joined, bits);
        }
    }
    check->live_blocks += blocks - free - fh_holes_joined(slab, blocks);
    if (free) check_hint(check, slot, c);
    if (free == blocks && !empty_may_stay(check, slot)) at_slot(check, FH_EQUATION_HOLES_EMPTY, slot, c, free, 0);
}

/* ── Slots ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* [slot.class] Of slots that begin nothing, and of each slot of a slab; a run has its class in the first alone. */
static void check_byte(fh_verification *check, size_t slot, unsigned c) {
    unsigned byte = fh_byte_load(fh_class_byte(slot));
    if (byte != c) at_slot(check, FH_EQUATION_SLOT_CLASS, slot, c, byte, c);
}

/* [slot.free] Nothing begins here: a free slot, or one further on in a slab or run. */
static void check_nothing(fh_verification *check, size_t slot) {
    const fh_slab *slab = fh_slab_at(slot);
    unsigned step = check->brief ? FH_SLAB_WORDS / 2 : 1;
    for (unsigned w = 0; w < FH_SLAB_WORDS; w += step) {
        uint64_t bits = fh_load(&slab->free[w]);
        if (bits) at_slot(check, FH_EQUATION_SLOT_FREE, slot, 0, bits, 0);
    }
}

static void check_no_pages(fh_verification *check, size_t slot) {
    uint64_t pages = fh_load(&fh_slab_at(slot)->pages);
    if (pages) at_slot(check, FH_EQUATION_SLOT_FREE, slot, 0, pages, 0);
}

/* [chunk.over] */
static void check_over(fh_verification *check, size_t chunk, uint64_t expected) {
    uint64_t over = fh_load(&fh_chunk_at(chunk)->over);
    if (over != expected)
        fh_check_violated(check, (fh_violation){FH_EQUATION_CHUNK_OVER, FH_PLACE_CHUNK, chunk, 0, over, expected});
}

/* [count.kept] The run at this slot, of which there is no block: it is the one that is kept. Returns its slots. */
static size_t check_kept(fh_verification *check, size_t slot) {
    size_t slots = fh_state_run_slots(fh_load(&fh_slab_at(slot)->state));
    check->kept_runs++;
    if (!fh_run_is_kept(slot, slots)) at_slot(check, FH_EQUATION_COUNT_KEPT, slot, 0, slots, fh_load(&fh_counts.kept));
    return slots;
}

/* The large block that begins in this slot: its class byte, which a sampled one and a long one do not have, and the chunks that
 * it is over. In a chunk that it is over as a whole nothing else is read: its records have no memory. */
static void check_large(fh_verification *check, size_t slot) {
    size_t size, slots, begin = 0;
    const char *block = fh_large_in(slot, &size, &slots);
    check->live_blocks += block != NULL;
    if (!block) {
        bool run = fh_state_kind(fh_load(&fh_slab_at(slot)->state)) == FH_KIND_RUN;
        check_byte(check, slot, FH_CLASS_SPECIAL);
        if (!run) return;
        slots = check_kept(check, slot);
        size = slots * FH_SLOT_SIZE;
        block = fh_slot_address(slot);
    }
    begin = (size_t)(block - fh_slot_address(0)) / FH_PAGE;
    if (begin < check->large_end) at_slot(check, FH_EQUATION_SLOT_OVERLAP, slot, 0, begin, check->large_end);
    check->large_end = begin + size / FH_PAGE;
    check->own_end = size > FH_RUN_CACHED_MAX ? slot + slots : check->large_end / FH_SLOT_PAGES;
    if (is_hardened(slot)) check->gap_end = check->own_end + 1;
    bool cached = size > FH_SLOT_SIZE && size <= FH_RUN_CACHED_MAX && !fh_partition_of_slot(slot);
    unsigned c = cached ? fh_class_run(size) : FH_CLASS_SPECIAL;
    if (fh_byte_load(fh_class_byte(slot)) || !cached) check_byte(check, slot, c);
    if (size > slots * FH_SLOT_SIZE || (cached && fh_class_size(c) != size))
        at_slot(check, FH_EQUATION_SLAB_STATE, slot, c, size, slots * FH_SLOT_SIZE);
    for (size_t s = slot + 1; s < slot + slots; s++) {
        if (s % FH_CHUNK_SLOTS) continue;
        check_over(check, s / FH_CHUNK_SLOTS, slot + 1);
        check->over_chunks++;
    }
}

/* [edge.pages] [edge.empty] [edge.clean] [slab.hint] What ends here was met before. */
static void check_edge(fh_verification *check, size_t slot) {
    size_t size, slots, first = slot * FH_SLOT_PAGES, ends = check->large_end;
    const char *block = fh_large_in(slot, &size, &slots);
    uint64_t all = fh_low_mask(FH_SLOT_PAGES), free = fh_load(&fh_slab_at(slot)->free[0]);
    uint64_t used =
        ends > first ? fh_low_mask(ends - first < FH_SLOT_PAGES ? (unsigned)(ends - first) : FH_SLOT_PAGES) : 0;
    if (block) used |= all & ~fh_low_mask((unsigned)((uintptr_t)block % FH_SLOT_SIZE / FH_PAGE));
    if ((free ^ used) != all) at_slot(check, FH_EQUATION_EDGE_PAGES, slot, FH_CLASS_EDGE, free, all & ~used);
    if (used == 0 || (ends >= first + FH_SLOT_PAGES && !block))
        at_slot(check, FH_EQUATION_EDGE_EMPTY, slot, FH_CLASS_EDGE, free, used);
    uint64_t clean = fh_load(&fh_slab_at(slot)->clean);
    if (clean & ~free) at_slot(check, FH_EQUATION_EDGE_CLEAN, slot, FH_CLASS_EDGE, clean, free);
    if (free & (UINT64_C(1) | UINT64_C(1) << (FH_SLOT_PAGES - 1))) check_hint(check, slot, FH_CLASS_EDGE);
}

/* [slab.state] Slots of what begins here; 0 if the state makes no sense. */
static size_t slots_of(fh_verification *check, size_t slot, uint64_t state) {
    unsigned kind = fh_state_kind(state), owner = (unsigned)(state >> FH_STATE_OWNER_SHIFT) & 0xFF;
    size_t at = slot % FH_CHUNK_SLOTS, slots = 0;
    const uint64_t known = FH_STATE_COUNT_MASK | UINT64_C(0xFFFF) << FH_STATE_BUMP_SHIFT |
                           UINT64_C(0xFF) << FH_STATE_KIND_SHIFT | UINT64_C(0xFF) << FH_STATE_OWNER_SHIFT;
    if (kind == FH_KIND_RUN) slots = fh_state_run_slots(state);
    if (is_slab_class(kind) || is_borrowed(kind, owner)) slots = fh_class_table[fh_state_class(state)].slots;
    bool fits = kind == FH_KIND_RUN ? slot + slots <= fh_window_chunks() * FH_CHUNK_SLOTS
                                    : slots && at % slots == 0 && at + slots <= FH_CHUNK_SLOTS;
    bool plain = !(state & ~known) && (kind == FH_CLASS_BORROWED || owner == 0);
    if (slots && fits && plain) return slots;
    at_slot(check, FH_EQUATION_SLAB_STATE, slot, kind < FH_CLASSES ? kind : 0, state, slots);
    return 0;
}

/* [slot.overlap] What begins at a slot of the chunk; returns its slots as bits: of a large block the first one. `taken`: those
 * that are free or used. */
static uint64_t check_thing(fh_verification *check, size_t slot, uint64_t state, uint64_t taken) {
    unsigned kind = fh_state_kind(state);
    size_t slots = slots_of(check, slot, state);
    if (slots == 0) return UINT64_C(1) << slot % FH_CHUNK_SLOTS;
    if (kind == FH_KIND_RUN) slots = 1;
    size_t gap = is_hardened(slot) && !is_large(kind) ? slots : 0;
    uint64_t mine = fh_run_mask(slot % FH_CHUNK_SLOTS, (unsigned)(slots + gap));
    if (taken & mine || slot < check->own_end)
        at_slot(check, FH_EQUATION_SLOT_OVERLAP, slot, kind < FH_CLASSES ? kind : 0, taken & mine, 0);
    check->used_slots += slots;
    if (kind == FH_CLASS_EDGE) check_edge(check, slot);
    if (kind == FH_KIND_RUN) check_nothing(check, slot);
    if (is_large(kind)) {
        check_large(check, slot);
        return mine;
    }
    check_no_pages(check, slot);
    for (size_t i = 0; i < slots; i++) check_byte(check, slot + i, byte_of(slot, kind));
    if (kind == FH_CLASS_BORROWED) {
        check_borrowed(check, slot, state);
    } else {
        check_slab(check, slot, kind, state);
    }
    return mine;
}

/* ── Chunks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* [slot.lost] Slots that are neither free nor part of anything. */
static void count_stray(fh_verification *check, size_t chunk, uint64_t stray) {
    if (!stray) return;
    /* A chunk with a foreign mapping in it was passed over for good. */
    if (stray == FH_CHUNK_ALL && fh_window_misses(chunk)) return;
    check->stray_slots += fh_count_bits(stray);
    if (check->held_slots) return; /* which they are is not known, so they are judged together */
    at_slot(check, FH_EQUATION_SLOT_LOST, chunk * FH_CHUNK_SLOTS + fh_lowest_bit(stray), 0, stray, 0);
}

/* A slot in which nothing begins: free, or one further on of a slab, or of a large block, whose own slots are counted here. */
static uint64_t check_other(fh_verification *check, size_t slot, bool free) {
    bool inside = slot < check->own_end;
    check_nothing(check, slot);
    check_no_pages(check, slot);
    if (free || inside) check_byte(check, slot, FH_CLASS_SPECIAL);
    uint64_t heap = fh_load(&fh_slab_at(slot)->heap);
    if (free && heap) at_slot(check, FH_EQUATION_SLOT_FREE, slot, 0, heap, 0);
    if (free && inside) at_slot(check, FH_EQUATION_SLOT_OVERLAP, slot, 0, 1, 0);
    check->used_slots += inside;
    return inside || slot < check->gap_end ? UINT64_C(1) << slot % FH_CHUNK_SLOTS : 0;
}

static void check_chunk(fh_verification *check, size_t chunk) {
    const fh_chunk *words = fh_chunk_at(chunk);
    uint64_t free = fh_load(&words->free), dirty = fh_load(&words->dirty), used = fh_load(&words->used), things = 0;
    check->over_named += fh_load(&words->over) != 0;
    /* A large block is over all of it: its records have no memory, and are not read. */
    bool over = check->own_end >= (chunk + 1) * FH_CHUNK_SLOTS;
    if (over) {
        things = FH_CHUNK_ALL;
        check->used_slots += FH_CHUNK_SLOTS;
        if (free) at_slot(check, FH_EQUATION_SLOT_OVERLAP, chunk * FH_CHUNK_SLOTS, 0, free, 0);
    }
    for (unsigned i = 0; i < FH_CHUNK_SLOTS && !over; i++) {
        size_t slot = chunk * FH_CHUNK_SLOTS + i;
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        if (state == 0) {
            things |= check_other(check, slot, free >> i & 1);
        } else if (fh_state_kind(state) == ~0u) {
            at_slot(check, FH_EQUATION_SLOT_FREE, slot, 0, state, 0);
        } else {
            things |= check_thing(check, slot, state, free | things);
        }
    }
    count_stray(check, chunk, ~(free | things));
    check_length(check, chunk, free);
    /* [chunk.dirty] */
    if (dirty & ~used)
        fh_check_violated(check, (fh_violation){FH_EQUATION_CHUNK_DIRTY, FH_PLACE_CHUNK, chunk, 0, dirty, used});
    check->dirty_slots += fh_count_bits(free & dirty);
    /* [chunk.pieces] The other way round it may be: one that came while the last others went is not counted. */
    uint64_t pieces = fh_load(&words->pieces);
    if (pieces && !fh_load(&words->moved))
        fh_check_violated(check, (fh_violation){FH_EQUATION_CHUNK_PIECES, FH_PLACE_CHUNK, chunk, 0, pieces, 0});
}

/* [chunk.lost] */
static void check_lost(fh_verification *check, size_t chunk) {
    uint64_t something = fh_load(&fh_chunk_at(chunk)->free);
    for (unsigned i = 0; i < FH_CHUNK_SLOTS && !something; i++) {
        something = fh_load(&fh_slab_at(chunk * FH_CHUNK_SLOTS + i)->state);
    }
    if (something)
        fh_check_violated(check, (fh_violation){FH_EQUATION_CHUNK_LOST, FH_PLACE_CHUNK, chunk, 0, something, 0});
    check->lost_chunks++;
}

void fh_check_chunks(fh_verification *check) {
    size_t chunks = fh_load(&fh_window.origin) ? fh_window_chunks() : 0;
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        (is_lost(chunk) ? check_lost : check_chunk)(check, chunk);
    }
    if (chunks && !check->brief) check_trees(check, chunks);
    /* [chunk.over] No other chunk names a run. */
    if (check->over_named != check->over_chunks) {
        fh_check_violated(
            check, (fh_violation){FH_EQUATION_CHUNK_OVER, FH_PLACE_HEAP, 0, 0, check->over_named, check->over_chunks});
    }
    if (check->held_slots && check->stray_slots != check->held_slots) {
        fh_check_violated(
            check, (fh_violation){FH_EQUATION_SLOT_LOST, FH_PLACE_HEAP, 0, 0, check->stray_slots, check->held_slots});
    }
}
