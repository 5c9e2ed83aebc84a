#include "check/magazines.h"

#include "base/classes.h"
#include "cache/magazine.h"
#include "cache/thread.h"
#include "store/depot.h"
#include "store/holes.h"
#include "store/large.h"
#include "store/window.h"

static void at_address(fh_verification *check, fh_equation e, const void *p, unsigned c, uint64_t found,
                       uint64_t expected) {
    fh_check_violated(check, (fh_violation){e, FH_PLACE_ADDRESS, (uintptr_t)p, c, found, expected});
}

/* ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Where a block is: the first slot of its slab or run, and which block of it. */
typedef struct {
    size_t slot;
    unsigned index;
} block_place;

static bool in_chunks(const void *p) {
    return fh_in_window(p) && fh_slot_of(p) / FH_CHUNK_SLOTS < fh_window_chunks();
}

/* The block of a slab of class c that begins at p and is handed out. */
static bool find_in_slab(unsigned c, const void *p, block_place *at) {
    at->slot = fh_slot_of(p) & ~(size_t)(fh_class_table[c].slots - 1);
    size_t offset = (size_t)((const char *)p - fh_slot_address(at->slot));
    const fh_slab *slab = fh_slab_at(at->slot);
    uint64_t state = fh_load(&slab->state);
    if (fh_state_kind(state) != c) return false;
    at->index = fh_block_index(c, offset);
    if (at->index >= fh_state_bump(state) || at->index * fh_class_size(c) != offset) return false;
    return !(fh_load(&slab->free[at->index / 64]) >> at->index % 64 & 1);
}

/* The same of a block of class c that is in a hole of another class's slab. */
static bool find_guest(unsigned c, const void *p, block_place *at) {
    size_t bytes = 0;
    if (fh_holes_block_of(p, &bytes) != p || bytes < fh_class_size(c)) return false;
    at->slot = fh_slot_of(p);
    unsigned host = fh_state_class(fh_load(&fh_slab_at(at->slot)->state));
    at->index = fh_block_index(host, (size_t)((const char *)p - fh_slot_address(at->slot)));
    return true;
}

/* The same of a sampled block, which may be in a magazine of the class that it stands for: store/slab.c. */
static bool find_sample(unsigned c, const void *p, block_place *at) {
    unsigned kind = fh_state_kind(fh_load(&fh_slab_at(fh_slot_of(p))->state));
    return fh_class_is_sample(kind) && fh_class_size(kind) >= fh_class_size(c) && find_in_slab(kind, p, at);
}

static bool find_run(unsigned c, const void *p, block_place *at) {
    at->slot = fh_slot_of(p);
    at->index = 0;
    return fh_large_size(p) == fh_class_size(c);
}

/* The block of class c that begins at p and is handed out; false if there is none. */
static bool find_block(unsigned c, const void *p, block_place *at) {
    if (!in_chunks(p)) return false;
    if (fh_class_is_run(c)) return find_run(c, p, at);
    return find_in_slab(c, p, at) || (c <= FH_SMALL_LAST && (find_guest(c, p, at) || find_sample(c, p, at)));
}

/* Notes the block as seen. True if it has been seen before. */
static bool was_seen(fh_verification *check, const block_place *at) {
    if (!check->seen) return false;
    uint64_t *word = &check->seen[at->slot * FH_SLAB_WORDS + at->index / 64], bit = UINT64_C(1) << at->index % 64;
    bool before = *word & bit;
    *word |= bit;
    return before;
}

/* ── Magazines ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* [magazine.valid] */
static bool find_magazine(const fh_magazine *m, block_place *at) {
    if (!in_chunks(m)) return false;
    unsigned c = fh_state_kind(fh_load(&fh_slab_at(fh_slot_of(m))->state));
    if (c < FH_CLASS_MAGAZINE || c >= FH_CLASS_MAGAZINE + FH_MAGAZINE_SIZES) return false;
    size_t places = (fh_class_size(c) - offsetof(fh_magazine, block)) / sizeof(void *);
    return find_in_slab(c, m, at) && m->capacity == places && !m->bottom;
}

/* [magazine.block] [magazine.twice] The first n blocks of a magazine of class c. */
static void check_blocks(fh_verification *check, const fh_magazine *m, unsigned c, size_t n) {
    for (size_t i = 0; i < n; i++) {
        block_place at;
        if (!find_block(c, m->block[i], &at)) {
            at_address(check, FH_EQUATION_MAGAZINE_BLOCK, m, c, (uintptr_t)m->block[i], i);
        } else if (was_seen(check, &at)) {
            at_address(check, FH_EQUATION_MAGAZINE_TWICE, m, c, (uintptr_t)m->block[i], i);
        } else {
            check->live_blocks--;
        }
    }
}

/* [magazine.count] A magazine for class c in a cache or depot, with n blocks. False if it is none. */
static bool check_header(fh_verification *check, const fh_magazine *m, unsigned c, size_t n, block_place *at) {
    if (!find_magazine(m, at)) {
        at_address(check, FH_EQUATION_MAGAZINE_VALID, m, c, 0, 0);
        return false;
    }
    if (n <= m->capacity) return true;
    at_address(check, FH_EQUATION_MAGAZINE_COUNT, m, c, n, m->capacity);
    return false;
}

/* The same with its blocks, and counted. [magazine.shared] */
static void check_magazine(fh_verification *check, const fh_magazine *m, unsigned c, size_t n) {
    block_place at;
    if (!check_header(check, m, c, n, &at)) return;
    if (was_seen(check, &at)) {
        at_address(check, FH_EQUATION_MAGAZINE_SHARED, m, c, 2, 1);
        return;
    }
    check->magazines_known++;
    check_blocks(check, m, c, n);
}

/* ── Caches ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* [cache.bin] True if the bin of class c is as its magazine, which is valid, or it has none. */
static bool bin_is_right(const fh_thread *t, unsigned c) {
    const fh_bin *bin = &t->bin[c];
    const fh_magazine *m = t->rack[c].loaded;
    if (!m) return bin->top == bin->end && bin->top == (void **)&fh_empty_magazine[1];
    void *const *first = m->block;
    return first <= (void *const *)bin->top && bin->top <= bin->end && (void *const *)bin->end <= first + m->capacity;
}

/* [cache.bin] [cache.limit], and the headers of both magazines. */
static bool check_bin(fh_verification *check, const fh_thread *t, unsigned c) {
    const fh_rack *rack = &t->rack[c];
    const fh_magazine *previous = rack->previous;
    block_place at;
    if (rack->loaded && !check_header(check, rack->loaded, c, 0, &at)) return false;
    if (previous && !check_header(check, previous, c, 0, &at)) return false;
    if (previous && !check_header(check, previous, c, previous->count, &at)) return false;
    if (!bin_is_right(t, c)) {
        at_address(check, FH_EQUATION_CACHE_BIN, t, c, (uintptr_t)t->bin[c].top, (uintptr_t)t->bin[c].end);
        return false;
    }
    if ((rack->loaded || previous) && rack->limit == 0) at_address(check, FH_EQUATION_CACHE_LIMIT, t, c, 0, 1);
    return true;
}

/* [cache.budget] */
static void check_budget(fh_verification *check, const fh_thread *t) {
    size_t budget = 0, bulky = 0;
    for (unsigned c = 1; c < FH_BINS; c++) {
        size_t bytes = 2 * (size_t)t->rack[c].limit * fh_class_size(c);
        budget += bytes;
        if (fh_class_is_bulky(c)) bulky += bytes;
    }
    if (budget != t->budget_used) at_address(check, FH_EQUATION_CACHE_BUDGET, t, 0, t->budget_used, budget);
    if (bulky != t->bulky_used) at_address(check, FH_EQUATION_CACHE_BUDGET, t, FH_RUN_FIRST, t->bulky_used, bulky);
}

static bool check_special_bin(fh_verification *check, const fh_thread *t) {
    if (bin_is_right(t, FH_CLASS_SPECIAL) && !t->rack[0].loaded && !t->rack[0].previous) return true;
    at_address(check, FH_EQUATION_CACHE_BIN, t, 0, (uintptr_t)t->bin[0].top, (uintptr_t)t->bin[0].end);
    return false;
}

void fh_check_bins(fh_verification *check, const fh_thread *t) {
    (void)check_special_bin(check, t);
    for (unsigned c = 1; c < FH_BINS; c++) (void)check_bin(check, t, c);
    check_budget(check, t);
}

static void check_cache(fh_verification *check, const fh_thread *t) {
    (void)check_special_bin(check, t);
    for (unsigned c = 1; c < FH_BINS; c++) {
        const fh_rack *rack = &t->rack[c];
        if (!check_bin(check, t, c)) continue;
        if (rack->loaded) check_magazine(check, rack->loaded, c, (size_t)(t->bin[c].top - rack->loaded->block));
        if (rack->previous) check_magazine(check, rack->previous, c, rack->previous->count);
    }
    check_budget(check, t);
}

static bool is_parked(const fh_thread *t) {
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        if (fh_thread_parked(i) == t) return true;
    }
    return false;
}

/* [cache.state] [cache.parked] A cache that is handed out. One that a fork has left behind waits to be adopted, or was in use
 * at that moment and is left alone for good. */
static void check_life(fh_verification *check, const fh_thread *t) {
    uint64_t life = fh_load(&t->state);
    bool own = fh_load(&t->generation) == fh_thread_generation();
    if (life == FH_THREAD_BUSY && !own) {
        check->left_busy = true;
        return;
    }
    if (life != FH_THREAD_LIVE && life != FH_THREAD_PARKED) {
        at_address(check, FH_EQUATION_CACHE_STATE, t, FH_CLASS_THREAD, life, FH_THREAD_LIVE);
        return;
    }
    bool parked = life == FH_THREAD_PARKED && own;
    if (is_parked(t) != parked) at_address(check, FH_EQUATION_CACHE_PARKED, t, FH_CLASS_THREAD, !parked, parked);
    check_cache(check, t);
}

/* Those of one slab. [cache.state] One that is free is dead: else the child of a fork would adopt it. */
static void check_caches_in(fh_verification *check, size_t slot, unsigned bump) {
    const fh_slab *slab = fh_slab_at(slot);
    for (unsigned i = 0; i < bump && i < fh_class_table[FH_CLASS_THREAD].blocks; i++) {
        const fh_thread *t = (const fh_thread *)(fh_slot_address(slot) + i * fh_class_size(FH_CLASS_THREAD));
        if (!(fh_load(&slab->free[i / 64]) >> i % 64 & 1)) {
            check_life(check, t);
        } else if (fh_load(&t->state) != FH_THREAD_DEAD) {
            at_address(check, FH_EQUATION_CACHE_STATE, t, FH_CLASS_THREAD, fh_load(&t->state), FH_THREAD_DEAD);
        }
    }
}

static void check_caches(fh_verification *check) {
    for (size_t slot = 0; slot < fh_window_chunks() * FH_CHUNK_SLOTS; slot++) {
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        if (fh_state_kind(state) == FH_CLASS_THREAD) check_caches_in(check, slot, fh_state_bump(state));
    }
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        const fh_thread *t = fh_thread_parked(i);
        block_place at;
        if (t && (!in_chunks(t) || !find_in_slab(FH_CLASS_THREAD, t, &at) || fh_load(&t->state) != FH_THREAD_PARKED))
            at_address(check, FH_EQUATION_CACHE_PARKED, t, FH_CLASS_THREAD, i, 0);
    }
}

/* ── Depots ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void check_depot(fh_verification *check, unsigned shard, unsigned c) {
    const fh_word *slots = fh_depot_words(shard, c);
    size_t full = 0;
    for (unsigned i = 0; i < fh_depot_slots(c); i++) {
        uint64_t word = fh_load(&slots[i]);
        if (!word) continue;
        const fh_magazine *m = (const fh_magazine *)(uintptr_t)(word & ~FH_DEPOT_EMPTY);
        block_place at;
        if (!check_header(check, m, c, 0, &at)) continue;
        bool empty = word & FH_DEPOT_EMPTY;
        full += !empty;
        /* [depot.slot] */
        if (empty != (m->count == 0)) at_address(check, FH_EQUATION_DEPOT_SLOT, m, c, m->count, !empty);
        check_magazine(check, m, c, empty ? 0 : m->count);
    }
    size_t said = (size_t)fh_load(fh_depot_full(shard, c));
    /* [depot.full] */
    if (full != said) at_address(check, FH_EQUATION_DEPOT_FULL, slots, c, said, full);
}

static void check_depots(fh_verification *check) {
    for (unsigned shard = 0; shard < FH_SHARDS; shard++) {
        for (unsigned c = 1; c < FH_BINS && !check->brief; c++) check_depot(check, shard, c);
        for (unsigned i = 0; i < 2 && check->brief; i++) {
            if (check->only[i]) check_depot(check, shard, check->only[i]);
        }
    }
}

void fh_check_magazines(fh_verification *check) {
    if (!fh_load(&fh_window.origin)) return;
    check_caches(check);
    check_depots(check);
    /* [magazine.lost] */
    if (check->magazines_out != check->magazines_known && !check->left_busy) {
        fh_check_violated(check, (fh_violation){FH_EQUATION_MAGAZINE_LOST, FH_PLACE_HEAP, 0, 0, check->magazines_known,
                                                check->magazines_out});
    }
}
