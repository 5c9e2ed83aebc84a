#include "reclaim/defrag.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/tuning.h"
#include "cache/observed.h"
#include "store/depot.h"
#include "store/events.h"
#include "store/hints.h"
#include "store/pages.h"
#include "store/slab.h"
#include "store/slab_life.h"
#include "store/window.h"
#include "system/system.h"

/* How full a slab is, in 64ths. */
#define FULL 64u

/* Emptying a slab that is fuller than this moves much and gains little. */
#define MOST_FILL (FULL * 13 / 16)
#define BORROWED_FILL (FULL * 3 / 4)

typedef struct {
    fh_word bar;  /* which slabs are to be emptied, packed; 0: none */
    fh_word left; /* blocks that may be asked about until the next sample */
    fh_word from; /* the slot where the next sample begins */
} judge;

/* judge[FH_SMALL_LAST + 1], mapped for the first who asks: most programs never do. Written once, release. */
static fh_word judges;

/* That of class c; NULL: there is no memory for them. */
static judge *judge_of(unsigned c) {
    uint64_t all = fh_load_acquire(&judges);
    if (!all) {
        void *p = fh_system_map(sizeof(judge[FH_SMALL_LAST + 1]), fh_system_page_size());
        if (!p) return NULL;
        if (fh_cas_acq_rel(&judges, &all, (uintptr_t)p)) {
            all = (uintptr_t)p;
        } else {
            fh_system_unmap(p, fh_round_up(sizeof(judge[FH_SMALL_LAST + 1]), fh_system_page_size()));
        }
    }
    return (judge *)(uintptr_t)all + c;
}

/* Blocks of a slab that are handed out. Those in the caches of threads count: their bits are not set. */
static unsigned live_blocks(size_t slot, uint64_t state) {
    unsigned bump = fh_state_bump(state), free = 0;
    for (unsigned w = 0; w < fh_slab_words(bump); w++) free += fh_count_bits(fh_load(&fh_slab_at(slot)->free[w]));
    return free < bump ? bump - free : 0;
}

static unsigned fill_of(unsigned c, unsigned live) {
    unsigned blocks = fh_class_table[c].blocks;
    return live < blocks ? live * FULL / blocks : FULL;
}

/* ── The bar ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    unsigned slabs;
    uint64_t live[FULL + 1], free[FULL + 1]; /* blocks, by the fill of their slab */
} sample;

/* Slabs from that slot on, before `end`, which have free blocks; a full one has no hint, and nothing to say. Returns where it
 * has stopped, FH_NONE: there are no more. */
static size_t look(unsigned c, size_t slot, size_t end, sample *s) {
    for (; s->slabs < FH_DEFRAG_SAMPLE; slot++) {
        slot = fh_hint_next(c, slot);
        if (slot == FH_NONE || slot >= end) return FH_NONE;
        uint64_t state = fh_load_acquire(&fh_slab_at(slot)->state);
        if (fh_state_kind(state) != c) continue;
        unsigned live = live_blocks(slot, state), fill = fill_of(c, live);
        s->slabs++;
        s->live[fill] += live;
        s->free[fill] += fh_class_table[c].blocks - live;
    }
    return slot;
}

/* Slabs with a lower fill are to be emptied, and of those with just that fill a share, in 2^16ths. */
typedef struct {
    unsigned fill, share;
} bar;

/* The highest one below which all blocks have room above it. */
static bar bar_of(const sample *s) {
    uint64_t below = 0, room = 0;
    for (unsigned f = 0; f <= FULL; f++) room += s->free[f];
    for (unsigned f = 0; f < MOST_FILL; f++) {
        uint64_t live = s->live[f], free = s->free[f];
        if (below + live > room - free) {
            /* The others of that fill give room too:  below + share · live  =  room − share · free. */
            return (bar){f, (unsigned)(((room - below) << 16) / (live + free))};
        }
        below += live;
        room -= free;
    }
    return (bar){MOST_FILL, 0};
}

static uint64_t packed(bar b) {
    return (uint64_t)b.share << 8 | b.fill;
}

/* Which ones these are is the same for all threads, and until the next sample. */
static bool is_below(uint64_t packed, unsigned fill, size_t slot) {
    unsigned bar = (unsigned)packed & 0xFF;
    return fill < bar || (fill == bar && (slot * UINT64_C(0x9E3779B97F4A7C15)) >> 48 < packed >> 8);
}

static void judge_again(judge *j, unsigned c) {
    sample s = {0};
    size_t from = (size_t)fh_load(&j->from), end = look(c, from, FH_NONE, &s);
    if (end == FH_NONE) end = look(c, 0, from, &s); /* what is before: the sample goes round */
    fh_store(&j->from, end == FH_NONE ? 0 : end);
    uint64_t bar = packed(bar_of(&s));
    fh_store(&j->bar, bar);
    if (bar) fh_depot_empty(c); /* its blocks are scattered over slabs, and count as live there */
    fh_store(&j->left, s.slabs < FH_DEFRAG_LEAST ? FH_DEFRAG_LEAST : s.slabs);
}

/* ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The class of the slab at p; 0: it is in none that could be emptied. A checked block is not where the program's pointer is. */
static unsigned class_of(const void *p) {
    unsigned c = fh_is_checking() ? FH_CLASS_SPECIAL : fh_class_at(p);
    return c <= FH_SMALL_LAST ? c : FH_CLASS_SPECIAL;
}

/* A slab whose holes are open has blocks of several classes, and gets no more of its own. Moving them pays by itself. */
static bool is_sparse_borrowed(const void *p) {
    size_t slot = fh_slot_of(p);
    if (!fh_in_window(p) || slot / FH_CHUNK_SLOTS >= fh_window_chunks()) return false;
    if (!fh_hint_is_set(FH_CLASS_BORROWED, slot)) return false;
    return FH_SLOT_SIZE - fh_pages_free_bytes(slot) < FH_SLOT_SIZE / FULL * BORROWED_FILL;
}

bool fh_defrag_pays(const void *p) {
    unsigned c = class_of(p);
    if (c == FH_CLASS_SPECIAL) return !fh_is_checking() && is_sparse_borrowed(p);
    fh_event_demand(c);
    judge *j = judge_of(c);
    if (FH_UNLIKELY(!j)) return false;
    uint64_t left = fh_load(&j->left);
    if (left == 0) {
        judge_again(j, c);
    } else {
        (void)fh_cas_relaxed(&j->left, &left, left - 1);
    }
    size_t slot = fh_slab_head(c, fh_slot_of(p));
    uint64_t state = fh_load_acquire(&fh_slab_at(slot)->state);
    if (fh_state_kind(state) != c || fh_slab_is_preferred(slot, c)) return false;
    return is_below(fh_load(&j->bar), fill_of(c, live_blocks(slot, state)), slot);
}

void *fh_defrag_take(size_t n) {
    unsigned c = fh_class_of(n ? n : 1);
    void *p;
    if (c == FH_CLASS_SPECIAL || c > FH_SMALL_LAST || fh_is_checking()) return NULL;
    return fh_slab_take_own(c, 1, &p) ? p : NULL;
}

bool fh_defrag_give(void *p) {
    unsigned c = class_of(p);
    if (c == FH_CLASS_SPECIAL) return false;
    fh_slab_give(c, 1, &p);
    return true;
}
