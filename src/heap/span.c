#include "heap/span.h"

#include "base/assert.h"
#include "cache/alloc.h"
#include "heap/quota.h"
#include "heap/words.h"
#include "store/events.h"
#include "store/large.h"
#include "store/thp.h"
#include "store/window.h"
#include "system/system.h"

#include <errno.h>

#define SLOTS_FIRST (FH_HUGE_PAGE / FH_SLOT_SIZE)
#define SLOTS_MOST ((size_t)FH_SPAN_WORDS * 64)
/* A block of more slots is a piece of its own. A run is within one word. */
#define RUN_MOST 16u

_Static_assert(SLOTS_FIRST == 32 && SLOTS_MOST * FH_SLOT_SIZE == 64 << 20, "what the head of span.h says");

/* ── Pieces ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static fh_word pieces;

static unsigned traits_of(uint64_t flags) {
    return (flags & FH_HEAP_IS_NO_DUMP ? FH_TRAIT_NO_DUMP : 0) | (flags & FH_HEAP_IS_HUGE ? FH_TRAIT_HUGE : 0) |
           (flags & FH_HEAP_IS_NAMED ? FH_TRAIT_NAMED : 0);
}

static void piece_drop(void *p) {
    bool freed = fh_large_free(p);
    uint64_t before = fh_sub_relaxed(&pieces, 1);
    FH_ASSERT(freed && before >= 1);
    (void)freed;
    (void)before;
}

/* Reads as zero: small pages that are there already would stay small, and count. */
static void *piece_claim(uint64_t flags, const char *name, size_t align, size_t bytes) {
    bool clean;
    if (fh_add_relaxed(&pieces, 1) >= FH_PIECES_MOST) {
        fh_sub_relaxed(&pieces, 1);
        errno = ENOMEM;
        return NULL;
    }
    void *p = fh_alloc_special(align < FH_HUGE_PAGE ? FH_HUGE_PAGE : align, bytes, &clean);
    if (!p) {
        fh_sub_relaxed(&pieces, 1);
        return NULL;
    }
    fh_class_set(fh_slot_of(p), FH_CLASS_SPECIAL);
    /* Before it is a mapping of its own. The kernel joins it with its neighbours again only if all of them know of each other's pages
     * (one anon_vma), and without one page it would make that afresh for each part. A small page must not stay under a huge one. */
    *(volatile char *)p = 0;
    if (!clean || flags & FH_HEAP_IS_HUGE) fh_system_purge(p, bytes);
    int error = fh_system_set_traits(p, bytes, traits_of(flags), name);
    if (!error) return p;
    piece_drop(p);
    errno = error;
    return NULL;
}

/* Before the store has it: then it may be another's. */
static void piece_release(const fh_heap *h, void *p, size_t bytes) {
    fh_system_clear_traits(p, bytes, traits_of(h->flags));
    fh_thp_renewed(fh_slot_of(p), bytes / FH_SLOT_SIZE);
    piece_drop(p);
}

/* ── Slots of spans ──────────────────────────────────────────────────────────────────────────────────────────────── */

static char *base_of(const fh_heap_span *s) {
    return (char *)fh_slot_address(fh_slot_of(s));
}

static size_t words_of(const fh_heap_span *s) {
    return (s->slots + 63) / 64;
}

/* All but the first. */
static uint64_t all_of(const fh_heap_span *s, size_t w) {
    size_t below = s->slots - w * 64;
    return fh_low_mask(below < 64 ? (unsigned)below : 64) & (w ? ~UINT64_C(0) : ~UINT64_C(1));
}

static void free_all(fh_heap_span *s) {
    for (size_t w = 0; w < words_of(s); w++) fh_store(&s->free[w], all_of(s, w));
}

static void *take_from(const fh_heap *h, fh_heap_span *s, size_t step, unsigned slots) {
    uint64_t allowed = ~UINT64_C(0) / fh_low_mask((unsigned)step);
    for (size_t w = 0; w < words_of(s); w++) {
        uint64_t seen = fh_load(&s->free[w]), starts;
        while ((starts = fh_run_starts(seen, slots) & allowed) != 0) {
            unsigned at = fh_lowest_bit(starts);
            if (fh_bits_claim(h, &s->free[w], &seen, fh_run_mask(at, slots)))
                return base_of(s) + (w * 64 + at) * FH_SLOT_SIZE;
        }
    }
    return NULL;
}

static fh_heap_span *newest(const fh_heap *h) {
    return (fh_heap_span *)(uintptr_t)fh_load_acquire(&h->spans);
}

/* An eighth of what the heap has, so that many are one mapping and little address space is without use. */
static size_t slots_of_next(const fh_heap *h) {
    size_t slots = SLOTS_FIRST, wanted = (size_t)fh_load(&h->charged) / FH_SLOT_SIZE / 8;
    while (slots < wanted && slots < SLOTS_MOST) slots *= 2;
    return slots;
}

/* Release: its header, before it is found. */
static bool add_span(fh_heap *h, fh_heap **full) {
    size_t slots = slots_of_next(h);
    fh_quota_passed passed;
    if ((*full = fh_quota_charge(h, FH_SLOT_SIZE, &passed)) != NULL) return false;
    fh_heap_span *s = piece_claim(h->flags, h->name, FH_HUGE_PAGE, slots * FH_SLOT_SIZE);
    if (!s) {
        fh_quota_return(h, FH_SLOT_SIZE);
        return false;
    }
    fh_quota_tell(h, FH_SLOT_SIZE, passed);
    s->slots = slots;
    free_all(s);
    fh_store_release(&fh_slab_at(fh_slot_of(s))->heap, (uintptr_t)h); /* no block of the program begins there */
    uint64_t head = fh_load(&h->spans);
    do {
        s->next = (fh_heap_span *)(uintptr_t)head;
    } while (!fh_cas_acq_rel(&h->spans, &head, (uintptr_t)s));
    return true;
}

static bool is_run(size_t align, size_t bytes) {
    return bytes <= RUN_MOST * FH_SLOT_SIZE && align <= RUN_MOST * FH_SLOT_SIZE;
}

size_t fh_spans_round(const fh_heap *h, size_t n) {
    bool huge = h->flags & FH_HEAP_IS_HUGE && n > RUN_MOST * FH_SLOT_SIZE;
    return huge ? fh_round_up(n, FH_HUGE_PAGE) : n;
}

void *fh_spans_claim(fh_heap *h, size_t align, size_t bytes, bool *clean, fh_heap **full) {
    size_t step = align < FH_SLOT_SIZE ? 1 : align / FH_SLOT_SIZE;
    *clean = true;
    if (!is_run(align, bytes)) return piece_claim(h->flags, h->name, align, bytes);
    do {
        for (fh_heap_span *s = newest(h); s; s = s->next) {
            void *p = take_from(h, s, step, (unsigned)(bytes / FH_SLOT_SIZE));
            if (p) return p;
        }
    } while (add_span(h, full));
    return NULL;
}

bool fh_spans_have(const void *p) {
    return fh_large_size(p) == 0; /* no large block of the store begins there */
}

static fh_heap_span *span_of(const fh_heap *h, const void *p) {
    fh_heap_span *s = newest(h);
    while (s && (uintptr_t)p - (uintptr_t)base_of(s) >= s->slots * FH_SLOT_SIZE) s = s->next;
    return s;
}

void fh_spans_release(fh_heap *h, void *p, size_t bytes) {
    if (!fh_spans_have(p)) {
        piece_release(h, p, bytes);
        return;
    }
    fh_heap_span *s = span_of(h, p);
    FH_ASSERT(s != NULL);
    size_t slot = fh_slot_of(p) - fh_slot_of(s);
    /* What is free does not count, so it has no memory. */
    fh_system_purge(p, bytes);
    fh_bits_set(h, &s->free[slot / 64], fh_run_mask((unsigned)(slot % 64), (unsigned)(bytes / FH_SLOT_SIZE)));
}

/* ── Life ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

fh_heap *fh_spans_begin(uint64_t flags, const char *name) {
    return piece_claim(flags, name, FH_HUGE_PAGE, SLOTS_FIRST * FH_SLOT_SIZE);
}

void fh_spans_show(fh_heap *h) {
    h->span.next = NULL;
    h->span.slots = SLOTS_FIRST;
    free_all(&h->span);
    fh_store(&h->spans, (uintptr_t)&h->span);
}

size_t fh_spans_clear(fh_heap *h) {
    size_t bytes = 0;
    for (fh_heap_span *s = newest(h), *next; s != &h->span; s = next) {
        next = s->next;
        fh_store(&fh_slab_at(fh_slot_of(s))->heap, 0);
        piece_release(h, s, s->slots * FH_SLOT_SIZE);
        bytes += FH_SLOT_SIZE;
    }
    fh_store(&h->spans, (uintptr_t)&h->span);
    fh_system_purge((char *)h + FH_SLOT_SIZE, (SLOTS_FIRST - 1) * FH_SLOT_SIZE);
    free_all(&h->span);
    return bytes;
}

void fh_spans_end(fh_heap *h) {
    piece_release(h, h, SLOTS_FIRST * FH_SLOT_SIZE);
}

/* ── What is resident ────────────────────────────────────────────────────────────────────────────────────────────── */

size_t fh_resident_in(void *p, size_t bytes) {
    unsigned char pages[256];
    size_t page = fh_system_page_size(), most = sizeof pages * page, sum = 0;
    for (size_t at = 0; at < bytes; at += most) {
        size_t n = bytes - at < most ? bytes - at : most;
        if (!fh_system_resident((char *)p + at, n, pages)) return bytes;
        for (size_t i = 0; i < n / page; i++) sum += (pages[i] & 1) * page;
    }
    return sum;
}

size_t fh_spans_resident(const fh_heap *h) {
    size_t sum = 0;
    for (fh_heap_span *s = newest(h); s; s = s->next) sum += fh_resident_in(base_of(s), s->slots * FH_SLOT_SIZE);
    return sum;
}
