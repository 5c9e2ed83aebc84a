#include "store/window.h"

#include "base/assert.h"
#include "base/settings.h"
#include "base/tuning.h"
#include "system/inspect.h"
#include "system/system.h"
#include "system/tools.h"

#include <errno.h>

fh_window_state fh_window;
fh_word fh_base = {FH_NO_WINDOW};
fh_word fh_class_slots;

/* ── Where it is ─────────────────────────────────────────────────────────────────────────────────────────────────── */

#define GUARDS 4u

/* The chunk that ends with a guard. */
static size_t guard_chunk(unsigned guard) {
    return (guard + 1) * (FH_WINDOW_CHUNKS / GUARDS) - 1;
}

static char *guard_page(uintptr_t base, unsigned guard) {
    return (char *)(base + (guard_chunk(guard) + 1) * FH_CHUNK_SIZE - fh_system_page_size());
}

/* Unmaps what a window begins with: the class map's first bytes, and so many guards. */
static void drop_window(uintptr_t base, unsigned guards) {
    while (guards-- > 0) fh_system_unmap(guard_page(base, guards), fh_system_page_size());
    fh_system_unmap((char *)(base - FH_CLASS_MAP_SIZE), FH_CLASS_MAP_FIRST); // NOLINT(performance-no-int-to-ptr)
}

/* A window of which nothing is mapped but the above. Returns its base, 0: no address space. */
static uintptr_t find_window(void) {
    for (unsigned attempt = 0; attempt < 16; attempt++) {
        char *map = fh_system_find_place(FH_CLASS_MAP_SIZE + FH_WINDOW_SIZE, FH_CHUNK_SIZE, attempt);
        if (!map) return 0;
        uintptr_t base = (uintptr_t)map + FH_CLASS_MAP_SIZE;
        if (fh_system_place(map, FH_CLASS_MAP_FIRST) != 0) continue;
        unsigned guards = 0;
        while (guards < GUARDS && fh_system_block(guard_page(base, guards), fh_system_page_size()) == 0) guards++;
        if (guards == GUARDS) return base;
        drop_window(base, guards);
    }
    return 0;
}

bool fh_window_start(void) {
    /* acquire: a thread that sees the base sees the origin. Not written again, because the hot path shares its line. */
    if (FH_LIKELY(fh_load_acquire(&fh_base) != FH_NO_WINDOW)) return true;
    uint64_t seen = fh_load_acquire(&fh_window.origin), none = 0;
    if (!seen) {
        uint64_t mine = find_window();
        if (!mine) return false;
        /* acq_rel: the loser must see the winner's class map, the winner publishes it. */
        if (fh_cas_acq_rel(&fh_window.origin, &seen, mine)) {
            seen = mine;
        } else {
            drop_window(mine, GUARDS);
        }
    }
    /* All threads write the same values, but the second may be more by now. The hot path needs no order with them, because
     * blocks reach it through this thread. */
    fh_cas_relaxed(&fh_class_slots, &none, FH_CLASS_MAP_FIRST);
    fh_store_release(&fh_base, seen);
    return true;
}

/* ── Metadata ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Class bytes for all slots before this one. Any number of threads at once map the rest of the class map, and one succeeds.
 * The others see that all of it is mapped, as it is not where a foreign mapping is in the way: nothing but the class map
 * fills what is between its first bytes and the window to the page. In a sandbox the kernel is not asked, and the others try
 * again. */
static bool start_class_bytes(size_t slots) {
    if (FH_LIKELY(slots <= fh_load_acquire(&fh_class_slots))) return true;
    char *rest = (char *)fh_class_byte(FH_CLASS_MAP_FIRST);
    size_t size = FH_CLASS_MAP_SIZE - FH_CLASS_MAP_FIRST;
    fh_tool_maps_for_all();
    int error = fh_system_place(rest, size);
    fh_tool_has_mapped();
    if (error != 0) {
        bool may_ask = error == EEXIST && !fh_system_is_restricted();
        if (!may_ask || !fh_system_is_mapped(rest, size)) return slots <= fh_load_acquire(&fh_class_slots);
    }
    /* A huge page would have the bytes of 128 GiB. And so it stays a mapping apart from the first chunk's, for those who read
     * the list of mappings. */
    if (error == 0) fh_system_huge_pages(rest, size, false);
    fh_store_release(&fh_class_slots, FH_WINDOW_SLOTS);
    return true;
}

/* Memory for metadata. Of a hardened program the page before it and the one behind cannot be touched. */
static char *map_pieces(size_t size) {
    size_t page = fh_system_page_size();
    if (FH_LIKELY(FH_SETTING(harden) == FH_HARDEN_OFF)) return fh_system_map(size, page);
    char *p = fh_system_map(size + 2 * page, page);
    if (!p) return NULL;
    (void)fh_system_guard_close(p, page, false);
    (void)fh_system_guard_close(p + page + size, page, false);
    return p + page;
}

/* 19 MiB: the OS may refuse to promise more than the machine has in one call. */
#define PIECES_AT_ONCE 64u

/* Metadata for pieces first … end − 1 of the window, each of that size. `table` has their addresses. Each thread that comes
 * maps those that are missing, in a row as far as they are, and one thread publishes each. */
static bool start_pieces(fh_word *table, size_t first, size_t end, size_t size) {
    size = fh_round_up(size, fh_system_page_size());
    while (first < end) {
        size_t n = 0;
        while (first + n < end && n < PIECES_AT_ONCE && !fh_load_acquire(&table[first + n])) n++;
        if (n == 0) {
            first++;
            continue;
        }
        char *mine = map_pieces(n * size);
        if (!mine) return false;
        /* A small process touches little of it, and with its neighbours it is longer than a huge page. */
        if (fh_system_huge_pages_always()) fh_system_huge_pages(mine, n * size, false);
        for (; n > 0; n--, first++, mine += size) {
            uint64_t seen = 0;
            /* release: the zeroes of the metadata before its address. */
            if (!fh_cas_acq_rel(&table[first], &seen, (uintptr_t)mine)) fh_system_unmap(mine, size);
        }
    }
    return true;
}

/* Below a limit on address space: whether the chunks have room beside so much metadata, which stays when they have none. Where
 * there is no such limit, nothing is mapped to find out. */
static bool have_room(size_t pieces, size_t chunks) {
    size_t size = pieces * sizeof(fh_records) + chunks * FH_CHUNK_SIZE;
    if (FH_LIKELY(fh_system_most_bytes() == FH_NO_LIMIT)) return true;
    void *p = fh_system_guards_reserve(size, fh_system_page_size());
    if (p) fh_system_guards_drop(p, size);
    return p != NULL;
}

/* Metadata for all of these chunks, of which the caller is going to map so many. */
static bool start_metadata(size_t chunk, size_t n, size_t mapped) {
    size_t last = chunk + n - 1, piece = chunk / FH_RECORDS_CHUNKS, last_piece = last / FH_RECORDS_CHUNKS;
    if (!fh_load_acquire(&fh_window.records[last_piece]) && !have_room(last_piece - piece + 1, mapped)) {
        errno = ENOMEM;
        return false;
    }
    return start_class_bytes((last + 1) * FH_CHUNK_SLOTS) &&
           start_pieces(fh_window.region, chunk / FH_REGION_CHUNKS, last / FH_REGION_CHUNKS + 1, sizeof(fh_region)) &&
           start_pieces(fh_window.records, piece, last_piece + 1, sizeof(fh_records));
}

/* ── Chunks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Puts memory behind chunks, which are the caller's. 0, ENOMEM or EEXIST. */
static int start_chunks(size_t chunk, size_t n) {
    FH_ASSERT(n >= 1 && chunk + n <= FH_WINDOW_CHUNKS);
    for (unsigned guard = 0; guard < GUARDS; guard++) {
        uint64_t bit = UINT64_C(1) << guard;
        if (guard_chunk(guard) - chunk >= n || fh_or_relaxed(&fh_window.guards_gone, bit) & bit) continue;
        fh_system_unmap(guard_page(fh_window_base(), guard), fh_system_page_size());
    }
    return fh_system_place(fh_slot_address(chunk * FH_CHUNK_SLOTS), n * FH_CHUNK_SIZE);
}

/* Lost chunks at the end of the heap are as if never taken: else each race of threads that are refused memory would use up
 * a piece of the window for good, and metadata for it. A partition's regions end with a chunk that is not lost, so they stay. */
static void forget_lost_end(void) {
    for (;;) {
        uint64_t end = fh_load_acquire(&fh_window.next_chunk), last = end - 1;
        if (end == 0) return;
        fh_word *lost = &fh_region_at(last / FH_REGION_CHUNKS)->lost;
        uint64_t bit = UINT64_C(1) << last % FH_REGION_CHUNKS;
        /* The thread that clears the bit has the chunk. acq_rel: its last use is over. */
        if (!(fh_load(lost) & bit) || !(fh_and_acq_rel(lost, ~bit) & bit)) return;
        if (fh_cas_acq_rel(&fh_window.next_chunk, &end, last)) {
            fh_sub_relaxed(&fh_window.lost, 1);
        } else {
            fh_or_release(lost, bit);
        }
    }
}

/* The OS had no memory for these chunks. They are to be tried again, in rows or one by one. */
static void lose_chunks(size_t chunk, size_t n) {
    fh_add_relaxed(&fh_window.lost, n);
    for (size_t end = chunk + n; chunk < end; chunk++)
        fh_or_release(&fh_region_at(chunk / FH_REGION_CHUNKS)->lost, UINT64_C(1) << chunk % FH_REGION_CHUNKS);
    forget_lost_end();
}

/* There is a foreign mapping in these chunks of the caller's. The chunks that it is in are passed over, and the others are
 * lost: to be tried again. Cost: a few system calls for each border of such a mapping. */
static void pass_over(size_t chunk, size_t n) {
    if (n == 1) {
        fh_or_release(&fh_region_at(chunk / FH_REGION_CHUNKS)->foreign, UINT64_C(1) << chunk % FH_REGION_CHUNKS);
        return;
    }
    for (size_t end = chunk + n, part = n / 2; chunk < end; chunk += part, part = end - chunk) {
        char *p = fh_slot_address(chunk * FH_CHUNK_SLOTS);
        int error = fh_system_block(p, part * FH_CHUNK_SIZE);
        if (error == 0) fh_system_unmap(p, part * FH_CHUNK_SIZE);
        error == EEXIST ? pass_over(chunk, part) : lose_chunks(chunk, part);
    }
}

/* Puts memory behind chunks that nobody else has. Where that cannot be done they are to be tried again, all but those in which
 * there is a foreign mapping. */
static int start_or_lose(size_t chunk, size_t n) {
    int error = start_chunks(chunk, n);
    if (error == EEXIST) {
        pass_over(chunk, n);
    } else if (error != 0) {
        lose_chunks(chunk, n);
    }
    return error;
}

/* Chunks that could not be started once, or were dropped, are tried again before new ones are taken: so many in a row, of one
 * region. */
static size_t retry_lost_chunks(unsigned partition, unsigned n) {
    for (size_t region = 0; region * FH_REGION_CHUNKS < fh_window_chunks(); region++) {
        fh_region *r = fh_region_at(region);
        if (!r) continue;
        /* acquire: a region's partition was written before. */
        uint64_t lost = fh_load_acquire(&r->lost);
        if (fh_load(&r->partition) != partition) continue;
        for (uint64_t starts; (starts = fh_run_starts(lost, n)) != 0;) {
            unsigned first = fh_lowest_bit(starts);
            uint64_t mask = fh_run_mask(first, n);
            /* acquire: the thread that clears the bits has the chunks, and their last use is over. */
            if (!fh_cas_acquire(&r->lost, &lost, lost & ~mask)) continue;
            size_t chunk = region * FH_REGION_CHUNKS + first;
            int error = start_chunks(chunk, n);
            if (error == ENOMEM) {
                fh_or_release(&r->lost, mask);
                return FH_NONE;
            }
            fh_sub_relaxed(&fh_window.lost, n);
            if (error == 0) return chunk;
            pass_over(chunk, n);
            lost = fh_load(&r->lost);
        }
    }
    return FH_NONE;
}

size_t fh_window_take_chunks(size_t n) {
    if (!fh_window_start()) return FH_NONE;
    if (FH_UNLIKELY(n <= FH_REGION_CHUNKS && fh_load(&fh_window.lost) >= n)) {
        size_t chunk = retry_lost_chunks(0, (unsigned)n);
        if (chunk != FH_NONE) return chunk;
    }
    for (;;) {
        uint64_t chunk = fh_load_acquire(&fh_window.next_chunk);
        if (n > FH_WINDOW_CHUNKS - chunk || !start_metadata(chunk, n, n)) return FH_NONE;
        /* acq_rel: a thread that reads the new number must see the addresses of the metadata. */
        if (!fh_cas_acq_rel(&fh_window.next_chunk, &chunk, chunk + n)) continue;
        int error = start_or_lose(chunk, n);
        if (error == 0) return chunk;
        if (error != EEXIST) return FH_NONE;
    }
}

bool fh_window_take_lost(size_t chunk) {
    fh_word *lost = &fh_region_at(chunk / FH_REGION_CHUNKS)->lost;
    uint64_t bit = UINT64_C(1) << chunk % FH_REGION_CHUNKS;
    /* The thread that clears the bit has the chunk. acq_rel: its last use is over. */
    if (!(fh_load(lost) & bit) || !(fh_and_acq_rel(lost, ~bit) & bit)) return false;
    fh_sub_relaxed(&fh_window.lost, 1);
    return start_or_lose(chunk, 1) == 0;
}

bool fh_window_take_chunks_behind(size_t chunk, size_t n) {
    uint64_t next = chunk;
    if (n > FH_WINDOW_CHUNKS - chunk || !start_metadata(chunk, n, n)) return false;
    /* acq_rel: as in fh_window_take_chunks. */
    return fh_cas_acq_rel(&fh_window.next_chunk, &next, chunk + n) && start_or_lose(chunk, n) == 0;
}

/* ── Partitions ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* No memory ever: what is before the chunk and behind it cannot be reached over it. Where it cannot be mapped so, because there
 * are too many mappings or something is mapped there, nothing of ours is there either. */
static void block_chunk(size_t chunk) {
    (void)fh_system_block(fh_slot_address(chunk * FH_CHUNK_SLOTS), FH_CHUNK_SIZE);
    fh_or_release(&fh_region_at(chunk / FH_REGION_CHUNKS)->foreign, UINT64_C(1) << chunk % FH_REGION_CHUNKS);
}

/* These regions, in which nothing is free yet, are the partition's from now on. */
static void give_regions(unsigned partition, size_t first, size_t n) {
    for (size_t region = first; region < first + n; region++) {
        uint64_t bit = UINT64_C(1) << region % FH_UNIT_REGIONS;
        fh_store_release(&fh_region_at(region)->partition, partition);
        fh_or_release(&fh_window.regions[0][region / FH_UNIT_REGIONS], bit);
        fh_or_release(&fh_window.regions[partition][region / FH_UNIT_REGIONS], bit);
    }
}

/* Whole regions that no chunk of was ever taken. The caller is going to map so many chunks of them. Returns the first; FH_NONE:
 * there is no room for these and for their metadata. What is before them in the region that was begun last stays to be taken. */
static size_t take_regions(size_t n, size_t mapped) {
    for (;;) {
        uint64_t chunk = fh_load_acquire(&fh_window.next_chunk);
        size_t first = fh_round_up(chunk, FH_REGION_CHUNKS), end = first + n * FH_REGION_CHUNKS;
        if (end > FH_WINDOW_CHUNKS || !start_metadata(chunk, end - chunk, mapped)) return FH_NONE;
        /* acq_rel: as in fh_window_take_chunks. */
        if (!fh_cas_acq_rel(&fh_window.next_chunk, &chunk, end)) continue;
        if (chunk < first) lose_chunks(chunk, first - chunk);
        return first / FH_REGION_CHUNKS;
    }
}

size_t fh_window_take_chunks_in(unsigned partition, size_t n) {
    if (partition == 0) return fh_window_take_chunks(n);
    if (!fh_window_start()) return FH_NONE;
    if (n > FH_WINDOW_CHUNKS) return FH_NONE;
    for (;;) {
        size_t chunk = n <= FH_REGION_CHUNKS - 2 ? retry_lost_chunks(partition, (unsigned)n) : FH_NONE;
        if (chunk != FH_NONE) return chunk;
        size_t regions = (n + 2 + FH_REGION_CHUNKS - 1) / FH_REGION_CHUNKS, region = take_regions(regions, n + 2);
        if (region == FH_NONE) return FH_NONE;
        size_t first = region * FH_REGION_CHUNKS, end = first + regions * FH_REGION_CHUNKS;
        give_regions(partition, region, regions);
        block_chunk(first++);
        block_chunk(--end);
        /* The others wait until they are wanted. */
        if (first + n < end) lose_chunks(first + n, end - first - n);
        int error = start_or_lose(first, n);
        if (error == 0) return first;
        if (error != EEXIST) return FH_NONE;
    }
}

bool fh_window_drop_chunk(size_t chunk) {
    FH_ASSERT_COSTLY(fh_load(&fh_chunk_at(chunk)->free) == 0 && fh_load(&fh_chunk_at(chunk)->dirty) == 0);
    char *p = fh_slot_address(chunk * FH_CHUNK_SLOTS);
    if (!fh_system_unmap(p, FH_CHUNK_SIZE)) {
        fh_system_purge(p, FH_CHUNK_SIZE);
        return false;
    }
    lose_chunks(chunk, 1);
    return true;
}

/* ── After a fork ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Maps each piece of this range that is not mapped. */
static void mend(char *p, size_t size, size_t piece) {
    for (char *end = p + size; p < end; p += piece) {
        if (fh_system_is_mapped(p, piece)) continue;
        /* Short of memory, a page stays as the kernel has made it. */
        if (fh_system_place(p, piece) == 0 || piece == fh_system_page_size()) continue;
        mend(p, piece, piece == FH_CHUNK_SIZE ? FH_SLOT_SIZE : fh_system_page_size());
    }
}

void fh_window_mend(void) {
    size_t chunks = fh_window_chunks();
    if (!chunks || fh_system_is_mapped(fh_slot_address(0), chunks * FH_CHUNK_SIZE)) return;
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        char *p = fh_slot_address(chunk * FH_CHUNK_SLOTS);
        size_t left = chunks - chunk, region = left < FH_REGION_CHUNKS ? left : FH_REGION_CHUNKS;
        if (chunk % FH_REGION_CHUNKS == 0 && fh_system_is_mapped(p, region * FH_CHUNK_SIZE)) {
            chunk += region - 1;
        } else if (!fh_window_misses(chunk)) {
            mend(p, FH_CHUNK_SIZE, FH_CHUNK_SIZE);
        }
    }
}

/* ── The heap, from slot to slot ─────────────────────────────────────────────────────────────────────────────────── */

size_t fh_chunk_first_own(size_t chunk) {
    size_t first = chunk * FH_CHUNK_SLOTS, end = first + FH_CHUNK_SLOTS;
    /* acquire: the run's state was written before. */
    uint64_t over = fh_load_acquire(&fh_chunk_at(chunk)->over);
    if (FH_LIKELY(!over)) return first;
    uint64_t state = fh_load(&fh_slab_at(over - 1)->state);
    size_t run_end = over - 1 + (fh_state_kind(state) == FH_KIND_RUN ? fh_state_run_slots(state) : 0);
    /* It may have been released since. */
    return run_end < first ? first : run_end < end ? run_end : end;
}

size_t fh_next_slab(size_t slot, uint64_t *state) {
    for (size_t end = fh_window_chunks() * FH_CHUNK_SLOTS; slot < end; slot++) {
        size_t chunk = slot / FH_CHUNK_SLOTS;
        if (slot % FH_CHUNK_SLOTS == 0 &&
            (fh_load(&fh_chunk_at(chunk)->free) == FH_CHUNK_ALL || fh_window_misses(chunk))) {
            slot += FH_CHUNK_SLOTS - 1;
            continue;
        }
        size_t own = fh_chunk_first_own(chunk);
        if (own > slot) {
            slot = own - 1;
            continue;
        }
        /* acquire: what was written before the slab was shown. */
        *state = fh_load_acquire(&fh_slab_at(slot)->state);
        if (*state) return slot;
    }
    return FH_NONE;
}
