#include "store/depot.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/tuning.h"
#include "store/events.h"
#include "store/large.h"
#include "store/slab.h"

/* One depot a class and shard. A shard is a place near a CPU: what it gets was last touched there. */
static fh_depots depot[FH_SHARDS];

/* Large blocks are not kept: given to the store they join their free neighbours, for blocks of other sizes. */
static unsigned slots_of(unsigned c, const fh_magazine *m) {
    if (fh_class_is_run(c)) return 0;
    /* What it holds, or half of what it could: of long blocks one in each magazine would be many magazines. */
    size_t half = m->capacity / 2, bytes = (m->count > half ? m->count : half) * fh_class_size(c);
    FH_ASSERT(bytes != 0);
    size_t slots = FH_DEPOT_BYTES / (bytes + 1);
    return slots < fh_depot_slots(c) ? (unsigned)slots + 1 : fh_depot_slots(c);
}

/* The one place that packs and unpacks. */
static uint64_t pack(const fh_magazine *m, uint64_t empty) {
    FH_ASSERT(((uintptr_t)m & FH_DEPOT_EMPTY) == 0);
    return (uint64_t)(uintptr_t)m | (m ? empty : 0);
}
static fh_magazine *unpack(uint64_t word) {
    return (fh_magazine *)(uintptr_t)(word & ~FH_DEPOT_EMPTY);
}
static bool is_full(uint64_t word) {
    return word != 0 && !(word & FH_DEPOT_EMPTY);
}

/* Puts a full magazine into this slot, unless it has one. */
static bool put_at(fh_word *slot, const fh_magazine *full, fh_magazine **empty) {
    uint64_t seen = fh_load(slot);
    /* release: the magazine's entries before it is seen; acquire: the empty one's header. */
    if (is_full(seen) || !fh_cas_acq_rel(slot, &seen, pack(full, 0))) return false;
    *empty = unpack(seen);
    fh_event_came_back();
    FH_ASSERT(!*empty || ((*empty)->count == 0 && !(*empty)->bottom));
    return true;
}

bool fh_depot_put(unsigned c, unsigned near, fh_magazine *full, fh_magazine **empty) {
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_BINS);
    FH_ASSERT(full->count <= full->capacity && !full->bottom);
    fh_depots *shard = &depot[near % FH_SHARDS];
    fh_word *here = fh_depot_of(shard, c);
    size_t slots = slots_of(c, full);
    /* The last slot tells where the number is too high for ever: a thread was ended between the two, or not taken into a fork. */
    if (fh_load(&shard->full[c]) >= slots && (slots == 0 || is_full(fh_load(&here[slots - 1])))) return false;
    full->from = (uint16_t)near;
    /* So many are full as a rule, from the lowest on. */
    size_t likely = (size_t)fh_add_relaxed(&shard->full[c], 1);
    if (likely < slots && put_at(&here[likely], full, empty)) return true;
    for (size_t i = 0; i < slots; i++) {
        if (put_at(&here[i], full, empty)) return true;
    }
    fh_sub_relaxed(&shard->full[c], 1);
    return false;
}

/* The highest full one is taken: what came last is still in a CPU's cache. */
static fh_magazine *get_from(fh_depots *shard, unsigned c, fh_magazine *empty) {
    fh_word *here = fh_depot_of(shard, c);
    size_t full = (size_t)fh_load(&shard->full[c]), slots = fh_depot_slots(c);
    if (full == 0) return NULL;
    /* Downwards from where it should be, and then those above. */
    for (size_t i = 0; i < slots; i++) {
        fh_word *slot = &here[(full - 1 - i) % slots];
        uint64_t seen = fh_load(slot);
        if (!is_full(seen) || !fh_cas_acq_rel(slot, &seen, pack(empty, FH_DEPOT_EMPTY))) continue;
        fh_sub_relaxed(&shard->full[c], 1);
        return unpack(seen);
    }
    return NULL;
}

#define AWAY_MOST 64u /* more is no news */

static void count_away(fh_word *away) {
    uint64_t seen = fh_load(away);
    if ((seen & FH_AWAY_COUNT) < AWAY_MOST) fh_store(away, seen + 1);
}

fh_magazine *fh_depot_get(unsigned c, unsigned near, fh_magazine *empty) {
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_BINS);
    FH_ASSERT(!empty || empty->count == 0);
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        fh_depots *shard = &depot[(near + i) % FH_SHARDS];
        fh_magazine *m = get_from(shard, c, empty);
        if (!m) continue;
        if (m->from != (uint16_t)near) count_away(&shard->away[c]);
        FH_ASSERT(m != empty && m->count <= m->capacity && !m->bottom);
        fh_event_demand(c);
        return m;
    }
    return NULL;
}

bool fh_depot_is_shared(unsigned c, unsigned near) {
    return (fh_load(&depot[near % FH_SHARDS].away[c]) & FH_AWAY_COUNT) != 0;
}

bool fh_depot_lacks(unsigned c, unsigned near, unsigned blocks) {
    fh_depots *shard = &depot[near % FH_SHARDS];
    uint64_t away = fh_load(&shard->away[c]), made_up = away >> FH_AWAY_BYTES_SHIFT, elsewhere = 0;
    /* One is left over, because it tells that some went away. */
    if ((away & FH_AWAY_COUNT) <= FH_AWAY_LEAST || made_up >= FH_AWAY_BYTES || fh_load(&shard->full[c])) return false;
    for (unsigned i = 1; i < FH_SHARDS; i++) elsewhere |= fh_load(&depot[(near + i) % FH_SHARDS].full[c]);
    if (!elsewhere || fh_pressure_now() != FH_PRESSURE_NONE) return false;
    fh_store(&shard->away[c], away - FH_AWAY_LEAST + ((uint64_t)blocks * fh_class_size(c) << FH_AWAY_BYTES_SHIFT));
    return true;
}

static void give(unsigned c, const fh_magazine *m, void **blocks) {
    FH_ASSERT(m->count <= m->capacity);
    if (!fh_class_is_run(c)) {
        fh_slab_give(c, m->count, blocks);
        return;
    }
    for (unsigned i = 0; i < m->count; i++) fh_large_give(c, blocks[i]);
}

/* Puts m back where it was got from, or anywhere; else its blocks go to the store. */
static void put_back(unsigned c, unsigned near, fh_word *slot, fh_magazine *m) {
    uint64_t none = 0;
    fh_magazine *empty = NULL;
    fh_add_relaxed(&depot[near].full[c], 1);
    if (fh_cas_acq_rel(slot, &none, pack(m, 0))) return;
    fh_sub_relaxed(&depot[near].full[c], 1);
    if (!fh_depot_put(c, near, m, &empty)) {
        give(c, m, m->block);
        m->count = 0;
        empty = m;
    }
    if (empty) fh_magazine_delete(empty);
}

bool fh_depot_holds(unsigned c, void *const *place, const void *p) {
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_BINS);
    const size_t most = fh_class_size(FH_CLASS_MAGAZINE + FH_MAGAZINE_SIZES - 1);
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        fh_word *here = fh_depot_of(&depot[i], c);
        for (unsigned k = 0; k < fh_depot_slots(c) && fh_load(&depot[i].full[c]); k++) {
            uint64_t seen = fh_load(&here[k]);
            fh_magazine *m = unpack(seen);
            /* Addresses only: it may be another thread's by now. Too long for a small one, which then is got in vain. */
            if (!is_full(seen) || (uintptr_t)place - (uintptr_t)m >= most) continue;
            if (!fh_cas_acq_rel(&here[k], &seen, 0)) continue;
            fh_sub_relaxed(&depot[i].full[c], 1);
            bool holds = place >= m->block && place < m->block + m->count && *place == p;
            put_back(c, i, &here[k], m);
            if (holds) return true;
        }
    }
    return false;
}

static void empty_one(unsigned c, fh_depots *shard) {
    fh_word *here = fh_depot_of(shard, c);
    if (fh_load(&shard->away[c])) fh_store(&shard->away[c], 0);
    for (unsigned i = 0; i < fh_depot_slots(c); i++) {
        fh_word *slot = &here[i];
        if (!fh_load(slot)) continue;
        uint64_t seen = fh_swap_acq_rel(slot, 0);
        fh_magazine *m = unpack(seen);
        if (is_full(seen)) {
            fh_sub_relaxed(&shard->full[c], 1);
            give(c, m, m->block);
        }
        if (m) fh_magazine_delete(m);
    }
}

void fh_depot_empty(unsigned c) {
    for (unsigned i = 0; i < FH_SHARDS; i++) empty_one(c, &depot[i]);
}

/* Blocks that a magazine of 64 << k bytes holds. */
static unsigned capacity_of(unsigned k) {
    return (unsigned)(((size_t)64 << k) - offsetof(fh_magazine, block)) / sizeof(void *);
}

/* For statistics. The count belongs to another thread and is read as it is, which is harmless: it is bounded here. */
__attribute__((no_sanitize("thread"))) static size_t blocks_in(unsigned c, fh_word *here) {
    size_t blocks = 0;
    for (unsigned i = 0; i < fh_depot_slots(c); i++) {
        uint64_t seen = fh_load_acquire(&here[i]);
        if (!is_full(seen)) continue;
        /* The magazine may leave while it is read, and its memory, which stays readable, may be something else by then. */
        uint32_t count = *(const volatile uint32_t *)&unpack(seen)->count;
        if (count <= capacity_of(FH_MAGAZINE_SIZES - 1)) blocks += count;
    }
    return blocks;
}

size_t fh_depot_blocks(unsigned c) {
    size_t blocks = 0;
    for (unsigned i = 0; i < FH_SHARDS; i++) blocks += blocks_in(c, fh_depot_of(&depot[i], c));
    return blocks;
}

const fh_word *fh_depot_words(unsigned shard, unsigned c) {
    return fh_depot_of(&depot[shard], c);
}

const fh_word *fh_depot_full(unsigned shard, unsigned c) {
    return &depot[shard].full[c];
}

/* ── Magazines ───────────────────────────────────────────────────────────────────────────────────────────────────── */

fh_magazine *fh_magazine_new(unsigned blocks) {
    unsigned k = 0;
    FH_ASSERT(blocks <= capacity_of(FH_MAGAZINE_SIZES - 1));
    while (capacity_of(k) < blocks) k++;
    void *p;
    if (fh_slab_take(FH_CLASS_MAGAZINE + k, 1, &p) == 0) return NULL;
    fh_magazine *m = p;
    m->capacity = (uint16_t)capacity_of(k);
    m->from = 0;
    m->count = 0;
    m->bottom = NULL;
    return m;
}

void fh_magazine_delete(fh_magazine *m) {
    unsigned k = 0;
    FH_ASSERT(m->capacity <= capacity_of(FH_MAGAZINE_SIZES - 1) && !m->bottom);
    while (capacity_of(k) < m->capacity) k++;
    FH_ASSERT(m->capacity == capacity_of(k));
    void *p = m;
    fh_slab_give(FH_CLASS_MAGAZINE + k, 1, &p);
}

_Static_assert(FH_AWAY_BYTES + 510 * FH_SMALL_MAX < UINT64_C(1) << 32 && AWAY_MOST > FH_AWAY_LEAST,
               "both parts of an away word");
_Static_assert(sizeof(fh_magazine) == 16, "64 << k bytes hold 6, 14, 30 … 510 blocks");
