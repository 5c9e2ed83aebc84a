#include "store/window.h"

#include "base/assert.h"
#include "base/tuning.h"
#include "system/system.h"

#include <errno.h>

fh_window_state fh_window;
fh_word fh_base = {FH_NO_WINDOW};

#define RESERVED UINT64_C(1)

/* Reserves class map and window as one range, the window's base a multiple of a chunk. */
static uint64_t reserve_window(void) {
    size_t size = FH_CLASS_MAP_SIZE + FH_WINDOW_SIZE + FH_CHUNK_SIZE;
    char *p = fh_system_reserve(size);
    if (!p) return 0;
    uintptr_t base = fh_round_up((uintptr_t)p + FH_CLASS_MAP_SIZE, FH_CHUNK_SIZE);
    char *map = (char *)(base - FH_CLASS_MAP_SIZE);
    FH_ASSERT(map >= p && base + FH_WINDOW_SIZE <= (uintptr_t)p + size && base % FH_CHUNK_SIZE == 0);
    if (map > p) fh_system_unmap(p, (size_t)(map - p));
    char *end = (char *)(base + FH_WINDOW_SIZE);
    if (end < p + size) fh_system_unmap(end, (size_t)(p + size - end));
    if (!fh_system_make_readable(map, FH_CLASS_MAP_SIZE)) {
        fh_system_unmap(map, FH_CLASS_MAP_SIZE + FH_WINDOW_SIZE);
        return 0;
    }
    return base | RESERVED;
}

/* The same without reserving the window: only its class map is mapped, at the place where it has to be. */
static uint64_t find_window(void) {
    for (int tries = 0; tries < 16; tries++) {
        char *map = fh_system_find_place(FH_CLASS_MAP_SIZE + FH_WINDOW_SIZE, FH_CHUNK_SIZE);
        if (map && fh_system_place(map, FH_CLASS_MAP_SIZE) == 0) return (uintptr_t)map + FH_CLASS_MAP_SIZE;
    }
    return 0;
}

static void drop_window(uint64_t origin) {
    char *map = (char *)((uintptr_t)(origin & ~RESERVED) - FH_CLASS_MAP_SIZE);
    fh_system_unmap(map, origin & RESERVED ? FH_CLASS_MAP_SIZE + FH_WINDOW_SIZE : FH_CLASS_MAP_SIZE);
}

bool fh_window_start(void) {
    /* acquire: a thread that sees the base sees the origin. Not written again, because the hot path shares its line. */
    if (FH_LIKELY(fh_load_acquire(&fh_base) != FH_NO_WINDOW)) return true;
    uint64_t seen = fh_load_acquire(&fh_window.origin);
    if (!seen) {
        uint64_t mine = reserve_window();
        if (!mine) mine = find_window();
        if (!mine) return false;
        /* acq_rel: the loser must see the winner's class map, the winner publishes it. */
        if (fh_cas_acq_rel(&fh_window.origin, &seen, mine)) {
            seen = mine;
        } else {
            drop_window(mine);
        }
    }
    /* All threads write the same value. The hot path needs no order with it, because blocks reach it through this thread. */
    fh_store_release(&fh_base, seen & ~RESERVED);
    return true;
}

/* Makes the class bytes of a region writable, 4 KiB of them: where pages are larger, those of its neighbours too. */
static bool enable_class_bytes(size_t region) {
    if (!(fh_load(&fh_window.origin) & RESERVED)) return true;
    size_t page = fh_system_page_size();
    uintptr_t first = (uintptr_t)fh_class_byte(region * FH_REGION_SLOTS) & ~(page - 1);
    return fh_system_enable((void *)first, fh_round_up(FH_REGION_SLOTS, page)); // NOLINT(performance-no-int-to-ptr)
}

/* Metadata for a region: each thread that comes maps some, one publishes it. Its class bytes become writable too. */
static bool start_region(size_t region) {
    if (fh_load_acquire(&fh_window.region[region])) return true;
    if (!enable_class_bytes(region)) return false;
    size_t size = fh_round_up(sizeof(fh_region), fh_system_page_size());
    void *mine = fh_system_map(size, fh_system_page_size());
    if (!mine) return false;
    /* A small process touches little of it, and it is longer than a huge page. */
    if (fh_system_huge_pages_always()) fh_system_huge_pages(mine, size, false);
    uint64_t seen = 0;
    /* release: the zeroes of the metadata before its address. */
    if (!fh_cas_acq_rel(&fh_window.region[region], &seen, (uintptr_t)mine)) fh_system_unmap(mine, size);
    return true;
}

/* Puts memory behind chunks. 0, ENOMEM or EEXIST. */
static int start_chunks(size_t chunk, size_t n) {
    FH_ASSERT(n >= 1 && chunk + n <= FH_WINDOW_CHUNKS);
    char *p = fh_slot_address(chunk * FH_CHUNK_SLOTS);
    if (!(fh_load(&fh_window.origin) & RESERVED)) return fh_system_place(p, n * FH_CHUNK_SIZE);
    if (fh_system_enable(p, n * FH_CHUNK_SIZE)) return 0;
    if (n > 1) fh_system_disable(p, n * FH_CHUNK_SIZE); /* a part of it may have been possible */
    return ENOMEM;
}

/* Chunks that could not be started once, or were dropped, are tried again before new ones are taken: so many in a row, of one
 * region. */
static size_t retry_lost_chunks(unsigned n) {
    for (size_t region = 0; region * FH_REGION_CHUNKS < fh_window_chunks(); region++) {
        fh_region *r = fh_region_at(region);
        uint64_t lost = r ? fh_load(&r->lost) : 0;
        for (uint64_t starts; (starts = fh_run_starts(lost, n)) != 0;) {
            unsigned first = fh_lowest_bit(starts);
            uint64_t mask = fh_run_mask(first, n);
            /* acquire: the thread that clears the bits has the chunks, and their last use is over. */
            if (!fh_cas_acquire(&r->lost, &lost, lost & ~mask)) continue;
            size_t chunk = region * FH_REGION_CHUNKS + first;
            if (start_chunks(chunk, n) == 0) {
                fh_sub_relaxed(&fh_window.lost, n);
                return chunk;
            }
            fh_or_release(&r->lost, mask);
            return FH_NONE;
        }
    }
    return FH_NONE;
}

/* Metadata for all of these chunks. */
static bool start_regions(size_t chunk, size_t n) {
    for (size_t region = chunk / FH_REGION_CHUNKS; region * FH_REGION_CHUNKS < chunk + n; region++) {
        if (!start_region(region)) return false;
    }
    return true;
}

/* Lost chunks at the end of the heap are as if never taken: else each race of threads that are refused memory would use up
 * a piece of the window for good, and metadata for it. */
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

size_t fh_window_take_chunks(size_t n) {
    if (!fh_window_start()) return FH_NONE;
    if (FH_UNLIKELY(n <= FH_REGION_CHUNKS && fh_load(&fh_window.lost) >= n)) {
        size_t chunk = retry_lost_chunks((unsigned)n);
        if (chunk != FH_NONE) return chunk;
    }
    for (;;) {
        uint64_t chunk = fh_load_acquire(&fh_window.next_chunk);
        if (n > FH_WINDOW_CHUNKS - chunk || !start_regions(chunk, n)) return FH_NONE;
        /* acq_rel: a thread that reads the new number must see the regions' addresses. */
        if (!fh_cas_acq_rel(&fh_window.next_chunk, &chunk, chunk + n)) continue;
        int error = start_chunks(chunk, n);
        if (error == 0) return chunk;
        if (error == EEXIST) continue; /* there is a foreign mapping: passed over for good */
        lose_chunks(chunk, n);
        return FH_NONE;
    }
}

/* Maps each piece of this range that is not mapped. */
static void mend(char *p, size_t size, size_t piece) {
    for (char *end = p + size; p < end; p += piece) {
        if (fh_system_is_mapped(p, piece)) continue;
        if (piece == fh_system_page_size()) {
            (void)fh_system_place(p, piece); /* short of memory, it stays as the kernel has made it */
        } else {
            mend(p, piece, piece == FH_CHUNK_SIZE ? FH_SLOT_SIZE : fh_system_page_size());
        }
    }
}

void fh_window_mend(void) {
    size_t chunks = fh_window_chunks();
    if (!chunks || fh_system_is_mapped(fh_slot_address(0), chunks * FH_CHUNK_SIZE)) return;
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        bool lost = fh_load(&fh_region_at(chunk / FH_REGION_CHUNKS)->lost) >> chunk % FH_REGION_CHUNKS & 1;
        if (!lost) mend(fh_slot_address(chunk * FH_CHUNK_SLOTS), FH_CHUNK_SIZE, FH_CHUNK_SIZE);
    }
}

void fh_window_drop_chunk(size_t chunk) {
    FH_ASSERT_COSTLY(fh_load(&fh_chunk_at(chunk)->free) == 0 && fh_load(&fh_chunk_at(chunk)->dirty) == 0);
    char *p = fh_slot_address(chunk * FH_CHUNK_SLOTS);
    if (fh_load(&fh_window.origin) & RESERVED) {
        fh_system_disable(p, FH_CHUNK_SIZE);
    } else {
        fh_system_unmap(p, FH_CHUNK_SIZE);
    }
    lose_chunks(chunk, 1);
}

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
        if (slot % FH_CHUNK_SLOTS == 0 && fh_load(&fh_chunk_at(chunk)->free) == FH_CHUNK_ALL) {
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
