#include "store/holes.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/tuning.h"
#include "store/events.h"
#include "store/hints.h"
#include "store/slab_life.h"
#include "store/window.h"
#include "system/report.h"

#define PART_WORDS (FH_SLAB_WORDS / 2)
#define MOST_PARTS 32u /* of a guest */

static fh_word *joined_word(fh_slab *slab, unsigned w) {
    return &slab->free[PART_WORDS + w];
}

/* ── Opening ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* 1 once a slab has been opened. */
static fh_word any;

/* Blocks that were never handed out are free parts from now on. */
static void free_fresh(fh_slab *slab, unsigned bump, unsigned blocks) {
    for (unsigned w = bump / 64; w * 64 < blocks; w++) {
        uint64_t fresh = fh_low_mask(blocks - 64 * w) & ~(w == bump / 64 ? fh_low_mask(bump % 64) : 0);
        uint64_t before = fh_or_release(&slab->free[w], fresh);
        FH_ASSERT((before & fresh) == 0);
    }
}

/* Claims one free block of a slab, so that it can become nothing else: its word, or PART_WORDS if there is none. */
static unsigned hold(size_t slot, fh_slab *slab, unsigned c, uint64_t *held) {
    for (unsigned w = 0; w < PART_WORDS; w++) {
        uint64_t bits = fh_load(&slab->free[w]);
        while (bits) {
            *held = bits & -bits;
            /* acquire: as for a block that is taken. */
            if (!fh_cas_acquire(&slab->free[w], &bits, bits & ~*held)) continue;
            if (fh_state_kind(fh_load(&slab->state)) == c) return w;
            fh_slab_put_back(slot, w, *held);
            return PART_WORDS;
        }
    }
    return PART_WORDS;
}

bool fh_holes_open(size_t slot, unsigned c) {
    fh_slab *slab = fh_slab_at(slot);
    uint64_t held, state = fh_load_acquire(&slab->state);
    unsigned blocks = fh_class_table[c].blocks;
    FH_ASSERT(c >= FH_OWNER_FIRST && c <= FH_OWNER_LAST && fh_class_table[c].slots == 1);
    FH_ASSERT(blocks <= 64 * PART_WORDS);
    if (fh_state_kind(state) != c || fh_partition_of_slot(slot)) return false;
    unsigned w = hold(slot, slab, c, &held);
    if (w == PART_WORDS) return false;
    /* While we hold a block the slab stays, and stays of class c unless another thread opens it. */
    fh_class_set(slot, FH_CLASS_SPECIAL);
    uint64_t borrowed = fh_state_make(FH_CLASS_BORROWED, blocks) | (uint64_t)c << FH_STATE_OWNER_SHIFT;
    state = fh_load(&slab->state);
    bool opened = false;
    while (fh_state_kind(state) == c && !opened) {
        /* acq_rel: the class byte before the state; and as for a bump. */
        opened = fh_cas_acq_rel(&slab->state, &state, borrowed);
    }
    if (opened) {
        FH_ASSERT(fh_state_bump(state) >= 1 && fh_state_bump(state) <= blocks);
        free_fresh(slab, fh_state_bump(state), blocks);
        fh_hint_clear(c, 0, slot); /* no check after it: of class c it has nothing any more */
        if (!fh_load(&any)) fh_store(&any, 1);
    }
    fh_slab_put_back(slot, w, held);
    return opened;
}

/* ── Taking ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What is wanted: guests of one class, in slabs of one owner. */
typedef struct {
    unsigned owner, parts;
    size_t part_size;
} fit;

/* True if blocks of class c may be in slabs of that owner: rounding costs a quarter at most. */
static bool fits(unsigned c, unsigned owner, fit *f) {
    size_t size = fh_class_size(c), part = fh_class_size(owner);
    f->owner = owner;
    f->part_size = part;
    f->parts = (unsigned)((size + part - 1) / part);
    return f->parts <= MOST_PARTS && fh_guest_fits(size, f->parts * part);
}

/* Chooses up to `want` runs of free parts in a word. Returns all their parts, and in *heads the first of each. */
static uint64_t choose(const fit *f, uint64_t bits, unsigned want, uint64_t *heads) {
    FH_ASSERT(f->parts >= 1 && f->parts <= MOST_PARTS);
    uint64_t starts = fh_run_starts(bits, f->parts), parts = 0;
    *heads = 0;
    while (starts && want) {
        unsigned i = fh_lowest_bit(starts);
        *heads |= UINT64_C(1) << i;
        parts |= fh_run_mask(i, f->parts);
        starts &= ~fh_low_mask(i + f->parts);
        want--;
    }
    FH_ASSERT((parts & ~bits) == 0 && (*heads & ~parts) == 0);
    FH_ASSERT(fh_count_bits(parts) == f->parts * fh_count_bits(*heads));
    return parts;
}

/* Takes out of one slab. */
static unsigned take_in(size_t slot, const fit *f, uint64_t state, unsigned want, void **out) {
    fh_slab *slab = fh_slab_at(slot);
    char *start = fh_slot_address(slot);
    unsigned got = 0;
    FH_ASSERT(want >= 1 && fh_state_bump(state) <= 64 * PART_WORDS);
    for (unsigned w = 0; w * 64 < fh_state_bump(state) && got < want; w++) {
        uint64_t bits = fh_load(&slab->free[w]), heads, parts;
        while ((parts = choose(f, bits, want - got, &heads)) != 0) {
            /* acquire: pairs with the release of the thread that gave the parts. It brings the program's last use of
             * them, and that their joined bits are clear. */
            if (!fh_cas_acquire(&slab->free[w], &bits, bits & ~parts)) continue;
            if (got == 0 && fh_load(&slab->state) != state) {
                fh_slab_put_back(slot, w, parts);
                return 0;
            }
            /* Relaxed: the thread that frees one of them has its address from us. */
            if (parts != heads) {
                uint64_t before = fh_or_relaxed(joined_word(slab, w), parts & ~heads);
                FH_ASSERT((before & parts) == 0); /* of free parts none is joined */
            }
            for (; heads; heads &= heads - 1) out[got++] = start + (64 * w + fh_lowest_bit(heads)) * f->part_size;
            break;
        }
    }
    return got;
}

/* Where each class continues its search: a slot, or NOWHERE when it has come to the end. And how many rounds over the cold
 * classes there had been when it last began from the first slot. Hints: all relaxed. */
#define NOWHERE (~UINT64_C(0))
static fh_word place[FH_SMALL_LAST + 1], begun[FH_SMALL_LAST + 1];

unsigned fh_holes_take(unsigned c, unsigned want, void **out) {
    if (FH_LIKELY(!fh_load(&any)) || c > FH_SMALL_LAST) return 0;
    uint64_t from = fh_load(&place[c]), rounds = fh_load(&fh_order.cold_rounds);
    if (from == NOWHERE) {
        /* Not before the next round, by which time a share of the heap was given, and perhaps more was opened. */
        if (fh_load(&begun[c]) == rounds) return 0;
        fh_store(&begun[c], rounds);
        from = 0;
    }
    /* What is in holes may have no memory yet. */
    fh_event_may_touch(want * fh_class_size(c));
    unsigned got = 0;
    for (unsigned slabs = 0;; slabs++) {
        size_t slot = fh_hint_next(FH_CLASS_BORROWED, from);
        if (slot == FH_NONE) {
            fh_store(&place[c], NOWHERE);
            break;
        }
        uint64_t state = fh_load_acquire(&fh_slab_at(slot)->state);
        fit f;
        if (fh_state_kind(state) == FH_CLASS_BORROWED && fits(c, fh_state_class(state), &f)) {
            got += take_in(slot, &f, state, want - got, out + got);
        }
        FH_ASSERT(got <= want);
        if (got == want || slabs == FH_HOLES_SLABS) {
            fh_store(&place[c], slot);
            break;
        }
        from = slot + 1;
    }
    if (got) fh_event_demand(FH_CLASS_BORROWED);
    return got;
}

/* ── Giving ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* True if a slab is a borrowed one, or is just becoming one: between the two writes of fh_holes_open its class byte is 0 and
 * its state says owner still. Its blocks are special to free by then, which is why a free has come here. The free has read
 * that byte as 0 before, and no thread sets it while a block of the slab is out. */
static bool is_borrowed(size_t slot, uint64_t state) {
    unsigned c = fh_state_kind(state);
    if (c == FH_CLASS_BORROWED) return true;
    if (c < FH_OWNER_FIRST || c > FH_OWNER_LAST || fh_byte_load(fh_class_byte(slot)) != FH_CLASS_SPECIAL) return false;
    return !fh_partition_of_slot(slot); /* there no slab has a class byte, and none is opened */
}

/* The part that p is in, and its slab's state; false if it is no borrowed slab. The caller's block keeps the slab. */
static bool find(const void *p, fh_slab **slab, unsigned *part, uint64_t *state) {
    if (!fh_in_window(p)) return false;
    size_t slot = fh_slot_of(p);
    if (slot / FH_CHUNK_SLOTS >= fh_window_chunks()) return false;
    *slab = fh_slab_at(slot);
    *state = fh_load_acquire(&(*slab)->state);
    if (!is_borrowed(slot, *state)) return false;
    *part = fh_block_index(fh_state_class(*state), (size_t)((const char *)p - fh_slot_address(slot)));
    return *part < fh_state_bump(*state);
}

bool fh_holes_has(const void *p) {
    fh_slab *slab;
    unsigned i;
    uint64_t state;
    return find(p, &slab, &i, &state);
}

bool fh_holes_is_joined(const fh_slab *slab, unsigned i) {
    return fh_load(&slab->free[PART_WORDS + i / 64]) >> i % 64 & 1;
}

/* Parts of the block that begins with part `first` of a word with these joined bits. */
static unsigned parts_from(uint64_t joined, unsigned first) {
    return first == 63 ? 1 : 1 + fh_lowest_bit(~(joined >> (first + 1)));
}

unsigned fh_holes_parts(const fh_slab *slab, unsigned i) {
    return parts_from(fh_load(&slab->free[PART_WORDS + i / 64]), i % 64);
}

unsigned fh_holes_joined(const fh_slab *slab, unsigned parts) {
    unsigned joined = 0;
    for (unsigned w = 0; w * 64 < parts; w++) joined += fh_count_bits(fh_load(&slab->free[PART_WORDS + w]));
    return joined;
}

void *fh_holes_block_of(const void *p, size_t *bytes) {
    fh_slab *slab;
    unsigned i;
    uint64_t state;
    if (!find(p, &slab, &i, &state) || fh_load(&slab->free[i / 64]) >> i % 64 & 1) return NULL;
    while (fh_holes_is_joined(slab, i)) {
        FH_ASSERT(i % 64 != 0); /* a guest lies in one word */
        i--;
    }
    size_t part = fh_class_size(fh_state_class(state));
    *bytes = fh_holes_parts(slab, i) * part;
    return fh_slot_address(fh_slot_of(p)) + i * part;
}

/* A block that is free, or that does not begin at p. */
__attribute__((noinline)) static void report(const char *call, const void *p) {
    size_t bytes = 0;
    const void *begin = fh_holes_block_of(p, &bytes);
    bool inside = begin && begin != p;
    fh_report_fault(inside ? FH_FAULT_INSIDE : FH_FAULT_DOUBLE_FREE, call, p, (size_t)begin, bytes);
}

bool fh_holes_give(const char *call, void *p) {
    fh_slab *slab;
    unsigned i;
    uint64_t state;
    if (!find(p, &slab, &i, &state)) return false;
    size_t slot = fh_slot_of(p), part = fh_class_size(fh_state_class(state));
    unsigned w = i / 64, first = i % 64;
    uint64_t joined = fh_load(joined_word(slab, w)), wrong = (fh_load(&slab->free[w]) | joined) >> first & 1;
    if (FH_UNLIKELY(wrong || fh_slot_address(slot) + i * part != p)) {
        report(call, p);
        return true;
    }
    unsigned parts = parts_from(joined, first);
    /* Relaxed: the release below publishes it, and until then no other thread reads the bits of our parts. */
    FH_ASSERT(parts <= MOST_PARTS && first + parts <= 64);
    if (parts > 1) fh_and_relaxed(joined_word(slab, w), ~fh_run_mask(first + 1, parts - 1));
    uint64_t mask = fh_run_mask(first, parts);
    /* release: the program's last use of the block, and the above, before another thread takes a part. */
    uint64_t before = fh_or_release(&slab->free[w], mask);
    if (FH_UNLIKELY(before & mask)) fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, parts * part);
    fh_fence_after_rmw();
    bool full = (before | mask) == ~UINT64_C(0) || (w + 1) * 64 > fh_state_bump(state);
    fh_slab_given(slab, slot, FH_CLASS_BORROWED, 1, full);
    fh_event_given(FH_CLASS_BORROWED, parts * part);
    return true;
}
