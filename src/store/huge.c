#include "store/huge.h"

#include "base/settings.h"
#include "system/system.h"

#define UNIT_SHIFT 21 /* huge blocks begin at multiples of 2 MiB: the size of a huge page */
#define UNIT ((size_t)1 << UNIT_SHIFT)
#define ADDRESS_BITS 47
#define LEAF_BITS 13
#define LEAF_SIZE ((size_t)1 << LEAF_BITS)
#define ROOT_SIZE ((size_t)1 << (ADDRESS_BITS - UNIT_SHIFT - LEAF_BITS))

/* root[address >> 34] → leaf (0 until needed, then for ever); leaf[address >> 21] → bytes of the block, 0 = none.
 * An entry changes 0 → bytes when the block is made, bytes → 0 by exchange when it is freed: of two frees one gets it. */
static fh_word root[ROOT_SIZE];

static fh_word live_bytes, live_count, cached_bytes;

static fh_word *leaf_of(uintptr_t address) {
    if (address >> ADDRESS_BITS) return NULL;
    /* acquire: the leaf's zeroes before its address. */
    return (fh_word *)(uintptr_t)fh_load_acquire(&root[address >> (UNIT_SHIFT + LEAF_BITS)]);
}

/* The table entry of an address at which a huge block may begin, NULL if there is none. */
static fh_word *entry_of(const void *p) {
    uintptr_t address = (uintptr_t)p;
    fh_word *leaf = address % UNIT ? NULL : leaf_of(address);
    return leaf ? &leaf[(address >> UNIT_SHIFT) % LEAF_SIZE] : NULL;
}

static bool enter(void *p, size_t size) {
    uintptr_t address = (uintptr_t)p;
    if (address >> ADDRESS_BITS) return false;
    if (!leaf_of(address)) {
        size_t bytes = LEAF_SIZE * sizeof(fh_word);
        void *mine = fh_system_map(bytes, fh_system_page_size());
        if (!mine) return false;
        uint64_t seen = 0;
        /* release: the leaf is zero before it is found. */
        if (!fh_cas_acq_rel(&root[address >> (UNIT_SHIFT + LEAF_BITS)], &seen, (uintptr_t)mine)) {
            fh_system_unmap(mine, bytes);
        }
    }
    fh_store_release(entry_of(p), size);
    fh_add_relaxed(&live_bytes, size);
    fh_add_relaxed(&live_count, 1);
    return true;
}

/* Takes the entry out: its size, or 0 if no block begins there (any more). */
static size_t leave(void *p) {
    fh_word *entry = entry_of(p);
    if (!entry || !fh_load(entry)) return 0;
    size_t size = (size_t)fh_swap_acq_rel(entry, 0);
    if (size) {
        fh_sub_relaxed(&live_bytes, size);
        fh_sub_relaxed(&live_count, 1);
    }
    return size;
}

size_t fh_huge_size(const void *p) {
    fh_word *entry = entry_of(p);
    return entry ? (size_t)fh_load(entry) : 0;
}

void *fh_huge_around(const void *p) {
    uintptr_t address = (uintptr_t)p & ~(UNIT - 1);
    /* A block is at most as long as all of them together. */
    size_t units = (size_t)fh_load(&live_bytes) / UNIT + 1;
    for (; units > 0 && address >= UNIT; units--, address -= UNIT) {
        size_t size = fh_huge_size((void *)address);
        if (size) return (uintptr_t)p < address + size ? (void *)address : NULL;
    }
    return NULL;
}

/* ── Cache ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A slot holds 0 or one freed block, address and size packed in one word, exchanged by compare-and-swap. */
#define CACHE_SLOTS 16
#define CACHE_BYTES (32 * FH_MIB)
#define PAGE_SHIFT 12 /* the unit of the packed size, not the system's page */

static fh_word cache[CACHE_SLOTS];

static uint64_t pack(void *p, size_t size) {
    return (uint64_t)((uintptr_t)p >> UNIT_SHIFT) << 38 | size >> PAGE_SHIFT;
}
static void *unpack_address(uint64_t word) {
    return (void *)(uintptr_t)(word >> 38 << UNIT_SHIFT);
}
static size_t unpack_size(uint64_t word) {
    return (size_t)(word & (((uint64_t)1 << 38) - 1)) << PAGE_SHIFT;
}

/* Keeps a freed mapping if there is room in bytes and slots. */
static bool cache_put(void *p, size_t size) {
    if (size > CACHE_BYTES) return false;
    if (fh_add_relaxed(&cached_bytes, size) + size <= CACHE_BYTES) {
        for (int i = 0; i < CACHE_SLOTS; i++) {
            uint64_t seen = fh_load(&cache[i]);
            /* release: our last use of the mapping; acquire comes with the taker. */
            if (seen == 0 && fh_cas_acq_rel(&cache[i], &seen, pack(p, size))) return true;
        }
    }
    fh_sub_relaxed(&cached_bytes, size);
    return false;
}

/* A cached mapping of size … 1¼ size at that alignment, or NULL. */
static void *cache_get(size_t size, size_t align, size_t *got) {
    if (!fh_load(&cached_bytes)) return NULL;
    for (int i = 0; i < CACHE_SLOTS; i++) {
        uint64_t seen = fh_load(&cache[i]);
        size_t have = unpack_size(seen);
        if (have < size || have > size + size / 4 || (uintptr_t)unpack_address(seen) % align) continue;
        if (!fh_cas_acq_rel(&cache[i], &seen, 0)) continue;
        fh_sub_relaxed(&cached_bytes, have);
        *got = have;
        return unpack_address(seen);
    }
    return NULL;
}

size_t fh_huge_trim(size_t keep) {
    size_t given = 0;
    for (int i = 0; i < CACHE_SLOTS && fh_load(&cached_bytes) > keep; i++) {
        uint64_t seen = fh_load(&cache[i]) ? fh_swap_acq_rel(&cache[i], 0) : 0;
        if (!seen) continue;
        fh_sub_relaxed(&cached_bytes, unpack_size(seen));
        fh_system_unmap(unpack_address(seen), unpack_size(seen));
        given += unpack_size(seen);
    }
    return given;
}

/* ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

void *fh_huge_alloc(size_t size, size_t align, bool *clean) {
    if (size > (size_t)PTRDIFF_MAX - UNIT) return NULL;
    size = fh_round_up(size, fh_system_page_size());
    if (align < UNIT) align = UNIT;
    size_t got = size;
    void *p = cache_get(size, align, &got);
    *clean = p == NULL;
    if (!p) {
        p = fh_system_map(size, align);
        if (!p) {
            /* Short of address space or memory: what is cached may be what is missing. */
            if (!fh_huge_trim(0) || !(p = fh_system_map(size, align))) return NULL;
        }
        if (fh_settings.thp == FH_THP_ALWAYS) fh_system_huge_pages(p, size, true);
    }
    if (enter(p, got)) return p;
    fh_system_unmap(p, got);
    return NULL;
}

bool fh_huge_free(void *p) {
    size_t size = leave(p);
    if (!size) return false;
    if (fh_settings.purge == FH_PURGE_EAGER || !cache_put(p, size)) fh_system_unmap(p, size);
    return true;
}

/* Address space to grow into costs nothing where the system counts only what is touched. */
static size_t with_room_to_grow(size_t size) {
    if (fh_system_counts_every_page()) return size;
    return fh_round_up(size + size / 2, UNIT);
}

void *fh_huge_resize(void *p, size_t size) {
    if (size > (size_t)PTRDIFF_MAX - UNIT) return NULL;
    size_t page = fh_system_page_size(), old = fh_huge_size(p);
    size = fh_round_up(size, page);
    if (size <= old && size >= old - old / 2) return p;
    /* Out of the table while its address may become somebody else's. */
    old = leave(p);
    if (!old) return NULL;
    size_t wanted = size > old ? with_room_to_grow(size) : size;
    void *q = fh_system_resize_in_place(p, old, wanted);
    if (!q && wanted > old) q = fh_system_move(p, old, wanted, UNIT);
    if (!q && wanted > size) {
        wanted = size;
        q = fh_system_resize_in_place(p, old, wanted);
        if (!q) q = fh_system_move(p, old, wanted, UNIT);
    }
    if (!q) {
        enter(p, old); /* its leaf is there: cannot fail */
        return NULL;
    }
    if (enter(q, wanted)) return q;
    /* The new place needs a leaf and there is no memory for one: the bytes are safe where they are, so keep them. */
    void *back = fh_system_move(q, wanted, old, UNIT);
    if (back && enter(back, old)) return back;
    return NULL;
}

size_t fh_huge_bytes(void) {
    return (size_t)fh_load(&live_bytes);
}
size_t fh_huge_cached_bytes(void) {
    return (size_t)fh_load(&cached_bytes);
}
size_t fh_huge_count(void) {
    return (size_t)fh_load(&live_count);
}
