#include "store/large.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/tuning.h"
#include "store/edge.h"
#include "store/gaps.h"
#include "store/limit.h"
#include "store/purge.h"
#include "store/run.h"
#include "store/thp.h"
#include "store/window.h"
#include "system/report.h"
#include "system/system.h"

#include <string.h>

/* Blocks of more pages are runs of whole slots: 1 MiB. */
#define PAGED_MOST (FH_RUN_CACHED_MAX / FH_PAGE)

static size_t slots_of(size_t size) {
    return (size + FH_SLOT_SIZE - 1) >> FH_SLOT_SHIFT;
}

static char *page_address(size_t page) {
    return (char *)(fh_window_base() + page * FH_PAGE);
}

/* Pages of a block of that size. Up to 1 MiB those of its class; at least a slot, so that in each slot one block begins. */
static size_t pages_of(size_t size) {
    if (size <= FH_SLOT_SIZE) return FH_SLOT_PAGES;
    if (size > FH_RUN_CACHED_MAX) return (size + FH_PAGE - 1) / FH_PAGE;
    return fh_class_size(fh_class_run(size)) / FH_PAGE;
}

/* ── The record of a block ───────────────────────────────────────────────────────────────────────────────────────── */

static size_t count_in(uint64_t word) {
    return (uint32_t)word;
}
static size_t first_in(uint64_t word) {
    return (size_t)(word >> 32) % FH_SLOT_PAGES;
}

/* Of a block of a hardened partition: the program has freed it, and it waits (cache/hardened.h). */
#define RETIRED (UINT64_C(1) << 63)

/* The record of the slot in which a large block begins at p, and what its word says; NULL if none does. */
static fh_slab *record_at(const void *p, uint64_t *word) {
    if (!fh_in_window(p)) return NULL;
    size_t slot = fh_slot_of(p), offset = (uintptr_t)p % FH_SLOT_SIZE;
    if (slot / FH_CHUNK_SLOTS >= fh_window_chunks()) return NULL;
    fh_slab *record = fh_slab_at(slot);
    *word = fh_load(&record->pages);
    return *word && first_in(*word) * FH_PAGE == offset ? record : NULL;
}

/* Slots of which the block that begins in this one has a part. */
static size_t touched_slots(size_t slot, uint64_t word) {
    uint64_t state = fh_load(&fh_slab_at(slot)->state);
    if (count_in(word) > PAGED_MOST && fh_state_kind(state) == FH_KIND_RUN) return fh_state_run_slots(state);
    return (first_in(word) + count_in(word) + FH_SLOT_PAGES - 1) / FH_SLOT_PAGES;
}

void *fh_large_in(size_t slot, size_t *size, size_t *slots) {
    uint64_t word = fh_load(&fh_slab_at(slot)->pages);
    if (!word) return NULL;
    *size = count_in(word) * FH_PAGE;
    *slots = touched_slots(slot, word);
    return fh_slot_address(slot) + first_in(word) * FH_PAGE;
}

/* A block begins here: of `pages` pages, and with `slots` whole slots if it begins with one. Up to 1 MiB it has a class, so
 * that free puts it into a magazine. */
static void label(size_t slot, size_t first, size_t pages, size_t slots) {
    fh_slab *record = fh_slab_at(slot);
    bool cached = pages > FH_SLOT_PAGES && pages <= PAGED_MOST && !fh_partition_of_slot(slot);
    fh_class_set(slot, cached ? fh_class_run(pages * FH_PAGE) : FH_CLASS_SPECIAL);
    fh_store(&record->pages, fh_large_word(pages, first));
    /* release: a reader of the heap that sees the state sees the class. */
    if (first == 0) fh_store_release(&record->state, fh_state_make_run(slots));
    fh_run_set_over(slot, touched_slots(slot, fh_large_word(pages, first)), true);
}

/* No block begins here any more; what it had is still the caller's. */
static void unlabel(size_t slot, uint64_t word) {
    fh_slab *record = fh_slab_at(slot);
    fh_run_set_over(slot, touched_slots(slot, word), false);
    fh_class_set(slot, FH_CLASS_SPECIAL);
    if (first_in(word) == 0) fh_store_release(&record->state, 0);
}

size_t fh_large_size(const void *p) {
    uint64_t word;
    return record_at(p, &word) ? count_in(word) * FH_PAGE : 0;
}

/* The block that begins in that slot, if p is in what the program has of it. */
static void *if_around(size_t slot, uint64_t word, const void *p) {
    char *begin = fh_slot_address(slot) + first_in(word) * FH_PAGE;
    return (uintptr_t)p - (uintptr_t)begin < count_in(word) * FH_PAGE ? begin : NULL;
}

void *fh_large_around(const void *p) {
    size_t slot = fh_slot_of(p), chunk = slot / FH_CHUNK_SLOTS;
    if (chunk >= fh_window_chunks()) return NULL;
    for (size_t s = slot + 1; s-- > chunk * FH_CHUNK_SLOTS;) {
        uint64_t word = fh_load(&fh_slab_at(s)->pages);
        /* In its own slot p may be before the block that begins there. */
        bool before = s == slot && (uintptr_t)p % FH_SLOT_SIZE < first_in(word) * FH_PAGE;
        if (word && !before) return if_around(s, word, p);
    }
    uint64_t over = fh_load_acquire(&fh_chunk_at(chunk)->over);
    return over ? if_around((size_t)over - 1, fh_load(&fh_slab_at((size_t)over - 1)->pages), p) : NULL;
}

/* ── Stretches of pages ──────────────────────────────────────────────────────────────────────────────────────────── */

/* What a stretch of pages is made of: the end of an edge, whole slots, the beginning of another edge. A short one may be a
 * part of one edge: then it is the head. */
typedef struct {
    size_t slot;         /* the first whole one, */
    size_t slots;        /*   and how many */
    uint64_t head, tail; /* pages of the slot before, and of the slot behind */
} stretch;

static stretch stretch_of(size_t page, size_t n) {
    size_t end = page + n;
    unsigned from = page % FH_SLOT_PAGES, to = end % FH_SLOT_PAGES;
    stretch s = {.slot = (page + FH_SLOT_PAGES - 1) / FH_SLOT_PAGES};
    FH_ASSERT(n >= 1);
    if (from && end / FH_SLOT_PAGES == page / FH_SLOT_PAGES) {
        s.head = fh_run_mask(from, (unsigned)n);
        return s;
    }
    if (from) s.head = fh_run_mask(from, FH_SLOT_PAGES - from);
    s.slots = end / FH_SLOT_PAGES - s.slot;
    s.tail = fh_low_mask(to);
    return s;
}

#define ALL_PAGES fh_low_mask(FH_SLOT_PAGES)

static void release_slots(size_t slot, size_t n, bool dirty) {
    if (n) fh_run_release(slot, n, dirty);
}

/* Claims the whole slots of a stretch, and what it has of the slot behind: that is an edge, or free and becomes one. */
static bool claim_rest(const stretch *s, bool *clean) {
    size_t behind = s->slot + s->slots;
    bool shared = s->tail && behind / FH_CHUNK_SLOTS < fh_window_chunks() && fh_edge_free(behind), fresh = true;
    size_t n = s->slots + (s->tail && !shared);
    if (n && !fh_run_extend(s->slot, n, &fresh)) return false;
    if (shared && !fh_edge_take(behind, s->tail, clean)) {
        release_slots(s->slot, n, !fresh);
        return false;
    }
    if (s->tail && !shared) fh_edge_make(behind, ALL_PAGES & ~s->tail, fresh);
    *clean &= fresh;
    return true;
}

/* Claims exactly these pages, or none of them. The first one is that of a slot, or free in an edge. */
static bool claim_pages(size_t page, size_t n, bool *clean) {
    stretch s = stretch_of(page, n);
    if (s.head && !fh_edge_take(s.slot - 1, s.head, clean)) return false;
    if (!s.slots && !s.tail) return true;
    if (claim_rest(&s, clean)) return true;
    if (s.head) fh_edge_give(s.slot - 1, s.head);
    return false;
}

static void release_pages(size_t page, size_t n) {
    stretch s = stretch_of(page, n);
    if (s.head) fh_edge_give(s.slot - 1, s.head);
    release_slots(s.slot, s.slots, true);
    if (s.tail) fh_edge_give(s.slot + s.slots, s.tail);
}

/* ── Allocating ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Free pages at the end of an edge. */
static unsigned gap_at_end(size_t slot) {
    uint64_t used = ~fh_edge_free(slot) & ALL_PAGES;
    return used ? FH_SLOT_PAGES - 1 - fh_highest_bit(used) : 0;
}
static unsigned gap_at_beginning(size_t slot) {
    uint64_t used = ~fh_edge_free(slot) & ALL_PAGES;
    return used ? fh_lowest_bit(used) : 0;
}

/* True if that seems to be free: asked before anything is claimed. */
static bool seems_free(const stretch *s) {
    size_t behind = s->slot + s->slots;
    for (size_t slot = s->slot; slot < behind; slot++) {
        if (!fh_run_is_free(slot)) return false;
    }
    return !s->tail || fh_run_is_free(behind) ||
           (behind / FH_CHUNK_SLOTS < fh_window_chunks() && (fh_edge_free(behind) & s->tail) == s->tail);
}

/* Edges that a search tries. In a heap of many sizes most gaps are too small, and one that fits is a matter of luck. It goes on
 * where it ended, so that in time all are tried. */
#define EDGES_MOST 24u
static fh_word next_edge;

/* A place for n pages that ends or begins in this edge: its first page, FH_NONE if there is none. */
static size_t claim_beside(size_t slot, size_t n, bool *clean) {
    unsigned above = gap_at_end(slot), below = gap_at_beginning(slot), part = n % FH_SLOT_PAGES;
    size_t begins = (slot + 1) * FH_SLOT_PAGES - above, ends = slot * FH_SLOT_PAGES + part;
    stretch s = stretch_of(begins, n);
    *clean = true;
    if (above && seems_free(&s) && claim_pages(begins, n, clean)) return begins;
    /* What begins with a slot and ends here. Where a gap is before it, that edge leads to it as well. */
    if (part && part <= below && ends >= n) {
        s = stretch_of(ends - n, n);
        *clean = true;
        if (seems_free(&s) && claim_pages(ends - n, n, clean)) return ends - n;
    }
    if (!above && !below) fh_edge_unhint(slot);
    return FH_NONE;
}

static size_t claim_in_edge(size_t n, size_t most, bool *clean) {
    size_t first = (size_t)fh_load(&next_edge), slot = first;
    bool again = false;
    for (size_t tries = 0; tries < most; tries++, slot++) {
        slot = fh_edge_next(slot);
        if (slot == FH_NONE && !again && first) {
            again = true; /* from the beginning, once */
            slot = fh_edge_next(0);
        }
        if (slot == FH_NONE || (again && slot >= first)) break;
        size_t page = claim_beside(slot, n, clean);
        if (page == FH_NONE) continue;
        fh_store(&next_edge, slot);
        return page;
    }
    fh_store(&next_edge, slot == FH_NONE ? 0 : slot);
    return FH_NONE;
}

/* Slots that were claimed for n pages: if the slot before them is an edge with a gap, the block begins in that. What is left
 * at the end becomes free again, or an edge. Returns the first page. */
static size_t slide_back(size_t slot, size_t slots, size_t n, bool slide, bool *clean) {
    size_t page = slot * FH_SLOT_PAGES, end;
    bool fresh = *clean;
    unsigned gap = slide && slot > 0 ? gap_at_end(slot - 1) : 0;
    if (gap && fh_edge_take(slot - 1, fh_run_mask(FH_SLOT_PAGES - gap, gap), clean)) page -= gap;
    end = page + n;
    size_t last = end / FH_SLOT_PAGES; /* the slot of which only a part is needed, or nothing */
    unsigned part = end % FH_SLOT_PAGES;
    if (last + (part != 0) < slot + slots) fh_run_release(slot + slots - 1, 1, !fresh);
    if (part) fh_edge_make(last, ALL_PAGES & ~fh_low_mask(part), fresh);
    return page;
}

/* `anywhere`: at any page; else with a slot, at that alignment. */
static void *alloc_paged(size_t n, bool anywhere, size_t align, size_t phase, bool *clean) {
    anywhere &= n > FH_SLOT_PAGES;
    fh_run_settle(); /* a block in an edge may go on there */
    size_t page = anywhere ? claim_in_edge(n, EDGES_MOST, clean) : FH_NONE;
    if (page == FH_NONE) {
        size_t slots = (n + FH_SLOT_PAGES - 1) / FH_SLOT_PAGES, slot = fh_run_claim(slots, align, phase, clean);
        if (slot != FH_NONE) page = slide_back(slot, slots, n, anywhere, clean);
    }
    /* Short of memory, all of them are tried. */
    if (FH_UNLIKELY(page == FH_NONE) && anywhere) page = claim_in_edge(n, SIZE_MAX, clean);
    if (page == FH_NONE) return NULL;
    label(page / FH_SLOT_PAGES, page % FH_SLOT_PAGES, n, n / FH_SLOT_PAGES);
    return page_address(page);
}

/* held: slots that a block that moves has, see fh_run_claim_for. */
static void *alloc_long(size_t pages, size_t slots, size_t held, size_t align, size_t phase, bool *clean) {
    size_t slot = fh_run_claim_for(slots, held, align, phase, clean);
    if (slot == FH_NONE) return NULL;
    FH_ASSERT_COSTLY(fh_load(&fh_slab_at(slot)->state) == 0 && fh_load(&fh_slab_at(slot)->pages) == 0);
    label(slot, 0, pages, slots);
    return fh_slot_address(slot);
}

/* The window begins at a multiple of a chunk. A larger alignment is one to addresses and not to numbers of slots. */
static size_t phase_of(size_t align_slots) {
    return -(fh_window_base() >> FH_SLOT_SHIFT) & (align_slots - 1);
}

void *fh_large_alloc(size_t size, size_t align, bool *clean) {
    size_t align_slots = align > FH_SLOT_SIZE ? align >> FH_SLOT_SHIFT : 1;
    FH_ASSERT(size >= 1 && fh_is_power_of_two(align));
    if (size > FH_WINDOW_SIZE) return NULL;
    size_t phase = phase_of(align_slots), pages = pages_of(size);
    if (pages > PAGED_MOST) return alloc_long(pages, slots_of(size), 0, align_slots, phase, clean);
    return alloc_paged(pages, align <= FH_PAGE, align_slots, phase, clean);
}

void *fh_large_alloc_again(size_t size, size_t align, bool *clean) {
    if (!fh_load(&fh_counts.kept)) return NULL;
    size_t align_slots = align > FH_SLOT_SIZE ? align >> FH_SLOT_SHIFT : 1, slots = slots_of(size);
    size_t slot = fh_run_take_kept(slots, align_slots, phase_of(align_slots));
    if (slot == FH_NONE) return NULL;
    FH_ASSERT(pages_of(size) > PAGED_MOST);
    fh_store(&fh_slab_at(slot)->pages, fh_large_word(pages_of(size), 0));
    *clean = false;
    return fh_slot_address(slot);
}

void *fh_large_alloc_in(unsigned partition, size_t size, size_t align, bool *clean) {
    size_t align_slots = align > FH_SLOT_SIZE ? align >> FH_SLOT_SHIFT : 1;
    FH_ASSERT(partition != 0 && size >= 1 && fh_is_power_of_two(align));
    if (size > FH_WINDOW_SIZE) return NULL;
    size_t phase = phase_of(align_slots), slots = slots_of(size);
    size_t gap = fh_gap_slots(partition, slots, false);
    size_t slot = fh_run_claim_in(partition, slots, gap, align_slots, phase, clean);
    if (slot == FH_NONE) return NULL;
    if (gap) fh_gap_close(slot + slots, gap);
    label(slot, 0, slots * FH_SLOT_PAGES, slots);
    return fh_slot_address(slot);
}

/* ── Sparse blocks ───────────────────────────────────────────────────────────────────────────────────────────────── */

#define SAMPLES 8u

/* A long block of which little was ever touched would count as so much memory that is free and kept, and as so much that was
 * missed when its addresses are in use again. So a few of its pages are looked at, and if most have no memory, all of it is
 * returned to the OS at once: that costs little, because there is little. True if that was done. */
static bool return_if_sparse(char *p, size_t slots) {
    size_t page = fh_system_page_size(), step = slots * FH_SLOT_SIZE / SAMPLES & ~(page - 1);
    unsigned resident = 0;
    if (slots < FH_SPARSE_SLOTS) return false;
    for (unsigned i = 0; i < SAMPLES; i++) {
        unsigned char here = 1;
        resident += !fh_system_resident(p + i * step + step / 2 / page * page, page, &here) || (here & 1);
    }
    if (resident > SAMPLES / 4) return false;
    fh_system_purge(p, slots * FH_SLOT_SIZE);
    return true;
}

/* ── Freeing ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Not where a limit, or the kernel's on addresses, is short of what is claimed; where the background thread looks for what is free;
 * or of a block so long that it is looked at whether it has memory at all. */
static bool may_keep(size_t slot, size_t slots) {
    return slots < FH_SPARSE_SLOTS && !fh_limit_is_set() && !fh_partition_of_slot(slot) &&
           !(fh_load(&fh_order.watch) & (FH_WATCH_BACKGROUND | FH_WATCH_ADDRESSES));
}

bool fh_large_free(void *p) {
    uint64_t word;
    fh_slab *record = record_at(p, &word);
    /* acq_rel: of two frees one gets it, and it has done with the block. */
    if (!record || !fh_cas_acq_rel(&record->pages, &word, 0)) return false;
    size_t slot = fh_slot_of(p), slots = touched_slots(slot, word);
    /* As a run without a block. */
    if (count_in(word) > PAGED_MOST && may_keep(slot, slots)) {
        fh_run_keep(slot, slots);
        return true;
    }
    size_t gap = fh_gap_slots(fh_partition_of_slot(slot), slots, false);
    unlabel(slot, word);
    if (FH_UNLIKELY(gap)) fh_gap_release(slot + slots, gap);
    if (count_in(word) > PAGED_MOST) {
        fh_run_release(slot, slots, !return_if_sparse(p, slots));
    } else {
        release_pages(slot * FH_SLOT_PAGES + first_in(word), count_in(word));
    }
    return true;
}

bool fh_large_retire(void *p) {
    uint64_t word;
    fh_slab *record = record_at(p, &word);
    /* acq_rel: as in fh_large_free. */
    return record && !(word & RETIRED) && fh_cas_acq_rel(&record->pages, &word, word | RETIRED);
}

bool fh_large_is_retired(const void *p) {
    uint64_t word;
    return record_at(p, &word) && word & RETIRED;
}

void fh_large_give(unsigned c, void *p) {
    size_t size = fh_large_size(p);
    if (FH_LIKELY(size == fh_class_size(c)) && fh_large_free(p)) return;
    /* Only the slot in which a block begins has its class, so p is in that slot, and not the beginning; or the block has been
     * freed since, and perhaps allocated again. */
    void *around = size ? NULL : fh_large_around(p);
    if (around) {
        fh_report_fault(FH_FAULT_INSIDE, NULL, p, (size_t)around, fh_large_size(around));
    } else {
        fh_report_fault(FH_FAULT_DOUBLE_FREE, NULL, p, 0, fh_class_size(c));
    }
}

/* ── Resizing ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool resize_paged(size_t slot, uint64_t word, size_t pages) {
    size_t first = slot * FH_SLOT_PAGES + first_in(word), old = count_in(word), end = first + old;
    bool clean = true, from_edge = end % FH_SLOT_PAGES != 0;
    if (pages == old) return true;
    if (pages > old) {
        if (!claim_pages(end, pages - old, &clean)) return false;
        /* The slot in which it ended is all its own. */
        bool past = (first + pages) / FH_SLOT_PAGES > end / FH_SLOT_PAGES;
        if (from_edge && past) fh_edge_absorb(end / FH_SLOT_PAGES);
        label(slot, first_in(word), pages, pages / FH_SLOT_PAGES);
        return true;
    }
    size_t new_end = first + pages;
    fh_run_set_over(slot, touched_slots(slot, word), false);
    label(slot, first_in(word), pages, pages / FH_SLOT_PAGES);
    /* The slot in which it ends now was all its own, unless it ended there before. */
    if (new_end % FH_SLOT_PAGES && new_end / FH_SLOT_PAGES < end / FH_SLOT_PAGES) {
        unsigned part = new_end % FH_SLOT_PAGES;
        fh_edge_make(new_end / FH_SLOT_PAGES, ALL_PAGES & ~fh_low_mask(part), false);
        new_end += FH_SLOT_PAGES - part;
    }
    if (new_end < end) release_pages(new_end, end - new_end);
    return true;
}

static bool resize_long(size_t slot, uint64_t word, size_t pages) {
    size_t slots = slots_of(pages * FH_PAGE), asked = slots_of(count_in(word) * FH_PAGE);
    size_t old = fh_state_run_slots(fh_load(&fh_slab_at(slot)->state));
    bool clean;
    FH_ASSERT(asked >= 1 && asked <= old);
    if (slots > old) {
        bool longer = fh_run_extend(slot + old, slots - old, &clean);
        if (!longer && !(fh_system_counts_addresses() && fh_run_extend_bringing(slot + old, slots - old, &clean)))
            return false;
        fh_thp_fill(slot, slots);
    } else if (slots >= asked) {
        slots = old; /* it grows into its room */
    }
    if (slots < old) fh_run_set_over(slot, old, false);
    label(slot, 0, pages, slots);
    if (slots < old) fh_run_release(slot + slots, old - slots, true);
    return true;
}

bool fh_large_resize(void *p, size_t size) {
    uint64_t word;
    const fh_slab *record = record_at(p, &word);
    FH_ASSERT(record != NULL);
    if (!record || size > FH_WINDOW_SIZE) return false;
    size_t slot = fh_slot_of(p), pages = pages_of(size);
    bool paged = count_in(word) <= PAGED_MOST;
    /* No slot of a partition is shared, and behind the last one may be a gap. */
    if (FH_UNLIKELY(fh_partition_of_slot(slot))) return slots_of(size) == touched_slots(slot, word);
    if (paged != (pages <= PAGED_MOST) || count_in(word) <= FH_SLOT_PAGES) return false;
    return paged ? resize_paged(slot, word, pages) : resize_long(slot, word, pages);
}

/* Room for a block that grows and has to move: as much as half of it. It is address space, and memory only if it was that
 * before; but a limit counts what may be touched, and the kernel's limits count address space. */
static size_t room_for(size_t slots) {
    return fh_limit_is_set() || fh_system_counts_addresses() ? 0 : slots / 2;
}

typedef enum { COPIED, MOVED, LOST } moved_how;

/* What is long and comes to a place without memory moves by its page tables. Beside the bytes that saves the memory for a
 * second copy. Both places must be as far into a huge page, so that a huge page moves as one. */
static moved_how move_contents(size_t from, size_t used, size_t to, size_t bytes, bool clean) {
    if (clean && used >= FH_MOVE_SLOTS && fh_purge_may_move()) return fh_purge_move(from, used, to) ? MOVED : LOST;
    fh_purge_copy(fh_slot_address(to), fh_slot_address(from), bytes, clean);
    return COPIED;
}

typedef void release_slots_fn(size_t slot, size_t n, bool dirty);

/* Slots whose pages were moved away. On a huge page that they shared, the rest of it still has memory, also where it is free:
 * as dirty slots they lead a purge there. */
static void release_moved(release_slots_fn *release, size_t slot, size_t n) {
    const size_t half = FH_CHUNK_SLOTS / 2;
    size_t end = slot + n, head = fh_thp_is_huge(slot / FH_CHUNK_SLOTS) ? -slot % half : 0;
    size_t tail = fh_thp_is_huge((end - 1) / FH_CHUNK_SLOTS) ? end % half : 0;
    if (head + tail >= n) {
        release(slot, n, head + tail != 0);
        return;
    }
    if (head) release(slot, head, true);
    release(slot + head, n - head - tail, false);
    if (tail) release(end - tail, tail, true);
}

/* The slots of a block that has moved, its pages too or only its bytes. `counted`: so many of them count no more, because the
 * new ones do in their place. */
static void release_old(size_t slot, size_t used, size_t all, size_t counted, moved_how moved) {
    release_slots_fn *release = counted ? fh_run_release_held : fh_run_release;
    if (moved == MOVED) {
        release_moved(release, slot, used);
    } else {
        release(slot, used, true);
    }
    if (counted > used) fh_run_release_held(slot + used, counted - used, true);
    size_t rest = counted ? counted : used;
    if (all > rest) fh_run_release(slot + rest, all - rest, true);
}

/* From whole slots to whole slots. Under a limit a long block asks only for what it grows by: its pages move, to a place
 * without memory, so that nothing is there twice. */
static void *move_long(void *p, uint64_t word, size_t pages) {
    size_t from = fh_slot_of(p), held = count_in(word) * FH_PAGE, used = slots_of(held),
           slots = slots_of(pages * FH_PAGE);
    size_t all = touched_slots(from, word), align = used >= FH_MOVE_SLOTS ? FH_CHUNK_SLOTS / 2 : 1, counted = 0;
    bool clean = false, in_place_of = fh_limit_is_set() && used >= FH_MOVE_SLOTS && fh_purge_may_move();
    if (in_place_of) counted = all < slots ? all : slots;
    void *q = alloc_long(pages, slots + room_for(slots), counted, align, from % align, &clean);
    if (!q) q = alloc_long(pages, slots, counted, align, from % align, &clean);
    if (!q) return NULL;
    if (in_place_of && !clean) {
        fh_system_purge(q, slots * FH_SLOT_SIZE);
        clean = true;
    }
    fh_thp_fill(fh_slot_of(q), slots);
    moved_how moved = move_contents(from, used, fh_slot_of(q), held, clean);
    if (FH_UNLIKELY(moved == LOST)) {
        if (counted) fh_event_claimed(counted, 0, 0); /* its slots stay in use, so that no thread is given them */
        return NULL;
    }
    fh_store(&fh_slab_at(from)->pages, 0);
    unlabel(from, word);
    release_old(from, used, all, counted, moved);
    return q;
}

void *fh_large_move(void *p, size_t size) {
    uint64_t word;
    if (!record_at(p, &word) || size > FH_WINDOW_SIZE || fh_partition_of(p)) return NULL;
    size_t pages = pages_of(size), slots = slots_of(size), held = count_in(word) * FH_PAGE;
    FH_ASSERT(size > held && pages > PAGED_MOST);
    if (count_in(word) > PAGED_MOST) return move_long(p, word, pages);
    bool clean;
    void *q = alloc_long(pages, slots + room_for(slots), 0, 1, 0, &clean);
    if (!q) return NULL;
    fh_purge_copy(q, p, held, clean);
    (void)fh_large_free(p);
    return q;
}

/* ── Zeroing ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Up to the end of a huge page, or of the block. On a huge page that is shared with others, purging a part would cost it. */
static void zero_within(char *p, size_t n) {
    size_t slot = fh_slot_of(p), page = fh_system_page_size();
    bool whole = (uintptr_t)p % FH_HUGE_PAGE == 0 && n == FH_HUGE_PAGE;
    bool splits = fh_thp_is_huge(slot / FH_CHUNK_SLOTS) && !whole;
    size_t purged = splits || (uintptr_t)p % page ? 0 : n - n % page;
    if (purged) fh_system_purge(p, purged);
    memset(p + purged, 0, n - purged);
}

void fh_large_zero(void *block, size_t n) {
    char *p = block, *end = p + n;
    /* A heap may be over memory of the program, which is outside of the window and may be shared, or have all of its pages for good. */
    if (FH_UNLIKELY(!fh_in_window(p) || fh_heap_word(p))) {
        memset(p, 0, n);
        return;
    }
    while (p < end) {
        size_t here = FH_HUGE_PAGE - (uintptr_t)p % FH_HUGE_PAGE;
        if (here > (size_t)(end - p)) here = (size_t)(end - p);
        zero_within(p, here);
        p += here;
    }
}
