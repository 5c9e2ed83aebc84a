#include "store/pages.h"

#include "base/assert.h"
#include "base/classes.h"
#include "store/hints.h"
#include "store/slab.h"
#include "store/slab_life.h"
#include "store/stretch.h"
#include "store/thp.h"
#include "store/window.h"
#include "system/system.h"

#include <string.h>

/* Pages of at least 4 KiB in the longest slab, of sixteen slots. */
#define MOST_PAGES (16 * FH_SLOT_SIZE / (4 * FH_KIB))
#define HALF_PAGES (FH_CHUNK_SIZE / 2 / (4 * FH_KIB)) /* of a chunk */

/* A slab while this thread holds free blocks of it, so that it cannot become another one. */
typedef struct {
    size_t slot;
    fh_slab *slab;
    fh_paged of;
    uint64_t *held; /* words of the blocks that we have claimed */
} holding;

/* Slabs whose free pages are purged together, in one call for all of them. It is on the stack of a thread that calls free, which
 * may be small: most slabs have few words, and two of the longest fill it. */
#define BATCH_SLABS 8u
#define BATCH_WORDS (2 * FH_SLAB_WORDS)
#define BATCH_PIECES 32u

typedef struct {
    unsigned slabs, words, pieces;
    holding slab[BATCH_SLABS];
    uint64_t word[BATCH_WORDS];
    fh_piece piece[BATCH_PIECES]; /* of blocks that are held */
} batch;

static unsigned page_shift(void) {
    return fh_lowest_bit(fh_system_page_size());
}

static unsigned words_of(const holding *h) {
    return (h->of.bump + 63) / 64;
}

/* What is to be claimed: the blocks on pages of which all blocks are free now, and which have memory (NULL: or may have). Returns
 * the number of such pages. */
static unsigned choose(const holding *h, const unsigned char *resident, uint64_t *wanted) {
    uint64_t free[FH_SLAB_WORDS] = {0};
    unsigned chosen = 0;
    memset(wanted, 0, sizeof free);
    for (unsigned w = 0; w < words_of(h); w++) free[w] = fh_load(&h->slab->free[w]);
    for (fh_stretch s = {0, 0}; fh_next_stretch(&h->of, free, resident, &s);) {
        fh_blocks b = fh_blocks_on(&h->of, s);
        for (unsigned w = b.first / 64; w <= b.last / 64; w++) wanted[w] |= fh_bits_of(b, w);
        chosen += s.end - s.page;
    }
    return chosen;
}

/* Puts all blocks back that are held. The last one is given like a program's block: until then the slab cannot
 * become another one, so its hint may be set. Giving that block settles the slab if it turns out to be all free. */
static void put_back(holding *h) {
    unsigned words = words_of(h);
    while (words > 0 && !h->held[words - 1]) words--;
    if (words == 0) return;
    unsigned highest = fh_highest_bit(h->held[words - 1]);
    h->held[words - 1] &= ~(UINT64_C(1) << highest);
    for (unsigned w = 0; w < words; w++) {
        /* release: the purge before another thread takes the block. */
        if (h->held[w]) {
            uint64_t before = fh_or_release(&h->slab->free[w], h->held[w]);
            FH_ASSERT((before & h->held[w]) == 0);
        }
    }
    fh_fence_after_rmw();
    /* Another thread may have found the slab empty meanwhile, and cleared its hint. */
    fh_hint_set(h->of.c, 0, h->slot);
    void *last = fh_slot_address(h->slot) + ((words - 1) * 64 + highest) * fh_class_size(h->of.c);
    fh_slab_give(h->of.c, 1, &last);
}

/* Claims what is wanted and still free, like an allocation. False if the slab is of another class by now: then nothing is
 * held any more. */
static bool claim(holding *h, const uint64_t *wanted) {
    bool checked = false;
    for (unsigned w = 0; w < words_of(h); w++) {
        uint64_t bits = wanted[w] ? fh_load(&h->slab->free[w]) : 0;
        /* acquire: pairs with the release of the thread that freed the blocks. Its last writes come before the purge. */
        while (bits & wanted[w]) {
            if (!fh_cas_acquire(&h->slab->free[w], &bits, bits & ~wanted[w])) continue;
            h->held[w] = bits & wanted[w];
            break;
        }
        if (!h->held[w] || checked) continue;
        /* Only now that blocks are held its class cannot change: the same rule as for taking. */
        unsigned kind = fh_state_class(fh_load(&h->slab->state));
        checked = true;
        if (kind != h->of.c) {
            h->of.c = kind;
            put_back(h);
            return false;
        }
    }
    return true;
}

static void purge_pieces(batch *b) {
    fh_system_purge_pieces(b->piece, b->pieces);
    b->pieces = 0;
}

/* Purges what is left of the batch, and puts all blocks back. */
static void finish(batch *b) {
    purge_pieces(b);
    for (unsigned i = 0; i < b->slabs; i++) put_back(&b->slab[i]);
    b->slabs = b->words = 0;
}

/* Of the slab h the pages that are all held become pieces. Returns how many pages. */
static unsigned add_pieces(batch *b, const holding *h, const unsigned char *resident) {
    char *start = fh_slot_address(h->slot);
    unsigned added = 0, per_slot = FH_SLOT_SIZE >> h->of.shift;
    for (fh_stretch s = {0, 0}; fh_next_stretch(&h->of, h->held, resident, &s); added += s.end - s.page) {
        fh_thp_keep_slots_split(h->slot + s.page / per_slot, h->slot + (s.end - 1) / per_slot);
        if (b->pieces == BATCH_PIECES) purge_pieces(b);
        b->piece[b->pieces++] =
            (fh_piece){start + ((size_t)s.page << h->of.shift), (size_t)(s.end - s.page) << h->of.shift};
    }
    return added;
}

/* The slab at a slot, if it is one of the program's blocks. */
static bool is_slab(size_t slot, holding *h, unsigned *pages) {
    uint64_t state = fh_load_acquire(&fh_slab_at(slot)->state);
    unsigned c = fh_state_class(state), bump = fh_state_bump(state);
    *h = (holding){.slot = slot, .slab = fh_slab_at(slot), .of = {c, bump, page_shift()}};
    if (c < 1 || c > FH_SMALL_LAST) return false;
    FH_ASSERT(bump <= fh_class_table[c].blocks);
    *pages = fh_class_table[c].slots * FH_SLOT_SIZE >> h->of.shift;
    return *pages <= MOST_PAGES;
}

/* The next slab that begins at *slot … end − 1; *slot is behind it then. A slab that becomes another one meanwhile may be missed. */
static bool next_slab(size_t *slot, size_t end, holding *h, unsigned *pages) {
    for (; *slot < end; ++*slot) {
        if (!is_slab(*slot, h, pages)) continue;
        *slot += fh_class_table[h->of.c].slots;
        return true;
    }
    return false;
}

/* Pages inside of slabs that were purged so far. */
static fh_word purged_pages;

/* Room for one more slab in the batch, with a word for each 64 of its blocks. */
static void make_room(batch *b, holding *h) {
    unsigned words = words_of(h);
    FH_ASSERT(words <= FH_SLAB_WORDS);
    if (b->slabs == BATCH_SLABS || b->words + words > BATCH_WORDS) finish(b);
    h->held = &b->word[b->words];
    for (unsigned w = 0; w < words; w++) h->held[w] = 0;
}

/* True if the slab has blocks that were never handed out, and a page of nothing else. */
static bool has_fresh(const holding *h, unsigned pages) {
    return fh_pages_behind(&h->of) < pages && h->of.bump < fh_class_table[h->of.c].blocks;
}

/* And such a page has memory. */
static bool has_fresh_resident(const holding *h, unsigned pages, const unsigned char *resident) {
    return has_fresh(h, pages) && fh_next_page(resident, fh_pages_behind(&h->of), pages, true) < pages;
}

/* Claims the free pages of a slab. `pages` is the number of all its pages. They are purged and put back with the batch. Returns the bytes of
 * those that are. */
static size_t add_slab(batch *b, holding h, unsigned pages, const unsigned char *resident) {
    uint64_t wanted[FH_SLAB_WORDS];
    if (has_fresh_resident(&h, pages, resident)) {
        (void)fh_slab_free_fresh(h.slot, h.of.c);
        if (!is_slab(h.slot, &h, &pages)) return 0;
    }
    if (!choose(&h, resident, wanted)) return 0;
    make_room(b, &h);
    if (!claim(&h, wanted)) return 0;
    b->words += words_of(&h);
    b->slab[b->slabs++] = h;
    unsigned added = add_pieces(b, &h, resident);
    if (added) fh_add_relaxed(&purged_pages, added);
    return (size_t)added << h.of.shift;
}

size_t fh_pages_free_bytes(size_t slot) {
    const fh_slab *slab = fh_slab_at(slot);
    uint64_t state = fh_load_acquire(&slab->state);
    unsigned c = fh_state_class(state);
    if (c < 1 || c > FH_SMALL_LAST) return 0;
    size_t free = 0;
    for (unsigned w = 0; w < (fh_state_bump(state) + 63) / 64; w++) free += fh_count_bits(fh_load(&slab->free[w]));
    free *= fh_class_size(c);
    return free >= fh_system_page_size() ? free : 0;
}

/* Not inlined, as the others below: each has its buffers only while it needs them, and they are not there together. */
__attribute__((noinline)) static unsigned count_free(const holding *h, const unsigned char *resident) {
    uint64_t wanted[FH_SLAB_WORDS];
    return choose(h, resident, wanted);
}

__attribute__((noinline)) static unsigned count_resident(const holding *h, unsigned pages) {
    unsigned char resident[MOST_PAGES];
    bool known = fh_system_resident(fh_slot_address(h->slot), pages * fh_system_page_size(), resident);
    return known ? count_free(h, resident) : 0;
}

size_t fh_pages_free(size_t slot) {
    holding h;
    unsigned pages;
    if (!is_slab(slot, &h, &pages) || !count_free(&h, NULL)) return 0;
    return count_resident(&h, pages) * fh_system_page_size();
}

size_t fh_pages_free_in_half(size_t first) {
    holding h;
    unsigned pages, free = 0;
    for (size_t slot = first; next_slab(&slot, first + FH_HALF_SLOTS, &h, &pages);) free += count_free(&h, NULL);
    return free * fh_system_page_size();
}

/* Whether a slab may have something to purge. The bits are read before the kernel is asked anything. */
static bool may_have_free(const holding *h, unsigned pages) {
    return has_fresh(h, pages) || count_free(h, NULL);
}

/* The slabs that begin at slot … end − 1. `resident` begins with the pages of the first of these slots. A slab begins at a multiple of its
 * length, and so ends in its half. */
__attribute__((noinline)) static size_t purge_slabs(size_t slot, size_t end, const unsigned char *resident) {
    size_t first = slot, purged = 0, per_slot = FH_SLOT_SIZE / fh_system_page_size();
    holding h;
    unsigned pages;
    batch b;
    b.slabs = b.words = b.pieces = 0;
    while (next_slab(&slot, end, &h, &pages)) purged += add_slab(&b, h, pages, resident + (h.slot - first) * per_slot);
    finish(&b);
    return purged;
}

size_t fh_pages_purge(size_t slot) {
    holding h;
    unsigned pages;
    unsigned char resident[MOST_PAGES];
    if (!is_slab(slot, &h, &pages) || !may_have_free(&h, pages)) return 0;
    if (!fh_system_resident(fh_slot_address(slot), pages * fh_system_page_size(), resident)) return 0;
    return purge_slabs(slot, slot + 1, resident);
}

size_t fh_pages_purge_half(size_t first) {
    unsigned char resident[HALF_PAGES];
    size_t end = first + FH_HALF_SLOTS, slot = first, per_slot = FH_SLOT_SIZE / fh_system_page_size();
    holding h;
    unsigned pages;
    FH_ASSERT(first % FH_HALF_SLOTS == 0);
    if (FH_HALF_SLOTS * per_slot > HALF_PAGES) return 0;
    while (next_slab(&slot, end, &h, &pages)) {
        if (!may_have_free(&h, pages)) continue;
        bool known = fh_system_resident(fh_slot_address(h.slot), (end - h.slot) * FH_SLOT_SIZE, resident);
        return known ? purge_slabs(h.slot, end, resident) : 0;
    }
    return 0;
}

bool fh_pages_were_purged(void) {
    return fh_load(&purged_pages) != 0;
}

unsigned fh_pages_missing(size_t slot, unsigned c, unsigned bump, const unsigned char *resident) {
    const holding h = {.slot = slot, .slab = fh_slab_at(slot), .of = {c, bump, page_shift()}};
    unsigned pages = (unsigned)(bump * fh_class_size(c) >> h.of.shift), missing = 0;
    if (!fh_pages_free_bytes(slot)) return 0;
    for (unsigned page = 0; page < pages; page++) {
        if (resident[page] & 1) continue;
        fh_blocks b = fh_blocks_on(&h.of, (fh_stretch){page, page + 1});
        bool free = true;
        for (unsigned w = b.first / 64; w <= b.last / 64 && free; w++)
            free = !(fh_bits_of(b, w) & ~fh_load(&h.slab->free[w]));
        missing += free;
    }
    return missing;
}
