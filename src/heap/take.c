#include "heap/take.h"

#include "base/assert.h"
#include "base/classes.h"
#include "cache/alloc.h"
#include "heap/bounded.h"
#include "heap/claim.h"
#include "heap/free.h"
#include "heap/given.h"
#include "heap/quota.h"
#include "heap/regions.h"
#include "heap/span.h"
#include "heap/stacks.h"
#include "heap/stripes.h"
#include "heap/told.h"
#include "heap/words.h"
#include "store/large.h"
#include "store/thp.h"
#include "store/window.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

/* The class of the extents that hold nodes. */
#define NODE_CLASS ((sizeof(fh_node) + 15) / 16)
/* A callback is asked so often for one call. */
#define ASKED_MOST 16u

/* ── Units ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Bits at which a block of that alignment, in units, may begin. */
static uint64_t aligned_units(size_t units) {
    if (FH_LIKELY(units == 1)) return ~UINT64_C(0);
    return units >= 64 ? 1 : ~UINT64_C(0) / ((UINT64_C(1) << units) - 1);
}

/* The units are the caller's. Where the last block ended that was there, this one usually ends too. */
static inline void show_units(fh_heap *h, unsigned w, unsigned at, unsigned units) {
    uint64_t own = fh_run_mask(at, units), end = UINT64_C(1) << (at + units - 1), there = fh_load(&h->last[w]) & own;
    if (there & ~end) fh_bits_clear(h, &h->last[w], there & ~end);
    if (!(there & end)) fh_bits_set(h, &h->last[w], end);
    fh_bits_set(h, &h->first[w], UINT64_C(1) << at); /* release: its end, before it is found */
}

/* In one word. `allowed`: the bits at which the block may begin. */
static inline void *take_units_in(fh_heap *h, unsigned w, unsigned units, uint64_t allowed) {
    uint64_t seen = fh_load(&h->free[w]), starts;
    while ((starts = fh_run_starts(seen, units) & allowed) != 0) {
        unsigned at = fh_lowest_bit(starts);
        if (!fh_bits_claim(h, &h->free[w], &seen, fh_run_mask(at, units))) continue;
        show_units(h, w, at, units);
        return (char *)h + (w * 64 + at) * FH_MIN_ALIGN;
    }
    return NULL;
}

static inline unsigned units_for(size_t n) {
    return (unsigned)((n + FH_MIN_ALIGN - 1) / FH_MIN_ALIGN);
}

static void *take_units(fh_heap *h, size_t align, size_t n) {
    unsigned units = units_for(n), from = (unsigned)fh_load(&h->from);
    uint64_t allowed = aligned_units(align / FH_MIN_ALIGN);
    for (unsigned i = 0; i < FH_UNIT_WORDS; i++) {
        unsigned w = (from + i) % FH_UNIT_WORDS;
        void *p = take_units_in(h, w, units, allowed);
        if (!p) continue;
        if (i) fh_store(&h->from, w);
        return p;
    }
    return NULL;
}

/* ── Extents ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t extent_bytes(const fh_extent *e) {
    return fh_class_table[e->c].slots * FH_SLOT_SIZE;
}

/* All blocks of an extent, of which none can be found, are free but the first one, which is the caller's. */
static void *begin_with(fh_extent *e) {
    unsigned first = (unsigned)e->begin;
    for (unsigned w = 0; w < e->words; w++) {
        uint64_t mine = first / 64 == w ? UINT64_C(1) << first % 64 : 0;
        fh_store_release(&e->free[w], fh_extent_all(e, w) & ~mine); /* the header, before a block is found */
    }
    fh_extent_hand_out(e, first);
    return (char *)e + first * (size_t)fh_class_size(e->c);
}

/* Charges a retired extent that the caller has popped. False: the limit is in the way, or there is no memory. */
static bool charge_again(fh_extent *e, fh_heap **full) {
    fh_heap *h = e->owned.heap;
    if (!fh_heap_charge(h, extent_bytes(e), full)) return false;
    if (!(h->flags & FH_HEAP_IS_POPULATED) || fh_system_populate(e, extent_bytes(e))) return true;
    fh_quota_return(h, extent_bytes(e));
    return false;
}

/* A block of a retired extent, which is in use again. NULL: none is retired, or *full. */
static void *bring_back(fh_heap *h, unsigned list, fh_heap **full) {
    uint64_t top = fh_load_acquire(&h->stack[FH_STACK_IDLE][list]); /* its header */
    fh_extent *e;
    while ((e = fh_stack_top(top)) != NULL && !fh_stack_pop(FH_STACK_IDLE, e, &top)) {
    }
    if (!e) return NULL;
    fh_store(&e->retired, 2);
    if (!charge_again(e, full)) {
        fh_store_release(&e->retired, 1);
        fh_stack_push(FH_STACK_IDLE, e);
        return NULL;
    }
    fh_store_release(&e->retired, 0); /* before its bits: who has a block of it finds it in use */
    void *p = begin_with(e);
    fh_extent_open(e);
    return p;
}

/* All blocks of an extent are free: they are claimed, its pages purged and its charge returned. */
static bool retire(fh_extent *e) {
    fh_heap *h = e->owned.heap;
    size_t page = fh_system_page_size(), slots = fh_class_table[e->c].slots;
    unsigned w = 0;
    while (w < e->words && fh_load(&e->free[w]) == fh_extent_all(e, w)) w++;
    if (w < e->words || fh_load(&e->retired)) return false;
    for (w = 0; w < e->words; w++) {
        uint64_t all = fh_extent_all(e, w), seen = all;
        if (!all || fh_bits_claim(h, &e->free[w], &seen, all)) continue;
        while (w-- > 0) fh_bits_set(h, &e->free[w], fh_extent_all(e, w));
        fh_extent_open(e); /* one who found it without a free block may have closed it */
        return false;
    }
    if (!(h->flags & FH_HEAP_IS_HUGE)) fh_thp_keep_slots_split(fh_slot_of(e), fh_slot_of(e) + slots - 1);
    fh_system_purge((char *)e + page, extent_bytes(e) - page);
    /* No longer charged before the account says so: a fork between the two leaves too much in the child's account. */
    fh_store(&e->retired, 2);
    fh_quota_return(h, extent_bytes(e));
    /* release: the purge and the account, before another thread brings it back. */
    fh_store_release(&e->retired, 1);
    fh_stack_push(FH_STACK_IDLE, e);
    return true;
}

/* True if an extent of the heap could be retired. Cost: a walk over its extents. */
static bool retire_empty(fh_heap *h) {
    bool retired = false;
    if (fh_heap_is_stable(h)) return false;
    for (unsigned list = 1; list < FH_HEAP_LISTS; list++) {
        fh_extent *e = (fh_extent *)(uintptr_t)fh_load_acquire(&h->list[list]);
        for (; e; e = e->next) retired |= retire(e);
    }
    return retired;
}

/* Memory was refused. True: there may be some now. */
static bool find_more(fh_heap *h) {
    bool emptied = fh_stripes_empty(h);
    return retire_empty(h) || emptied;
}

static inline void *take_in(fh_extent *e, unsigned w) {
    uint64_t seen = fh_load(&e->free[w]);
    while (seen) {
        unsigned at = fh_lowest_bit(seen);
        if (!fh_bits_claim(e->owned.heap, &e->free[w], &seen, UINT64_C(1) << at)) continue;
        fh_extent_hand_out(e, w * 64 + at);
        return (char *)e + (size_t)(w * 64 + at) * fh_class_size(e->c);
    }
    return NULL;
}

static void *take_from(fh_extent *e) {
    unsigned from = (unsigned)fh_load(&e->from);
    for (unsigned i = 0; i < e->words; i++) {
        unsigned w = from + i < e->words ? from + i : from + i - e->words;
        void *p = take_in(e, w);
        if (!p) continue;
        if (i) fh_store(&e->from, w);
        return p;
    }
    return NULL;
}

static void *take_open(fh_heap *h, unsigned list) {
    uint64_t top = fh_load_acquire(&h->stack[FH_STACK_OPEN][list]); /* its header */
    fh_extent *e;
    while ((e = fh_stack_top(top)) != NULL) {
        void *p = take_from(e);
        if (FH_LIKELY(p != NULL)) return p;
        fh_extent_close(e, &top);
    }
    return NULL;
}

/* Of all that are in use: also those that another thread has just taken off a stack. */
static void *take_anywhere(fh_heap *h, unsigned list) {
    fh_extent *e = (fh_extent *)(uintptr_t)fh_load_acquire(&h->list[list]);
    void *p = NULL;
    for (; e && !p; e = e->next) p = take_from(e);
    return p;
}

/* Blocks of an extent that its header has. */
static size_t header_blocks(unsigned c, unsigned lines) {
    size_t size = fh_class_size(c);
    return (fh_extent_out_at(c) + lines * FH_CACHE_LINE + fh_extent_bytes_out(c) + size - 1) / size;
}

/* How many cache lines further on its bytes are: up to fifteen where it costs no block more than seven do. */
static unsigned lines_before(const fh_extent *e) {
    unsigned lines = fh_slot_of(e) % FH_EXTENT_LINES;
    return header_blocks(e->c, lines) > header_blocks(e->c, 0) ? lines % (FH_EXTENT_LINES / 2) : lines;
}

/* An extent and its first block. The others are free, and it is not found yet. */
static fh_extent *new_extent(fh_heap *h, unsigned list, unsigned c, fh_heap **full) {
    const fh_class_info *info = &fh_class_table[c];
    bool clean;
    size_t bytes = info->slots * FH_SLOT_SIZE;
    fh_extent *e = fh_heap_claim(h, FH_SLOT_SIZE, bytes, bytes, &clean, full);
    if (!e) return NULL;
    /* A walk meets a node that is claimed and not written yet: its block is 0. */
    if (list == 0 && !clean) memset(e, 0, bytes);
    *e = (fh_extent){.owned = {h, FH_OWNED_EXTENT}, .c = c, .list = list, .blocks = info->blocks};
    e->words = (info->blocks + 63) / 64;
    unsigned lines = lines_before(e);
    e->out = fh_extent_out_at(c) + (size_t)lines * FH_CACHE_LINE;
    e->begin = header_blocks(c, lines);
    memset(fh_extent_out(e, 0), 0, fh_extent_bytes_out(c));
    FH_ASSERT(e->begin + 1 < info->blocks);
    for (unsigned w = 0; w < e->words; w++) fh_store(&e->free[w], 0);
    for (size_t i = 0; i < info->slots; i++) fh_store_release(&fh_slab_at(fh_slot_of(e) + i)->heap, (uintptr_t)e);
    if (fh_stripes_may(h) && list != 0 && c <= FH_STRIPE_LAST)
        fh_store_release(&fh_slab_at(fh_slot_of(e))->quick, fh_quick_word(h, c, lines)); /* as above */
    return e;
}

/* Release: what is in its header, before it is found. */
static void show(fh_heap *h, fh_extent *e) {
    uint64_t head = fh_load(&h->list[e->list]);
    do {
        e->next = (fh_extent *)(uintptr_t)head;
    } while (!fh_cas_acq_rel(&h->list[e->list], &head, (uintptr_t)e));
    fh_extent_open(e);
}

__attribute__((noinline)) static void *take_more(fh_heap *h, unsigned list, unsigned c, fh_heap **full) {
    if (FH_UNLIKELY(h->owned.heap != h)) return NULL; /* it was destroyed, and its memory purged */
    void *p = bring_back(h, list, full);
    if (p) return p;
    fh_extent *e = *full ? NULL : new_extent(h, list, c, full);
    if (!e) return *full ? take_anywhere(h, list) : NULL;
    p = begin_with(e);
    show(h, e);
    fh_stripes_begin(h);
    return p;
}

static void *take_of_class(fh_heap *h, unsigned list, unsigned c, fh_heap **full) {
    void *p = take_open(h, list);
    return FH_LIKELY(p != NULL) ? p : take_more(h, list, c, full);
}

/* ── Large blocks ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Type-stable: a free block of `bytes`, whose node has it again. NULL: there is none. Cost: a walk over all nodes. */
static void *take_idle(fh_heap *h, size_t align, size_t bytes) {
    fh_extent *e = (fh_extent *)(uintptr_t)fh_load_acquire(&h->list[0]);
    for (; e; e = e->next) {
        for (unsigned i = (unsigned)e->begin; i < e->blocks; i++) {
            fh_node *node = (fh_node *)(void *)((char *)e + i * (size_t)fh_class_size(e->c));
            uint64_t idle = fh_load_acquire(&node->idle); /* its size */
            if (!idle || idle % align || fh_load(&node->size) != bytes) continue;
            if (!fh_cas_acquire(&node->idle, &idle, 0)) continue;
            fh_store_release(&node->block, idle);
            return (void *)(uintptr_t)idle;
        }
    }
    return NULL;
}

static void *take_large(fh_heap *h, size_t align, size_t n, bool *clean, fh_heap **full) {
    if (n > FH_WINDOW_SIZE || align > FH_WINDOW_SIZE) return NULL;
    if (n <= FH_SMALL_MAX) n = FH_SMALL_MAX;
    size_t charged = fh_round_up(n, FH_SLOT_SIZE);
    if (fh_heap_has_spans(h)) charged = fh_spans_round(h, charged);
    void *kept = fh_heap_is_stable(h) ? take_idle(h, align, charged) : NULL;
    if (kept) return kept; /* not clean */
    fh_node *node = take_of_class(h, 0, NODE_CLASS, full);
    if (!node) return NULL;
    fh_store(&node->block, 0);
    fh_store(&node->idle, 0);
    node->owned = (fh_owned){h, FH_OWNED_LARGE};
    void *p = fh_heap_claim(h, align, charged, charged, clean, full);
    if (!p) {
        fh_heap_give(NULL, &((fh_extent *)(uintptr_t)fh_heap_word(node))->owned, node);
        return NULL;
    }
    fh_store_release(&node->size, charged); /* after the 0 above: a walk compares the two */
    fh_store_release(&node->block, (uintptr_t)p);
    fh_store_release(&fh_slab_at(fh_slot_of(p))->heap, (uintptr_t)node);
    return p;
}

/* ── All sizes ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void *take_given(fh_heap *h, size_t align, size_t n, fh_heap **full) {
    void *p = h->given ? fh_given_take(h->given, align, n) : fh_regions_take(h, align, n, full);
    if (p || !h->given) return p;
    fh_add_relaxed(&h->refusals, 1);
    *full = h;
    return NULL;
}

__attribute__((always_inline)) static inline void *take_own(fh_heap *h, size_t align, size_t n, bool *clean,
                                                            fh_heap **full) {
    if (n <= FH_UNITS_MOST && align <= FH_UNITS_MOST) {
        void *p = fh_load(&h->grown) ? NULL : take_units(h, align, n);
        if (p) return p;
        fh_store(&h->grown, 1);
    }
    size_t least = n < align ? align : n;
    unsigned c = least <= FH_SMALL_MAX ? fh_class_of(least) : FH_CLASS_SPECIAL;
    while (c != FH_CLASS_SPECIAL && c <= FH_SMALL_LAST && fh_class_size(c) % align) c++;
    if (c == FH_CLASS_SPECIAL || c > FH_SMALL_LAST) return take_large(h, align, n, clean, full);
    return take_of_class(h, c, c, full);
}

/* A tool is to see what is read before it was written, so nothing is clean. */
__attribute__((noinline)) static void *take_apart(fh_heap *h, size_t align, size_t n, bool *clean, fh_heap **full) {
    if (FH_UNLIKELY(h->flags & FH_HEAP_IS_GONE)) return NULL;
    size_t size, all = fh_heap_keeps_sizes(h) && n <= FH_WINDOW_SIZE ? n + FH_TOLD_ROOM : n;
    void *p = h->given || fh_heap_is_paged(h) ? take_given(h, align, all, full) : take_own(h, align, all, clean, full);
    if (p && fh_heap_keeps_sizes(h) && fh_heap_block(p, &size) == p) {
        fh_told_taken(h, p, size, n);
        if (fh_heap_is_told(h)) *clean = false;
    }
    return p;
}

static void *take(fh_heap *h, size_t align, size_t n, bool *clean, fh_heap **full) {
    *full = NULL;
    *clean = false;
    if (FH_UNLIKELY(h->flags & FH_HEAP_IS_APART)) return take_apart(h, align, n, clean, full);
    return take_own(h, align, n, clean, full);
}

bool fh_heap_find_room(fh_heap *h, fh_heap *full, size_t n, unsigned asked) {
    return (asked == 0 && find_more(h)) || (asked < ASKED_MOST && fh_quota_ask(full, n, true));
}

__attribute__((noinline)) static void *take_slowly(fh_heap *h, size_t align, size_t n, bool *clean) {
    fh_heap *full;
    if (n == 0) n = 1;
    for (unsigned asked = 0;; asked++) {
        void *p = take(h, align, n, clean, &full);
        if (FH_LIKELY(p != NULL)) return p;
        if (full && fh_heap_find_room(h, full, n, asked)) continue;
        errno = ENOMEM;
        return NULL;
    }
}

/* A bounded heap does not try again, and nobody is asked. */
__attribute__((noinline)) static void *take_of_apart(fh_heap *h, size_t align, size_t n, bool *clean) {
    if (!fh_heap_is_bounded(h)) return take_slowly(h, align, n, clean);
    void *p = fh_bounded_take(h->bounded, align, n);
    if (FH_LIKELY(p != NULL)) return p;
    fh_add_relaxed(&h->refusals, 1);
    errno = ENOMEM;
    return NULL;
}

/* Where the last search found a block, this one usually finds one too. NULL: not there. */
static inline void *take_near(fh_heap *h, size_t n) {
    if (n <= FH_UNITS_MOST && !fh_load(&h->grown))
        return take_units_in(h, (unsigned)fh_load(&h->from), units_for(n), ~UINT64_C(0));
    unsigned c = fh_class_of(n);
    if (c > FH_SMALL_LAST) return NULL;
    fh_extent *e = fh_stack_top(fh_load_acquire(&h->stack[FH_STACK_OPEN][c])); /* its header */
    return e ? take_in(e, (unsigned)fh_load(&e->from)) : NULL;
}

void *fh_heap_take(fh_heap *h, size_t align, size_t n, bool *clean) {
    *clean = false;
    if (FH_UNLIKELY(h->flags & FH_HEAP_IS_APART)) return take_of_apart(h, align, n, clean);
    bool plain = align == FH_MIN_ALIGN && n - 1 < FH_SMALL_MAX;
    void *p = plain && FH_UNLIKELY(fh_load(&h->stripes)) ? fh_stripes_take(h, fh_class_of(n)) : NULL;
    if (!p && plain) p = take_near(h, n);
    return FH_LIKELY(p != NULL) ? p : take_slowly(h, align, n, clean);
}
