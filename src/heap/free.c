#include "heap/free.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/hooks.h"
#include "cache/observed.h"
#include "heap/bounded.h"
#include "heap/given.h"
#include "heap/quota.h"
#include "heap/span.h"
#include "heap/stacks.h"
#include "heap/stripes.h"
#include "heap/told.h"
#include "heap/use.h"
#include "heap/words.h"
#include "store/large.h"
#include "store/window.h"
#include "system/report.h"

#include <errno.h>

const fh_owned *fh_owned_at(const void *p) {
    return (const fh_owned *)fh_heap_word(p);
}

/* ── What is at p ────────────────────────────────────────────────────────────────────────────────────────────────── */

static void *unit_block(const fh_heap *h, const void *p, size_t *size) {
    size_t unit = (size_t)((const char *)p - (const char *)h) / FH_MIN_ALIGN;
    unsigned w = (unsigned)(unit / 64), at = unit % 64;
    if (w >= FH_UNIT_WORDS) return NULL;
    uint64_t first = fh_load_acquire(&h->first[w]) & fh_low_mask(at + 1);
    if (!first) return NULL;
    unsigned begin = fh_highest_bit(first);
    uint64_t last = fh_load(&h->last[w]) >> begin << begin;
    if (!last || fh_lowest_bit(last) < at) return NULL;
    *size = (fh_lowest_bit(last) - begin + 1) * FH_MIN_ALIGN;
    return (char *)h + (w * 64 + begin) * FH_MIN_ALIGN;
}

static void *extent_block(const fh_extent *e, const void *p, size_t *size) {
    size_t offset = (size_t)((const char *)p - (const char *)e);
    unsigned i = fh_block_index(e->c, offset), w = i / 64;
    *size = fh_class_size(e->c);
    if (e->list == 0 || i >= e->blocks || !(fh_extent_all(e, w) >> i % 64 & 1)) return NULL;
    if (!fh_byte_load(fh_extent_out(e, i))) return NULL;
    return (char *)(uintptr_t)e + i * *size;
}

/* The same for what has the slot, and all bytes that the block has. */
static inline void *block_of(const fh_owned *o, const void *p, size_t *size) {
    if (o->kind == FH_OWNED_UNITS) return unit_block(o->heap, p, size);
    if (o->kind == FH_OWNED_EXTENT) return extent_block((const fh_extent *)o, p, size);
    if (o->kind == FH_OWNED_GIVEN) return fh_given_block((const fh_given *)o, p, size);
    if (o->kind == FH_OWNED_BOUNDED) return fh_bounded_block((const fh_bounded *)o, p, size);
    if (FH_UNLIKELY(o->kind == FH_OWNED_STRIPES)) return NULL;
    const fh_node *node = (const fh_node *)o;
    char *begin = (char *)(uintptr_t)fh_load_acquire(&node->block);
    *size = (size_t)fh_load(&node->size);
    return begin && (uintptr_t)p - (uintptr_t)begin < *size ? begin : NULL;
}

void *fh_heap_block(const void *p, size_t *size) {
    const fh_owned *o = fh_owned_at(p);
    return o ? block_of(o, p, size) : NULL;
}

void *fh_hook_heap_block(const void *p, size_t *size) {
    const fh_owned *o = fh_owned_at(p);
    void *begin = o ? block_of(o, p, size) : NULL;
    if (begin) *size = fh_heap_asked_for(o->heap, begin, *size);
    return begin;
}

/* ── Freeing ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Frees the block of units that begins at p. False: none does. */
static inline bool free_units(fh_heap *h, void *p) {
    size_t offset = (size_t)((char *)p - (char *)h), w = offset / (64 * FH_MIN_ALIGN);
    unsigned at = (unsigned)(offset / FH_MIN_ALIGN % 64);
    uint64_t begin = UINT64_C(1) << at;
    if (offset % FH_MIN_ALIGN || w >= FH_UNIT_WORDS || !(fh_load_acquire(&h->first[w]) & begin)) return false;
    uint64_t last = fh_load(&h->last[w]) >> at; /* after the acquire above: of this block or a later one */
    if (!last || !(fh_bits_clear(h, &h->first[w], begin) & begin)) return false;
    /* From here on the block is this thread's alone. */
    uint64_t own = fh_run_mask(at, fh_lowest_bit(last) + 1), before = fh_bits_set(h, &h->free[w], own);
    FH_ASSERT((before & own) == 0);
    (void)before;
    if (FH_UNLIKELY(fh_load(&h->grown))) {
        fh_store(&h->from, w); /* the next search begins here */
        fh_store(&h->grown, 0);
    }
    return true;
}

/* Frees the block of an extent that begins at p. False: none does. */
static inline bool free_in_extent(fh_extent *e, void *p) {
    size_t offset = (size_t)((char *)p - (char *)e);
    unsigned i = fh_block_index(e->c, offset);
    uint64_t bit = UINT64_C(1) << i % 64;
    bool begins = i >= e->begin && i < e->blocks && i * (size_t)fh_class_size(e->c) == offset;
    if (!begins) return false;
    if (e->list != 0) {
        fh_byte *out = fh_extent_out(e, i);
        if (!fh_byte_load(out)) return false;
        fh_byte_store(out, 0);
        if (fh_load(&e->owned.heap->stripes) && fh_stripes_keep(e, i)) return true;
    }
    if (fh_bits_set(e->owned.heap, &e->free[i / 64], bit) & bit) return false;
    fh_extent_freed(e);
    return true;
}

static bool free_large(fh_node *node, void *p) {
    fh_heap *h = node->owned.heap;
    uint64_t block = (uintptr_t)p;
    size_t size = (size_t)fh_load(&node->size);
    /* The first of two frees has the block. */
    if (!fh_cas_acq_rel(&node->block, &block, 0)) return false;
    if (fh_heap_is_stable(h)) { /* it stays as it is, for a block of the same size */
        fh_store_release(&node->idle, (uintptr_t)p);
        return true;
    }
    fh_store(&fh_slab_at(fh_slot_of(p))->heap, 0);
    fh_told_left(h, p, size);
    bool freed = true;
    if (fh_heap_has_spans(h)) {
        fh_spans_release(h, p, size);
    } else {
        freed = fh_large_free(p);
        FH_ASSERT(freed);
    }
    fh_quota_return(h, size);
    fh_extent *e = (fh_extent *)fh_heap_word(node);
    return freed && e && free_in_extent(e, node);
}

void fh_heap_give(const char *call, const fh_owned *o, void *p) {
    size_t size = 0;
    void *begin = p;
    const fh_extent *e = (const fh_extent *)o;
    bool node = o->kind == FH_OWNED_EXTENT && e->list == 0 && !call;
    if (!node) begin = block_of(o, p, &size);
    if (FH_UNLIKELY(begin != p)) {
        fh_told_misfreed(p);
        fh_report_fault(begin ? FH_FAULT_INSIDE : FH_FAULT_DOUBLE_FREE, call, p, (size_t)begin, size);
        return;
    }
    /* Before it is free: then its address may be another sample's. */
    if (FH_UNLIKELY(fh_load(&o->heap->sampled) & fh_sampled_bit(p)) && !node) fh_hook_freed(p, false);
    if (fh_heap_is_told(o->heap) && !node) fh_told_freed(p, size);
    bool freed = o->kind == FH_OWNED_UNITS     ? free_units(o->heap, p)
                 : o->kind == FH_OWNED_EXTENT  ? free_in_extent((fh_extent *)(uintptr_t)o, p)
                 : o->kind == FH_OWNED_GIVEN   ? fh_given_free((fh_given *)(uintptr_t)o, p, size)
                 : o->kind == FH_OWNED_BOUNDED ? fh_bounded_free((fh_bounded *)(uintptr_t)o, p)
                                               : free_large((fh_node *)(uintptr_t)o, p);
    if (FH_UNLIKELY(!freed)) fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, size);
}

/* The heap does not end meanwhile, or it is a mistake that is reported. */
static void give_in_use(const char *call, const fh_owned *o, void *p) {
    fh_word *use = fh_use_begin_block(call, p, o);
    if (!use) return;
    fh_heap_give(call, o, p);
    fh_use_end(use);
}

/* True if p is a block as most are: the heap's own, which nobody watches, and it was freed. */
static inline bool free_quickly(const fh_owned *o, void *p) {
    fh_heap *h = o->heap;
    if (!FH_CHECKED && o->kind == FH_OWNED_BOUNDED) return fh_bounded_free((fh_bounded *)(uintptr_t)o, p);
    if (FH_CHECKED || h->flags & FH_HEAP_IS_APART || fh_load(&h->sampled) & fh_sampled_bit(p)) return false;
    if (o->kind == FH_OWNED_UNITS) return free_units(h, p);
    if (o->kind != FH_OWNED_EXTENT) return false;
    fh_extent *e = (fh_extent *)(uintptr_t)o;
    return e->list != 0 && free_in_extent(e, p);
}

/* Out of line, or what goes before it would save registers. */
__attribute__((noinline)) static void free_slowly(const char *call, const fh_owned *o, void *p) {
    int error = errno;
    (FH_CHECKED ? give_in_use : fh_heap_give)(call, o, p);
    errno = error;
}

/* Out of line for the same reason. */
__attribute__((noinline)) static void free_one(const char *call, const fh_owned *o, void *p) {
    if (FH_UNLIKELY(!free_quickly(o, p))) free_slowly(call, o, p);
}

void fh_hook_heap_free_quick(uint64_t quick, void *p) {
    if (FH_UNLIKELY(!fh_stripe_keep(quick, p))) free_one("free", fh_owned_at(p), p);
}

void fh_hook_heap_free(const char *call, const void *word, void *p) {
    free_one(call, word, p);
}
