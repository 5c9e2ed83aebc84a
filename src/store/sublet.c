#include "store/sublet.h"

#include "base/classes.h"
#include "store/idle.h"
#include "store/limit.h"
#include "store/hints.h"
#include "store/policy.h"
#include "store/slab.h"
#include "store/window.h"
#include "system/report.h"

#define UNIT_WORDS (FH_SLAB_WORDS / 2)

static fh_word *joined_word(fh_slab *slab, unsigned w) {
    return &slab->free[UNIT_WORDS + w];
}

/* ── Opening ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* 1 once a slab has been let. */
static fh_word any;

/* Blocks that were never handed out are free units from now on. */
static void free_fresh(fh_slab *slab, unsigned bump, unsigned blocks) {
    for (unsigned w = bump / 64; w * 64 < blocks; w++) {
        uint64_t fresh = fh_low_mask(blocks - 64 * w) & ~(w == bump / 64 ? fh_low_mask(bump % 64) : 0);
        fh_or_release(&slab->free[w], fresh);
    }
}

/* Claims one free block of a slab, so that it can become nothing else: its word, or UNIT_WORDS if there is none. */
static unsigned hold(size_t slot, fh_slab *slab, unsigned c, uint64_t *held) {
    for (unsigned w = 0; w < UNIT_WORDS; w++) {
        uint64_t bits = fh_load(&slab->free[w]);
        while (bits) {
            *held = bits & -bits;
            /* acquire: as whoever takes a block. */
            if (!fh_cas_acquire(&slab->free[w], &bits, bits & ~*held)) continue;
            if (fh_state_kind(fh_load(&slab->state)) == c) return w;
            fh_slab_put_back(slot, w, *held);
            return UNIT_WORDS;
        }
    }
    return UNIT_WORDS;
}

bool fh_sublet_open(size_t slot, unsigned c) {
    fh_slab *slab = fh_slab_at(slot);
    uint64_t held, state = fh_load_acquire(&slab->state);
    unsigned blocks = fh_class_table[c].blocks;
    if (fh_state_kind(state) != c) return false;
    unsigned w = hold(slot, slab, c, &held);
    if (w == UNIT_WORDS) return false;
    /* While we hold a block the slab stays, and stays of class c unless somebody else opens it. */
    fh_class_set(slot, FH_CLASS_SPECIAL);
    uint64_t sublet = fh_state_make(FH_CLASS_SUBLET, blocks, 0) | (uint64_t)c << FH_STATE_HOST_SHIFT;
    state = fh_load(&slab->state);
    bool opened = false;
    while (fh_state_kind(state) == c && !opened) {
        /* acq_rel: the class byte before the state; and as whoever bumps. */
        opened = fh_cas_acq_rel(&slab->state, &state, sublet);
    }
    if (opened) {
        free_fresh(slab, fh_state_bump(state), blocks);
        fh_hint_clear(c, 0, slot); /* no second look: of class c it has nothing any more, for good */
        if (!fh_load(&any)) fh_store(&any, 1);
    }
    fh_slab_put_back(slot, w, held);
    return opened;
}

/* ── Taking ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What is wanted: lodgers of one class, in slabs of one host. */
typedef struct {
    unsigned host, units;
    size_t unit_size;
} fit;

/* True if blocks of class c may lie in slabs of that host: rounding costs a quarter at most. */
static bool fits(unsigned c, unsigned host, fit *f) {
    size_t size = fh_class_size(c), unit = fh_class_size(host);
    f->host = host;
    f->unit_size = unit;
    f->units = (unsigned)((size + unit - 1) / unit);
    return f->units <= FH_LODGER_UNITS && fh_lodger_fits(size, f->units * unit);
}

/* Chooses up to `want` runs of free units in a word. Returns all their units, and in *heads the first of each. */
static uint64_t choose(const fit *f, uint64_t bits, unsigned want, uint64_t *heads) {
    uint64_t starts = fh_run_starts(bits, f->units), units = 0;
    *heads = 0;
    while (starts && want) {
        unsigned i = fh_lowest_bit(starts);
        *heads |= UINT64_C(1) << i;
        units |= fh_run_mask(i, f->units);
        starts &= ~fh_low_mask(i + f->units);
        want--;
    }
    return units;
}

/* Takes out of one slab. */
static unsigned take_in(size_t slot, const fit *f, uint64_t state, unsigned want, void **out) {
    fh_slab *slab = fh_slab_at(slot);
    char *start = fh_slot_address(slot);
    unsigned got = 0;
    for (unsigned w = 0; w * 64 < fh_state_bump(state) && got < want; w++) {
        uint64_t bits = fh_load(&slab->free[w]), heads, units;
        while ((units = choose(f, bits, want - got, &heads)) != 0) {
            /* acquire: pairs with the release of whoever gave the units: the program's last use of them, and that their
             * joined bits are clear. */
            if (!fh_cas_acquire(&slab->free[w], &bits, bits & ~units)) continue;
            if (got == 0 && fh_load(&slab->state) != state) {
                fh_slab_put_back(slot, w, units);
                return 0;
            }
            /* Relaxed: whoever frees one of them has its address from us. */
            if (units != heads) fh_or_relaxed(joined_word(slab, w), units & ~heads);
            for (; heads; heads &= heads - 1) out[got++] = start + (64 * w + fh_lowest_bit(heads)) * f->unit_size;
            break;
        }
    }
    return got;
}

/* Where each class goes on looking: a slot, or NOWHERE when it has come to the end; and how many looks at idle classes there
 * had been when it began from the beginning. Hints: all relaxed. */
#define NOWHERE (~UINT64_C(0))
#define SLABS_A_CALL 512u /* looked at: some 30 µs, and no more in a heap of any size */
static fh_word place[FH_SMALL_LAST + 1], begun[FH_SMALL_LAST + 1];

unsigned fh_sublet_take(unsigned c, unsigned want, void **out) {
    if (FH_LIKELY(!fh_load(&any)) || c > FH_SMALL_LAST) return 0;
    uint64_t from = fh_load(&place[c]), looks = fh_load(&fh_idle_looks);
    if (from == NOWHERE) {
        /* Not before the next look, by which time a share of the heap has been given back, and perhaps more been let. */
        if (fh_load(&begun[c]) == looks) return 0;
        fh_store(&begun[c], looks);
        from = 0;
    }
    if (FH_UNLIKELY(fh_load(&fh_limit_grouped))) {
        /* What lies in holes may have no memory yet, and the group has to be looked at as where slabs are claimed. */
        fh_limit_count(want * fh_class_size(c));
        fh_limit_grown();
    }
    unsigned got = 0;
    for (unsigned slabs = 0;; slabs++) {
        size_t slot = fh_hint_next(FH_CLASS_SUBLET, from);
        if (slot == FH_NONE) {
            fh_store(&place[c], NOWHERE);
            break;
        }
        uint64_t state = fh_load_acquire(&fh_slab_at(slot)->state);
        fit f;
        if (fh_state_kind(state) == FH_CLASS_SUBLET && fits(c, fh_state_class(state), &f)) {
            got += take_in(slot, &f, state, want - got, out + got);
        }
        if (got == want || slabs == SLABS_A_CALL) {
            fh_store(&place[c], slot);
            break;
        }
        from = slot + 1;
    }
    if (got) fh_idle_wanted(FH_CLASS_SUBLET);
    return got;
}

/* ── Giving ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* True if a slab is a sublet one, or is just becoming one: between the two writes of fh_sublet_open its class byte is 0 and
 * its state says host still. Its blocks are special to free by then, and whoever frees one has come here because of it. Who
 * reads that byte read it 0 before, and nobody sets it while a block of the slab is out. */
static bool is_let(size_t slot, uint64_t state) {
    unsigned c = fh_state_kind(state);
    if (c == FH_CLASS_SUBLET) return true;
    return c >= FH_HOST_FIRST && c <= FH_HOST_LAST && fh_byte_load(fh_class_byte(slot)) == FH_CLASS_SPECIAL;
}

/* The unit that p lies in, and its slab's state; false if it is no sublet slab. The caller's block keeps the slab. */
static bool find(const void *p, fh_slab **slab, unsigned *unit, uint64_t *state) {
    if (!fh_in_window(p)) return false;
    size_t slot = fh_slot_of(p);
    if (slot / FH_CHUNK_SLOTS >= fh_window_chunks()) return false;
    *slab = fh_slab_at(slot);
    *state = fh_load_acquire(&(*slab)->state);
    if (!is_let(slot, *state)) return false;
    *unit = fh_block_index(fh_state_class(*state), (size_t)((const char *)p - fh_slot_address(slot)));
    return *unit < fh_state_bump(*state);
}

bool fh_sublet_is_joined(const fh_slab *slab, unsigned i) {
    return fh_load(&slab->free[UNIT_WORDS + i / 64]) >> i % 64 & 1;
}

unsigned fh_sublet_units(const fh_slab *slab, unsigned i) {
    uint64_t joined = fh_load(&slab->free[UNIT_WORDS + i / 64]);
    return i % 64 == 63 ? 1 : 1 + fh_lowest_bit(~(joined >> (i % 64 + 1)));
}

unsigned fh_sublet_joined(const fh_slab *slab, unsigned units) {
    unsigned joined = 0;
    for (unsigned w = 0; w * 64 < units; w++) joined += fh_count_bits(fh_load(&slab->free[UNIT_WORDS + w]));
    return joined;
}

void *fh_sublet_block_of(const void *p, size_t *bytes) {
    fh_slab *slab;
    unsigned i;
    uint64_t state;
    if (!find(p, &slab, &i, &state) || fh_load(&slab->free[i / 64]) >> i % 64 & 1) return NULL;
    while (fh_sublet_is_joined(slab, i)) i--; /* never at bit 0 of a word, as a lodger lies in one */
    size_t unit = fh_class_size(fh_state_class(state));
    *bytes = fh_sublet_units(slab, i) * unit;
    return fh_slot_address(fh_slot_of(p)) + i * unit;
}

bool fh_sublet_give(const char *call, void *p) {
    fh_slab *slab;
    unsigned i;
    uint64_t state;
    if (!find(p, &slab, &i, &state)) return false;
    size_t slot = fh_slot_of(p), bytes = 0;
    void *begin = fh_sublet_block_of(p, &bytes);
    if (FH_UNLIKELY(begin != p)) {
        fh_report_fault(begin ? FH_FAULT_INSIDE : FH_FAULT_DOUBLE_FREE, call, p, (size_t)begin, bytes);
        return true;
    }
    unsigned w = i / 64, units = fh_sublet_units(slab, i);
    /* Relaxed: the release below publishes it, and until then nobody else looks at the bits of our units. */
    if (units > 1) fh_and_relaxed(joined_word(slab, w), ~fh_run_mask(i % 64 + 1, units - 1));
    uint64_t mask = fh_run_mask(i % 64, units);
    /* release: the program's last use of the block, and the above, before anybody takes a unit. */
    uint64_t before = fh_or_release(&slab->free[w], mask);
    if (FH_UNLIKELY(before & mask)) fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, bytes);
    fh_fence_after_rmw();
    bool full = (before | mask) == ~UINT64_C(0) || (w + 1) * 64 > fh_state_bump(state);
    fh_slab_given(slot, FH_CLASS_SUBLET, full);
    fh_idle_given(FH_CLASS_SUBLET, bytes);
    return true;
}
