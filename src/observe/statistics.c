#include "observe/statistics.h"

#include "base/classes.h"
#include "base/settings.h"
#include "base/tuning.h"
#include "cache/thread.h"
#include "heap/defer.h"
#include "reclaim/limits.h"
#include "store/depot.h"
#include "store/edge.h"
#include "store/guarded.h"
#include "store/large.h"
#include "store/holes.h"
#include "store/pages.h"
#include "store/run.h"
#include "store/window.h"
#include "system/inspect.h"
#include "system/system.h"

#include <string.h>

_Static_assert(FH_CLASSES <= FH_PROFILE_CLASSES, "a row for each class");

/* Other threads' bins are plain memory that only their owners write; reading them is a race by the letter of C, and
 * a harmless one: every value read is bounded before it is used, and the memory of caches and magazines stays
 * readable. */
#define READS_OTHERS __attribute__((no_sanitize("thread")))

/* ── Threads ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The state of a cache, or of a block that is there now. A plain read, because the sanitizer sees through an atomic one. */
READS_OTHERS static uint64_t life_of(const fh_thread *t) {
    return *(const volatile uint64_t *)&t->state;
}

/* Blocks of class c that thread t has cached. */
READS_OTHERS static size_t cached_blocks(const fh_thread *t, unsigned c) {
    const fh_rack *rack = &t->rack[c];
    const fh_magazine *loaded = *(fh_magazine *const volatile *)&rack->loaded;
    const fh_magazine *previous = *(fh_magazine *const volatile *)&rack->previous;
    void **top = *(void **const volatile *)&t->bin[c].top;
    const size_t most = ((size_t)64 << (FH_MAGAZINE_SIZES - 1)) / sizeof(void *);
    size_t blocks = 0;
    /* Between two reads the owner may have changed magazines: then the difference is nonsense, and counts as
     * nothing. */
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

READS_OTHERS static void add_thread(fh_profile_statistics *f, const fh_thread *t) {
    f->threads += life_of(t) != FH_THREAD_PARKED;
    f->refills += t->refills;
    f->flushes += t->flushes;
    f->from_depot += t->from_depot;
    f->to_depot += t->to_depot;
    for (unsigned c = 1; c < FH_BINS; c++) {
        size_t blocks = cached_blocks(t, c);
        f->row[c].cached += blocks;
        f->thread_cached_bytes += blocks * fh_class_size(c);
    }
}

/* ── Slots ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A block that no magazine holds is the program's. What its slots have beyond it, the rounding and the room to grow, is
 * fresh. */
static void add_long_block(fh_profile_statistics *f, size_t used, size_t slots) {
    f->fresh_bytes += slots * FH_SLOT_SIZE - used;
    if (used > FH_PROFILE_HUGE) {
        f->huge_blocks++;
        f->huge_bytes += used;
    } else {
        f->live_bytes += used;
    }
}

/* The large block that begins in a slot, if one does. */
static void add_large(fh_profile_statistics *f, size_t slot) {
    size_t used, slots;
    if (!fh_large_in(slot, &used, &slots) || used > slots * FH_SLOT_SIZE)
        return; /* or it was freed while it was read */
    bool cacheable = used > FH_SLOT_SIZE && used <= FH_RUN_CACHED_MAX;
    if (!cacheable) add_long_block(f, used, slots);
    if (used > FH_PROFILE_HUGE) return;
    fh_profile_row *row = &f->row[cacheable ? fh_class_run(used) : FH_FIGURES_LARGE];
    row->slabs++;
    row->room++;
    row->made++;
    row->occupancy[3]++;
    if (!cacheable) row->slots += slots;
}

/* Slots that large blocks of a class share are in the row of edges, and so are those between: all that such a block has. Of the
 * block that begins in this slot, those behind it that are its own; 1 more for the slot itself. */
static size_t slots_of_paged(size_t slot) {
    size_t used = 0, slots = 0;
    const char *block = fh_large_in(slot, &used, &slots);
    if (!block || used > FH_RUN_CACHED_MAX) return 0;
    return ((uintptr_t)block % FH_SLOT_SIZE + used) / FH_SLOT_SIZE;
}

/* The pages of an edge that are free. */
static void add_gap(fh_profile_statistics *f, size_t slot) {
    uint64_t free = fh_edge_free(slot), clean = fh_load(&fh_slab_at(slot)->clean) & free;
    fh_profile_row *row = &f->row[FH_CLASS_EDGE];
    row->slabs++;
    row->occupancy[(FH_SLOT_PAGES - fh_count_bits(free)) * 4 / (FH_SLOT_PAGES + 1)]++;
    row->room += fh_count_bits(free & ~clean);
    row->made += fh_count_bits(free & ~clean);
    row->free += fh_count_bits(free & ~clean);
}

/* The caches in a slab of their class. If the slab has become something else since it was looked at, the words are a block's that
 * the program writes to: they count once, and only if they look like a cache's. */
static void add_threads(fh_profile_statistics *f, size_t slot, unsigned made) {
    for (unsigned i = 0; i < made; i++) {
        const fh_thread *t = (const fh_thread *)(fh_slot_address(slot) + i * fh_class_size(FH_CLASS_THREAD));
        uint64_t life = life_of(t);
        if (life == FH_THREAD_LIVE || life == FH_THREAD_BUSY || life == FH_THREAD_PARKED) add_thread(f, t);
    }
}

/* Adds the slab of class c, or of that owner class, at a slot. `resident` says which of its pages have memory; NULL:
 * not asked. */
static void add_slab(fh_profile_statistics *f, size_t slot, unsigned c, uint64_t state, const unsigned char *resident) {
    const fh_slab *slab = fh_slab_at(slot);
    unsigned made = fh_state_bump(state), room = fh_class_table[c].blocks, set = 0;
    if (made > room) made = room;
    for (unsigned w = 0; w < (made + 63) / 64; w++) set += fh_count_bits(fh_load(&slab->free[w]));
    unsigned missing = resident && c <= FH_SMALL_LAST ? fh_pages_missing(slot, c, made, resident) : 0;
    /* It may have become something else while its words were read. */
    if (fh_state_class(fh_load(&slab->state)) != c) return;
    if (set > made) set = made;
    /* The rows count units; a block of several is one to the program. The sum of the rows is added later. */
    if (fh_state_kind(state) == FH_CLASS_BORROWED) f->live_blocks -= fh_holes_joined(slab, made);
    fh_profile_row *row = &f->row[c];
    row->slabs++;
    row->slots += fh_class_table[c].slots;
    row->room += room;
    row->made += made;
    row->free += set;
    unsigned quarter = (made - set) * 4 / room;
    row->occupancy[quarter < 4 ? quarter : 3]++;
    f->purged_in_slabs_bytes += missing * fh_system_page_size();
    if (c == FH_CLASS_THREAD) add_threads(f, slot, made);
}

/* ── Chunks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Pages of 4 KiB in a chunk. Where pages are larger, fewer of these bytes are used. */
#define CHUNK_PAGES (FH_CHUNK_SIZE / (4 * FH_KIB))

/* Free slots, and the words about the others. */
static void add_free_slots(fh_profile_statistics *f, const fh_chunk *chunk, bool over) {
    uint64_t free = fh_load(&chunk->free), dirty = fh_load(&chunk->dirty);
    uint64_t used = fh_load(&chunk->used) | ~free;
    f->dirty_bytes += fh_count_bits(free & dirty) * FH_SLOT_SIZE;
    /* Never used ones have no memory either. */
    f->purged_bytes += fh_count_bits(free & ~dirty) * FH_SLOT_SIZE;
    if (free == FH_CHUNK_ALL) f->free_chunks++;
    f->metadata_bytes += sizeof(fh_chunk);
    if (!over) f->metadata_bytes += sizeof(fh_chunk_hints) + fh_count_bits(used) * (sizeof(fh_slab) + 1);
}

/* `inside`: pages of slabs may have lost their memory, so the kernel is asked about them, once a chunk. */
static void add_chunk(fh_profile_statistics *f, const fh_region *region, size_t number, bool inside) {
    const fh_chunk *chunk = &region->chunk[number % FH_REGION_CHUNKS];
    size_t bit = number % FH_REGION_CHUNKS, first = number * FH_CHUNK_SLOTS;
    if (fh_window_misses(number)) return;
    f->chunks++;
    f->huge_page_chunks += fh_load(&region->huge) >> bit & 1;
    /* In the middle of a long run there are no records of slots. */
    size_t own = fh_chunk_first_own(number) - first;
    add_free_slots(f, chunk, own == FH_CHUNK_SLOTS);
    if (fh_load(&chunk->free) == FH_CHUNK_ALL || own == FH_CHUNK_SLOTS) return;
    unsigned char pages[CHUNK_PAGES];
    size_t slot_pages = FH_SLOT_SIZE / fh_system_page_size();
    inside = inside && fh_system_resident(fh_slot_address(first), FH_CHUNK_SIZE, pages);
    for (size_t i = own; i < FH_CHUNK_SLOTS; i++) {
        uint64_t state = fh_load_acquire(&fh_slab_at(first + i)->state);
        unsigned kind = fh_state_class(state);
        if (kind == FH_KIND_RUN || kind == FH_CLASS_EDGE) {
            size_t own = slots_of_paged(first + i);
            add_large(f, first + i);
            if (kind == FH_CLASS_EDGE) add_gap(f, first + i);
            f->row[FH_CLASS_EDGE].slots += kind == FH_CLASS_EDGE && own == 0 ? 1 : own;
            if (kind == FH_KIND_RUN) i += fh_state_run_slots(state) - 1;
        } else if (kind < FH_CLASSES) {
            add_slab(f, first + i, kind, state, inside ? pages + i * slot_pages : NULL);
        }
    }
}

/* ── All of it ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What is neither free nor in a cache, the program has. Counts taken at different times may contradict each other; then
 * that of the caches yields, because it is the less certain one. */
static void settle(fh_profile_row *row) {
    uint64_t out = row->made - row->free;
    if (row->cached > out) row->cached = out;
    row->live = out - row->cached;
}

/* The sums over the classes that programs use, and over the allocator's own. */
static void add_rows(fh_profile_statistics *f) {
    uint64_t room_bytes = 0, live_bytes = 0;
    for (unsigned c = 1; c < FH_CLASSES; c++) {
        fh_profile_row *row = &f->row[c];
        if (fh_statistics_use(c) == FH_PROFILE_USE_SAMPLES) row->sampled = row->live;
        if (fh_statistics_use(c) == FH_PROFILE_USE_OWN) {
            f->metadata_bytes += row->made * row->size;
            continue;
        }
        f->live_blocks += row->live;
        live_bytes += row->live * row->size;
        f->cached_bytes += row->cached * row->size;
        f->free_bytes += row->free * row->size;
        room_bytes += row->slots * FH_SLOT_SIZE;
    }
    /* Never touched, and the rounding at the end of each slab. While threads run it may seem to be below zero. */
    uint64_t taken = live_bytes + f->cached_bytes + f->free_bytes;
    f->fresh_bytes = f->fresh_bytes + room_bytes > taken ? f->fresh_bytes + room_bytes - taken : 0;
    f->live_blocks += f->row[FH_FIGURES_LARGE].live;
    f->live_bytes += live_bytes;
    if (f->thread_cached_bytes > f->cached_bytes) f->thread_cached_bytes = f->cached_bytes;
}

static void add_counts_of_the_gone(fh_profile_statistics *f) {
    f->refills += fh_load(&fh_threads_gone[0]);
    f->flushes += fh_load(&fh_threads_gone[1]);
    f->from_depot += fh_load(&fh_threads_gone[2]);
    f->to_depot += fh_load(&fh_threads_gone[3]);
}

static void add_system(fh_profile_statistics *f) {
    fh_limit_figures limit = fh_limits_now();
    f->limit_soft = limit.soft;
    f->limit_hard = limit.hard;
    f->limit_in_use = limit.in_use;
    f->limit_refusals = limit.refusals;
    size_t group, used;
    if (fh_system_group_memory(&group, &used)) {
        f->group_limit = group;
        f->group_used = used;
    }
    fh_system_calls calls = fh_system_calls_made();
    f->system_maps = calls.maps;
    f->system_unmaps = calls.unmaps;
    f->purge_calls = calls.purges;
    f->purged_total_bytes = calls.purged_bytes;
    f->purge_mode = FH_SETTING(purge);
    f->thp_mode = FH_SETTING(thp);
    f->resident_bytes = fh_system_resident_bytes();
}

void fh_statistics_collect(fh_profile_statistics *f) {
    memset((char *)f + sizeof f->sequence, 0, sizeof *f - sizeof f->sequence);
    f->taken_ns = fh_system_nanoseconds();
    fh_run_settle(); /* what is kept counts as what it is */
    bool inside = fh_pages_were_purged();
    size_t chunks = fh_window_chunks();
    for (size_t number = 0; number < chunks; number++) {
        const fh_region *region = fh_region_at(number / FH_REGION_CHUNKS);
        if (region) add_chunk(f, region, number, inside);
    }
    f->rows = FH_CLASSES;
    for (unsigned c = 0; c < FH_CLASSES; c++) {
        f->row[c].size = fh_class_size(c);
        f->row[c].class_use = fh_statistics_use(c);
        if (c > 0 && c < FH_BINS && f->row[c].made) f->row[c].cached += fh_depot_blocks(c);
        settle(&f->row[c]);
    }
    f->mapped_bytes = f->chunks * FH_CHUNK_SIZE;
    add_rows(f);
    f->guarded_blocks = fh_load(&fh_guarded.blocks);
    f->guarded_bytes = fh_load(&fh_guarded.block_bytes);
    f->guarded_page_bytes = fh_load(&fh_guarded.page_bytes);
    f->deferred_bytes = fh_defer_waiting();
    f->deferred_most = FH_SETTING(defer);
    add_counts_of_the_gone(f);
    add_system(f);
    f->cost_ns = fh_system_nanoseconds() - f->taken_ns;
}

fh_statistics_total fh_statistics_sum(const fh_profile_statistics *f) {
    fh_statistics_total t = {0};
    for (unsigned c = 1; c < FH_CLASSES; c++) {
        if (fh_statistics_use(c) == FH_PROFILE_USE_OWN) continue;
        t.cached_blocks += f->row[c].cached;
        t.free_blocks += f->row[c].free;
    }
    return t;
}

/* ── A structure to fill ─────────────────────────────────────────────────────────────────────────────────────────── */

static fh_profile_statistics common;
static fh_word common_is_lent; /* 0 → 1 by exchange: the borrower's; 1 → 0 by the borrower */

fh_profile_statistics *fh_statistics_borrow(void) {
    /* acquire: the last borrower's writes are over. */
    if (!fh_swap_acq_rel(&common_is_lent, 1)) return &common;
    return fh_system_map(sizeof common, fh_system_page_size());
}

void fh_statistics_return(fh_profile_statistics *f) {
    if (f == &common) {
        fh_store_release(&common_is_lent, 0); /* release: as above */
    } else {
        fh_system_unmap(f, fh_round_up(sizeof common, fh_system_page_size()));
    }
}
