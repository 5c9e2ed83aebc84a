#include "store/huge.h"

#include "base/assert.h"
#include "base/tuning.h"
#include "base/settings.h"
#include "store/limit.h"
#include "system/system.h"

#include <string.h>

#define UNIT_SHIFT 21 /* huge blocks begin at multiples of 2 MiB: the size of a huge page */
#define UNIT ((size_t)1 << UNIT_SHIFT)
#define ADDRESS_BITS 47
#define LEAF_BITS 13
#define LEAF_SIZE ((size_t)1 << LEAF_BITS)
#define ROOT_SIZE ((size_t)1 << (ADDRESS_BITS - UNIT_SHIFT - LEAF_BITS))

/* root[address >> 34] → leaf (0 until needed, then for ever); leaf[address >> 21] → bytes of the block, 0 = none.
 * An entry changes 0 → bytes when the block is allocated, bytes → 0 by exchange when it is freed: of two frees one gets it.
 *
 * Bytes are whole pages, so the lowest twelve bits are free. They say how much of a block that has grown into a much larger
 * mapping was asked for, in 4,096ths of it; 0: all of it. Only realloc, whose caller owns the block, changes them. */
static fh_word root[ROOT_SIZE];
#define SHARE_MASK UINT64_C(4095)

static size_t size_of(uint64_t entry) {
    return (size_t)(entry & ~SHARE_MASK);
}

static uint64_t with_share(size_t size, size_t asked) {
    FH_ASSERT(asked <= size && (size & SHARE_MASK) == 0);
    size_t unit = size / (SHARE_MASK + 1), share = (asked + unit - 1) / unit;
    return share > SHARE_MASK ? size : size | share;
}

static size_t asked_of(uint64_t entry) {
    uint64_t share = entry & SHARE_MASK;
    return share ? size_of(entry) / (SHARE_MASK + 1) * share : size_of(entry);
}

/* Blocks in the table, and the most recent one (below); their bytes are fh_counts.huge_live. */
static fh_word live_count;

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

/* Makes sure that a block at p can be entered. */
static bool prepare(const void *p) {
    uintptr_t address = (uintptr_t)p;
    if (address >> ADDRESS_BITS) return false;
    if (leaf_of(address)) return true;
    size_t bytes = LEAF_SIZE * sizeof(fh_word);
    void *mine = fh_system_map(bytes, fh_system_page_size());
    if (!mine) return false;
    uint64_t seen = 0;
    /* release: the leaf is zero before it is found. */
    if (!fh_cas_acq_rel(&root[address >> (UNIT_SHIFT + LEAF_BITS)], &seen, (uintptr_t)mine))
        fh_system_unmap(mine, bytes);
    return true;
}

/* The block at p, prepared, is the caller's from now on. */
static void *enter(void *p, size_t size) {
    FH_ASSERT(size != 0 && (size & SHARE_MASK) == 0);
    FH_ASSERT(entry_of(p) != NULL);
    FH_ASSERT_COSTLY(fh_load(entry_of(p)) == 0);
    fh_store_release(entry_of(p), size);
    fh_add_relaxed(&fh_counts.huge_live, size);
    fh_add_relaxed(&live_count, 1);
    return p;
}

static void uncount(size_t size) {
    uint64_t bytes = fh_sub_relaxed(&fh_counts.huge_live, size), blocks = fh_sub_relaxed(&live_count, 1);
    FH_ASSERT(bytes >= size && blocks >= 1);
}

/* Takes the entry out: its size, or 0 if no block begins there (any more). The block still counts as one. */
static size_t take_out(void *p) {
    fh_word *entry = entry_of(p);
    if (!entry || !fh_load(entry)) return 0;
    return size_of(fh_swap_acq_rel(entry, 0));
}

static size_t leave(void *p) {
    size_t size = take_out(p);
    if (size) uncount(size);
    return size;
}

size_t fh_huge_size(const void *p) {
    fh_word *entry = entry_of(p);
    return entry ? size_of(fh_load(entry)) : 0;
}

size_t fh_huge_asked(const void *p) {
    fh_word *entry = entry_of(p);
    return entry ? asked_of(fh_load(entry)) : 0;
}

void *fh_huge_around(const void *p) {
    uintptr_t address = (uintptr_t)p & ~(UNIT - 1);
    /* A block is at most as long as all of them together. */
    size_t units = (size_t)fh_load(&fh_counts.huge_live) / UNIT + 1;
    for (; units > 0 && address >= UNIT; units--, address -= UNIT) {
        size_t size = fh_huge_size((void *)address);
        if (size) return (uintptr_t)p < address + size ? (void *)address : NULL;
    }
    return NULL;
}

/* ── Cache ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A slot holds 0 or one freed block, address and size packed in one word, exchanged by compare-and-swap. */
#define PAGE_SHIFT 12 /* the packed size is in multiples of this, not of the OS's page */

static fh_word cache[FH_HUGE_CACHE_SLOTS];

/* The most recent block: the one that was freed last, for a program that frees and allocates blocks of one size in turn. It
 * counts as live all the time. So a pair of malloc and free moves it with three locked instructions, one of them that of the
 * table, where the cache takes nine. Packed like a slot of the cache.
 *
 *     any → block   by exchange, by a free that has taken the block out of the table. It then caches what was there
 *     block → 0     by compare-and-swap, by a malloc that hands it out again. Or by exchange, by a thread that caches or
 *                   unmaps it, and then no longer counts it as live
 *
 * A word that was changed and changed back is the same block again, kept as before. */
static fh_word most_recent;

static uint64_t pack(void *p, size_t size) {
    FH_ASSERT((uintptr_t)p % UNIT == 0 && size != 0);
    FH_ASSERT(size % ((size_t)1 << PAGE_SHIFT) == 0 && size >> PAGE_SHIFT < (UINT64_C(1) << 38));
    return (uint64_t)((uintptr_t)p >> UNIT_SHIFT) << 38 | size >> PAGE_SHIFT;
}
static void *unpack_address(uint64_t word) {
    return (void *)(uintptr_t)(word >> 38 << UNIT_SHIFT);
}
static size_t unpack_size(uint64_t word) {
    return (size_t)(word & (((uint64_t)1 << 38) - 1)) << PAGE_SHIFT;
}

/* True if so many bytes may be kept: how many is an order. */
static bool may_keep(size_t bytes) {
    fh_event_kept(bytes);
    return bytes <= fh_load(&fh_order.huge_cache_bytes);
}

/* So many bytes of the cache are the caller's. They were counted before they were in it. */
static void uncache(size_t size) {
    uint64_t before = fh_sub_relaxed(&fh_counts.huge_cached, size);
    FH_ASSERT(before >= size);
}

/* Keeps a freed mapping if there is room in bytes and slots. */
static bool cache_put(void *p, size_t size) {
    if (may_keep((size_t)fh_add_relaxed(&fh_counts.huge_cached, size) + size + unpack_size(fh_load(&most_recent)))) {
        for (unsigned i = 0; i < FH_HUGE_CACHE_SLOTS; i++) {
            uint64_t seen = fh_load(&cache[i]);
            /* release: our last use of the mapping; acquire comes with the taker. */
            if (seen == 0 && fh_cas_acq_rel(&cache[i], &seen, pack(p, size))) return true;
        }
    }
    uncache(size);
    fh_event_unmapped(size);
    return false;
}

/* A cached mapping of size … most bytes at that alignment, or NULL. */
static void *cache_get(size_t size, size_t most, size_t align, size_t *got) {
    if (!fh_load(&fh_counts.huge_cached)) return NULL;
    for (unsigned i = 0; i < FH_HUGE_CACHE_SLOTS; i++) {
        uint64_t seen = fh_load(&cache[i]);
        size_t have = unpack_size(seen);
        if (have < size || have > most || (uintptr_t)unpack_address(seen) % align) continue;
        if (!fh_cas_acq_rel(&cache[i], &seen, 0)) continue;
        FH_ASSERT(seen != 0 && have >= size && have <= most);
        uncache(have);
        fh_event_reused(have);
        *got = have;
        return unpack_address(seen);
    }
    return NULL;
}

/* Unmaps the block of that word, which the caller has taken out of where it was kept. */
static size_t unmap(uint64_t word) {
    if (word) fh_system_unmap(unpack_address(word), unpack_size(word));
    return unpack_size(word);
}

/* The most recent block is the caller's from now on, and no longer counted. 0: there is none. */
static uint64_t take_most_recent(void) {
    uint64_t word = fh_load(&most_recent) ? fh_swap_acq_rel(&most_recent, 0) : 0;
    if (word) uncount(unpack_size(word));
    return word;
}

size_t fh_huge_trim(size_t keep) {
    size_t unmapped = 0;
    for (unsigned i = 0; i < FH_HUGE_CACHE_SLOTS && fh_huge_cached_bytes() > keep; i++) {
        uint64_t seen = fh_load(&cache[i]) ? fh_swap_acq_rel(&cache[i], 0) : 0;
        if (!seen) continue;
        fh_sub_relaxed(&fh_counts.huge_cached, unpack_size(seen));
        unmapped += unmap(seen);
    }
    if (fh_huge_cached_bytes() > keep) unmapped += unmap(take_most_recent());
    return unmapped;
}

/* ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void *alloc(size_t size, size_t align, bool *clean) {
    FH_ASSERT(fh_is_power_of_two(align));
    if (align < UNIT) align = UNIT;
    size_t got = size;
    *clean = false;
    void *p = align == UNIT ? fh_huge_again(size) : NULL;
    if (p) return p;
    p = cache_get(size, size + size / 4, align, &got);
    *clean = p == NULL;
    if (p) return enter(p, got); /* it was entered before, so it is prepared */
    fh_event_missed(size);
    p = fh_system_map(size, align);
    /* Short of address space or memory: what is cached may be what is missing. */
    if (!p && fh_huge_trim(0)) p = fh_system_map(size, align);
    if (!p) return NULL;
    if (!prepare(p)) {
        fh_system_unmap(p, size);
        return NULL;
    }
    if (fh_settings.thp == FH_THP_ALWAYS) fh_system_huge_pages(p, size, true);
    if (fh_settings.thp == FH_THP_NEVER && fh_system_huge_pages_always()) fh_system_huge_pages(p, size, false);
    fh_event_mapped(size);
    return enter(p, size);
}

void *fh_huge_alloc(size_t size, size_t align, bool *clean) {
    if (size > (size_t)PTRDIFF_MAX - UNIT) return NULL;
    size = fh_round_up(size, fh_system_page_size());
    bool limited = fh_limit_is_set();
    if (limited && !fh_limit_admit(size, false)) return NULL;
    void *p = alloc(size, align, clean);
    FH_ASSERT((uintptr_t)p % align == 0);
    if (limited) fh_limit_done(size);
    return p;
}

/* The mapping at p belongs to no block any more. */
static void retire(void *p, size_t size) {
    if (!cache_put(p, size)) fh_system_unmap(p, size);
}

void *fh_huge_again(size_t size) {
    uint64_t seen = fh_load(&most_recent);
    size_t have = unpack_size(seen);
    if (have < size || have - size > size / 4) return NULL;
    /* acquire: the thread that freed the block has done with it. */
    if (!fh_cas_acquire(&most_recent, &seen, 0)) return NULL;
    void *p = unpack_address(seen);
    FH_ASSERT(entry_of(p) != NULL);
    FH_ASSERT_COSTLY(fh_load(entry_of(p)) == 0);
    fh_store_release(entry_of(p), have);
    return p;
}

/* Keeps the block as the most recent one, if there is room in bytes. The one before goes into the cache: it was not in demand
 * in the meantime. */
static bool keep_most_recent(void *p, size_t size) {
    if (!may_keep((size_t)fh_load(&fh_counts.huge_cached) + size)) return false;
    /* acq_rel: our last use of this block, and another thread's of the one before. */
    uint64_t before = fh_swap_acq_rel(&most_recent, pack(p, size));
    if (FH_UNLIKELY(before != 0)) {
        uncount(unpack_size(before));
        retire(unpack_address(before), unpack_size(before));
    }
    return true;
}

bool fh_huge_free(void *p) {
    size_t size = take_out(p);
    if (size == 0) return false;
    if (FH_LIKELY(keep_most_recent(p, size))) return true;
    uncount(size);
    retire(p, size);
    return true;
}

/* Address space to grow into costs nothing where only what is touched is counted; a limit counts what may be touched. */
static size_t with_room_to_grow(size_t size) {
    if (fh_system_counts_every_page() || fh_limit_is_set()) return size;
    return fh_round_up(size + size / 2, UNIT);
}

/* The pages of the mapping at p, `old` bytes, at a place where `size` bytes fit. NULL: nothing changed. */
static void *move(void *p, size_t old, size_t size) {
    void *place = fh_system_reserve_aligned(size, UNIT);
    if (!place) return NULL;
    if (!prepare(place)) {
        fh_system_unmap(place, size);
        return NULL;
    }
    return fh_system_move(p, old, size, place) ? place : NULL;
}

static void *resize_mapping(void *p, size_t old, size_t size) {
    FH_ASSERT(old != 0 && size > FH_RUN_MAX);
    void *q = fh_system_resize_in_place(p, old, size);
    return q || size < old ? q : move(p, old, size);
}

/* The caller's block p has that size, and this much of it was asked for now. */
static void ask(void *p, size_t size, size_t asked) {
    fh_store(entry_of(p), with_share(size, asked)); /* relaxed: no other thread may ask for this block */
}

/* A block that is to grow may find a cached mapping at least twice as long: its memory is there already, so copying what
 * there is costs less than touching as much again. Without it the mapping would stay unused beside the new one. */
static void *grow_into_cached(void *p, size_t old, size_t size) {
    size_t got;
    if (size <= old || fh_limit_is_set()) return NULL;
    uint64_t held = take_most_recent();
    if (held) retire(unpack_address(held), unpack_size(held));
    void *q = cache_get(size > 2 * old ? size : 2 * old, SIZE_MAX, UNIT, &got);
    if (!q) {
        fh_event_missed(size);
        return NULL;
    }
    FH_ASSERT(q != p && got >= size && got >= old);
    memcpy(q, p, old);
    retire(p, old);
    enter(q, got);
    ask(q, got, size);
    return q;
}

/* As fh_huge_resize; size is whole pages. */
static void *resize(void *p, size_t size) {
    /* Out of the table while its address may become another block's. */
    size_t old = leave(p);
    if (!old) return NULL;
    void *cached = grow_into_cached(p, old, size);
    if (cached) return cached;
    size_t ahead = size > old ? with_room_to_grow(size) : size;
    void *q = resize_mapping(p, old, ahead);
    if (!q && ahead > size) {
        ahead = size;
        q = resize_mapping(p, old, ahead);
    }
    if (!q) {
        enter(p, old);
        return NULL;
    }
    /* What grows is being filled: the one case in which huge pages are sure to pay. */
    if (size > old && fh_settings.thp != FH_THP_NEVER) fh_system_huge_pages(q, ahead, true);
    return enter(q, ahead);
}

void *fh_huge_resize(void *p, size_t size) {
    if (size > (size_t)PTRDIFF_MAX - UNIT) return NULL;
    const fh_word *entry = entry_of(p);
    uint64_t was = entry ? fh_load(entry) : 0;
    size_t old = size_of(was), asked = asked_of(was);
    size = fh_round_up(size, fh_system_page_size());
    if (size <= old && size >= asked - asked / 2) {
        if (was & SHARE_MASK) ask(p, old, size > asked ? size : asked);
        return p;
    }
    bool limited = size > old && fh_limit_is_set();
    if (limited && !fh_limit_admit(size - old, false)) return NULL;
    void *q = resize(p, size);
    if (limited) fh_limit_done(size - old);
    return q;
}

void fh_huge_each(void (*visit)(void *context, uintptr_t begin, size_t size), void *context) {
    for (uintptr_t i = 0; i < ROOT_SIZE; i++) {
        const fh_word *leaf = leaf_of(i << (UNIT_SHIFT + LEAF_BITS));
        for (uintptr_t k = 0; leaf && k < LEAF_SIZE; k++) {
            size_t size = size_of(fh_load(&leaf[k]));
            if (size) visit(context, (i << LEAF_BITS | k) << UNIT_SHIFT, size);
        }
    }
}

/* The most recent block may be gone by now, and the sum without it. */
static size_t without(uint64_t sum, uint64_t part) {
    return (size_t)(sum > part ? sum - part : 0);
}
size_t fh_huge_bytes(void) {
    return without(fh_load(&fh_counts.huge_live), unpack_size(fh_load(&most_recent)));
}
size_t fh_huge_cached_bytes(void) {
    return (size_t)fh_load(&fh_counts.huge_cached) + unpack_size(fh_load(&most_recent));
}
size_t fh_huge_count(void) {
    return without(fh_load(&live_count), fh_load(&most_recent) != 0);
}

void *fh_huge_kept(unsigned i, size_t *bytes) {
    uint64_t word = fh_load(i < FH_HUGE_CACHE_SLOTS ? &cache[i] : &most_recent);
    *bytes = unpack_size(word);
    return unpack_address(word);
}
