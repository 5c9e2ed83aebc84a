#include "see/stats.h"

#include "base/classes.h"
#include "store/depot.h"
#include "store/huge.h"
#include "store/window.h"

#include <string.h>

/* Other threads' bins are plain memory that only their owners write; reading them is a race by the letter of C, and a
 * harmless one: every value read is bounded before it is used, and the memory of caches and magazines stays readable. */
#define READS_OTHERS __attribute__((no_sanitize("thread")))

/* ── Threads ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Blocks that thread t has in hand of class c. */
READS_OTHERS static size_t blocks_in_hand(const fh_thread *t, unsigned c) {
    const fh_rack *rack = &t->rack[c];
    const fh_magazine *loaded = *(fh_magazine *const volatile *)&rack->loaded;
    const fh_magazine *previous = *(fh_magazine *const volatile *)&rack->previous;
    void **top = *(void **const volatile *)&t->bin[c].top;
    const size_t most = ((size_t)64 << (FH_MAGAZINE_SIZES - 1)) / sizeof(void *);
    size_t blocks = 0;
    /* Between two reads the owner may have changed magazines: then the difference is nonsense, and counts as nothing. */
    if (loaded) {
        size_t offset = (uintptr_t)top - (uintptr_t)loaded->block;
        if (offset / sizeof(void *) <= most) blocks = offset / sizeof(void *);
    }
    if (previous && fh_in_window(previous)) {
        uint32_t count = *(const volatile uint32_t *)&previous->count;
        if (count <= most) blocks += count;
    }
    return blocks;
}

READS_OTHERS static void add_thread(fh_stats *s, const fh_thread *t) {
    s->threads++;
    s->refills += t->refills;
    s->flushes += t->flushes;
    s->from_depot += t->from_depot;
    s->to_depot += t->to_depot;
    for (unsigned c = 1; c < FH_BINS; c++) s->row[c].cached += blocks_in_hand(t, c);
}

/* ── Slots ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void add_run(fh_stats *s, unsigned slots) {
    size_t bytes = slots * FH_SLOT_SIZE;
    bool cacheable = bytes <= FH_RUN_CACHED_MAX && slots > 1;
    fh_stats_row *row = &s->row[cacheable ? fh_class_run(bytes) : FH_STATS_LARGE];
    row->slabs++;
    row->room++;
    row->made++;
    row->slots += slots;
    if (!cacheable) s->large_bytes += bytes;
}

static void add_slab(fh_stats *s, const fh_slab *slab, size_t slot, unsigned c, uint64_t state) {
    unsigned bump = fh_state_bump(state), room = fh_class_table[c].blocks, set = 0;
    if (bump > room) bump = room;
    for (unsigned w = 0; w < (bump + 63) / 64; w++) set += fh_count_bits(fh_load(&slab->free[w]));
    /* It may have become something else while its words were read. */
    if (fh_state_kind(fh_load(&slab->state)) != c) return;
    fh_stats_row *row = &s->row[c];
    row->slabs++;
    row->slots += fh_class_table[c].slots;
    row->room += room;
    row->made += bump;
    row->free += set < bump ? set : bump;
    if (c != FH_CLASS_THREAD) return;
    for (unsigned i = 0; i < bump; i++) {
        const fh_thread *t = (const fh_thread *)(fh_slot_address(slot) + i * fh_class_size(c));
        uint64_t life = fh_load_acquire(&t->state);
        if (life == FH_THREAD_LIVE || life == FH_THREAD_BUSY) add_thread(s, t);
    }
}

static void add_chunk(fh_stats *s, const fh_region *region, size_t number) {
    const fh_chunk *chunk = &region->chunk[number % FH_REGION_CHUNKS];
    /* The system had no memory for this one. */
    if (fh_load(&region->lost) >> number % FH_REGION_CHUNKS & 1) return;
    s->chunks++;
    uint64_t free = fh_load(&chunk->free), dirty = fh_load(&chunk->dirty);
    s->dirty_bytes += fh_count_bits(free & dirty) * FH_SLOT_SIZE;
    s->purged_bytes += fh_count_bits(free & ~dirty) * FH_SLOT_SIZE;
    for (size_t i = 0; i < FH_CHUNK_SLOTS; i++) {
        size_t slot = number * FH_CHUNK_SLOTS + i;
        const fh_slab *slab = &region->slab[slot % FH_REGION_SLOTS];
        uint64_t state = fh_load_acquire(&slab->state);
        unsigned kind = fh_state_kind(state);
        if (kind == FH_KIND_RUN) {
            add_run(s, fh_state_bump(state));
        } else if (kind < FH_CLASSES) {
            add_slab(s, slab, slot, kind, state);
        }
    }
}

/* ── All of it ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What is neither free nor in a cache, the program has. Figures taken at different moments may contradict each other;
 * then the caches' yields, as it is the less certain one. */
static void settle(fh_stats_row *row) {
    size_t out = row->made - row->free;
    if (row->cached > out) row->cached = out;
    row->live = out - row->cached;
}

/* Slabs of magazines and thread caches, and the words about each slot that was ever used. */
static size_t metadata_bytes(const fh_stats *s) {
    size_t bytes = s->chunks * (sizeof(fh_chunk) + FH_CHUNK_SLOTS * (sizeof(fh_slab) + 1));
    for (unsigned c = FH_CLASS_MAGAZINE; c < FH_CLASSES; c++) bytes += s->row[c].slots * FH_SLOT_SIZE;
    return bytes;
}

void fh_stats_collect(fh_stats *s) {
    memset(s, 0, sizeof *s);
    size_t chunks = fh_window_chunks();
    for (size_t number = 0; number < chunks; number++) {
        const fh_region *region = fh_region_at(number / FH_REGION_CHUNKS);
        if (region) add_chunk(s, region, number);
    }
    for (unsigned c = 0; c < FH_CLASSES; c++) {
        s->row[c].size = fh_class_size(c);
        if (c > 0 && c < FH_BINS) s->row[c].cached += fh_depot_blocks(c);
        settle(&s->row[c]);
    }
    s->huge_count = fh_huge_count();
    s->huge_bytes = fh_huge_bytes();
    s->huge_cached_bytes = fh_huge_cached_bytes();
    s->metadata_bytes = metadata_bytes(s);
}

fh_stats_total fh_stats_sum(const fh_stats *s) {
    fh_stats_total t = {0};
    for (unsigned c = 1; c < FH_BINS; c++) {
        const fh_stats_row *row = &s->row[c];
        t.live_blocks += row->live;
        t.cached_blocks += row->cached;
        t.free_blocks += row->free;
        t.live_bytes += row->live * row->size;
        t.cached_bytes += row->cached * row->size;
        t.free_bytes += row->free * row->size;
        t.slot_bytes += row->slots * FH_SLOT_SIZE;
    }
    t.live_blocks += s->row[FH_STATS_LARGE].live;
    t.live_bytes += s->large_bytes;
    t.slot_bytes += s->large_bytes;
    /* Never touched, and the rounding at the end of each slab. */
    t.fresh_bytes = t.slot_bytes - t.live_bytes - t.cached_bytes - t.free_bytes;
    return t;
}
