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

/* Puts memory behind a chunk. 0, ENOMEM or EEXIST. */
static int start_chunk(size_t chunk) {
    FH_ASSERT(chunk < FH_WINDOW_CHUNKS);
    char *p = fh_slot_address(chunk * FH_CHUNK_SLOTS);
    if (!(fh_load(&fh_window.origin) & RESERVED)) return fh_system_place(p, FH_CHUNK_SIZE);
    return fh_system_enable(p, FH_CHUNK_SIZE) ? 0 : ENOMEM;
}

/* Chunks that could not be started once are tried again before a new one is taken. */
static size_t retry_lost_chunk(void) {
    for (size_t region = 0; region * FH_REGION_CHUNKS < fh_window_chunks(); region++) {
        fh_region *r = fh_region_at(region);
        if (!r) continue;
        for (uint64_t lost = fh_load(&r->lost); lost; lost &= lost - 1) {
            uint64_t bit = lost & -lost;
            /* The thread that clears the bit has the chunk. */
            if (!(fh_and_acq_rel(&r->lost, ~bit) & bit)) continue;
            size_t chunk = region * FH_REGION_CHUNKS + fh_lowest_bit(bit);
            if (start_chunk(chunk) == 0) {
                fh_sub_relaxed(&fh_window.lost, 1);
                return chunk;
            }
            fh_or_release(&r->lost, bit);
            return FH_NONE;
        }
    }
    return FH_NONE;
}

size_t fh_window_take_chunk(void) {
    if (!fh_window_start()) return FH_NONE;
    if (FH_UNLIKELY(fh_load(&fh_window.lost))) {
        size_t chunk = retry_lost_chunk();
        if (chunk != FH_NONE) return chunk;
    }
    for (;;) {
        uint64_t chunk = fh_load_acquire(&fh_window.next_chunk);
        if (chunk >= FH_WINDOW_CHUNKS || !start_region(chunk / FH_REGION_CHUNKS)) return FH_NONE;
        /* acq_rel: a thread that reads the new number must see the region's address. */
        if (!fh_cas_acq_rel(&fh_window.next_chunk, &chunk, chunk + 1)) continue;
        int error = start_chunk(chunk);
        if (error == 0) return chunk;
        if (error == EEXIST) continue; /* there is a foreign mapping: passed over for good */
        fh_or_release(&fh_region_at(chunk / FH_REGION_CHUNKS)->lost, UINT64_C(1) << chunk % FH_REGION_CHUNKS);
        fh_add_relaxed(&fh_window.lost, 1);
        return FH_NONE;
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
    fh_add_relaxed(&fh_window.lost, 1);
    /* release: the end of our use of the chunk before another thread takes it. */
    uint64_t bit = UINT64_C(1) << chunk % FH_REGION_CHUNKS;
    uint64_t before = fh_or_release(&fh_region_at(chunk / FH_REGION_CHUNKS)->lost, bit);
    FH_ASSERT((before & bit) == 0);
}

size_t fh_next_slab(size_t slot, uint64_t *state) {
    for (size_t end = fh_window_chunks() * FH_CHUNK_SLOTS; slot < end; slot++) {
        if (slot % FH_CHUNK_SLOTS == 0 && fh_load(&fh_chunk_at(slot / FH_CHUNK_SLOTS)->free) == FH_CHUNK_OPEN) {
            slot += FH_CHUNK_SLOTS - 1;
            continue;
        }
        /* acquire: what was written before the slab was shown. */
        *state = fh_load_acquire(&fh_slab_at(slot)->state);
        if (*state) return slot;
    }
    return FH_NONE;
}
