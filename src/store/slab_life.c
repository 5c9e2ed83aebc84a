#include "store/slab_life.h"

#include "base/assert.h"
#include "store/gaps.h"
#include "store/run.h"
#include "store/window.h"

/* The bits of word w when all blocks below `bump` are free. */
static uint64_t full_word(unsigned bump, unsigned w) {
    FH_ASSERT(w < fh_slab_words(bump));
    return fh_low_mask(bump - 64 * w < 64 ? bump - 64 * w : 64);
}

static bool all_free(const fh_slab *slab, unsigned bump) {
    for (unsigned w = 0; w < fh_slab_words(bump); w++) {
        if (fh_load_acquire(&slab->free[w]) != full_word(bump, w)) return false;
    }
    return true;
}

static bool any_free(const fh_slab *slab, unsigned bump) {
    for (unsigned w = 0; w < fh_slab_words(bump); w++) {
        if (fh_load_acquire(&slab->free[w])) return true;
    }
    return false;
}

/* ── Release ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Claims all words of a slab that was seen all free, then its state. False: another thread took a block or bumped meanwhile.
 * Then everything is as it was, and the caller checks again. */
static bool try_release(size_t slot, fh_slab *slab, unsigned c, unsigned bump) {
    unsigned words = fh_slab_words(bump), w = 0;
    FH_ASSERT(bump >= 1 && words <= FH_SLAB_WORDS);
    for (; w < words; w++) {
        uint64_t full = full_word(bump, w);
        /* acquire: all uses of the blocks before the slab becomes something else. Ascending: of two releasers only one
         * gets word 0. */
        if (!fh_cas_acquire(&slab->free[w], &full, 0)) break;
    }
    if (w == words) {
        /* All blocks are ours, so no thread is adding to the count. Only a bump can interfere. */
        uint64_t state = fh_load(&slab->state);
        while (fh_state_kind(state) == c && fh_state_bump(state) == bump) {
            unsigned slots = fh_class_table[fh_state_class(state)].slots;
            if (!fh_cas_acq_rel(&slab->state, &state, 0)) continue;
            FH_ASSERT(fh_state_count(state) <= fh_class_table[c].hint_at && slots >= 1 && slot % slots == 0);
            if (c <= FH_SMALL_LAST) {
                for (unsigned i = 0; i < slots; i++) fh_class_set(slot + i, 0);
            }
            fh_hint_clear(c, 0, slot); /* no check after it: the slot is ours, and has nothing */
            size_t gap = fh_gap_slots(fh_partition_of_slot(slot), slots, c <= FH_SMALL_LAST);
            if (FH_UNLIKELY(gap)) fh_gap_release(slot + slots, gap);
            fh_run_release(slot, slots, true);
            return true;
        }
    }
    for (unsigned i = 0; i < w; i++) {
        uint64_t before = fh_or_release(&slab->free[i], full_word(bump, i));
        FH_ASSERT((before & full_word(bump, i)) == 0);
    }
    fh_fence_after_rmw();
    return false;
}

void fh_slab_settle(size_t slot, unsigned c, bool release_last) {
    fh_slab *slab = fh_slab_at(slot);
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_CLASSES && !fh_class_is_run(c));
    for (;;) {
        uint64_t state = fh_load_acquire(&slab->state);
        unsigned kind = fh_state_kind(state), bump = fh_state_bump(state);
        /* Its holes were opened since this thread saw it of its class and gave its last block. The thread that opened it
         * had checked before that block came, so this one checks. */
        if (kind == FH_CLASS_BORROWED) c = FH_CLASS_BORROWED;
        if (kind != c || !all_free(slab, bump)) return;
        fh_hint_set(c, 0, slot);
        if (!release_last && !fh_hint_other(c, slot)) return;
        if (try_release(slot, slab, c, bump)) return;
        /* While its words were ours, a thread that wanted blocks saw none here and cleared the hint. One that freed the
         * last block did not see it all free. Both are made up for, under the class that it is of by now. */
        c = fh_state_kind(fh_load_acquire(&slab->state));
        if (c >= FH_CLASSES) return;
        fh_hint_set(c, 0, slot);
    }
}

void fh_slab_count(fh_slab *slab, size_t slot, unsigned c, unsigned n) {
    uint64_t state = fh_load(&slab->state);
    FH_ASSERT(n >= 1 && c < FH_CLASSES);
    /* Relaxed, and only while it is a slab of this class: the count is a hint, and of a free slot it stays 0. Of a borrowed
     * slab nothing is counted: any hole will do. */
    while (fh_state_kind(state) == c) {
        unsigned count = fh_state_count(state) + n;
        FH_ASSERT(count <= FH_STATE_COUNT_MASK);
        if (count >= fh_class_table[c].hint_at) {
            fh_hint_set(c, 0, slot);
            break;
        }
        if (fh_cas_relaxed(&slab->state, &state, state + n)) break;
    }
}

/* A thread that freed the slab's last block while these were held did not see it all free. One that wanted its blocks did
 * not see these. */
void fh_slab_put_back(size_t slot, unsigned w, uint64_t bits) {
    fh_slab *slab = fh_slab_at(slot);
    /* release: what was done with the blocks, before another thread takes them. */
    uint64_t before = fh_or_release(&slab->free[w], bits);
    FH_ASSERT(bits != 0 && (before & bits) == 0);
    fh_fence_after_rmw();
    unsigned c = fh_state_kind(fh_load_acquire(&slab->state));
    if (c >= FH_CLASSES) return; /* free, or a run */
    fh_hint_set(c, 0, slot);
    fh_slab_settle(slot, c, false);
}

bool fh_slab_free_fresh(size_t slot, unsigned c) {
    fh_slab *slab = fh_slab_at(slot);
    unsigned blocks = fh_class_table[c].blocks, bump;
    uint64_t state = fh_load(&slab->state);
    do {
        bump = fh_state_bump(state);
        if (fh_state_kind(state) != c || bump >= blocks) return false;
        /* acquire: the making of the slab, as for who takes such blocks. */
    } while (!fh_cas_acquire(&slab->state, &state, state + ((uint64_t)(blocks - bump) << FH_STATE_BUMP_SHIFT)));
    /* The blocks are this thread's now. Meanwhile the slab may be opened; it cannot become anything else. */
    for (unsigned w = bump / 64; w < fh_slab_words(blocks); w++) {
        unsigned below = bump > 64 * w ? bump - 64 * w : 0;
        fh_slab_put_back(slot, w, full_word(blocks, w) & ~fh_low_mask(below));
    }
    return true;
}

/* The slab had less than was wanted: its hint is cleared, unless there is something after all. The count begins again
 * while the hint still keeps others from adding to it. */
void fh_slab_unhint(fh_slab *slab, size_t slot, unsigned c) {
    uint64_t state = fh_load(&slab->state);
    FH_ASSERT(slab == fh_slab_at(slot));
    while (fh_state_kind(state) == c && fh_state_count(state) != 0) {
        if (fh_cas_relaxed(&slab->state, &state, state & ~FH_STATE_COUNT_MASK)) break;
    }
    fh_hint_clear(c, 0, slot);
    state = fh_load_acquire(&slab->state);
    if (fh_state_kind(state) != c) return;
    unsigned bump = fh_state_bump(state);
    if (bump < fh_class_table[c].blocks || any_free(slab, bump)) fh_hint_set(c, 0, slot);
}

/* ── Questions ───────────────────────────────────────────────────────────────────────────────────────────────────── */

void *fh_slab_block_of(unsigned c, const void *p) {
    size_t slot = fh_slab_head(c, fh_slot_of(p)), size = fh_class_size(c);
    char *start = fh_slot_address(slot);
    unsigned i = fh_block_index(c, (size_t)((const char *)p - start));
    uint64_t state = fh_load_acquire(&fh_slab_at(slot)->state);
    /* The class and not the kind: the slab may just be being opened. */
    return fh_state_class(state) == c && i < fh_state_bump(state) ? start + i * size : NULL;
}

bool fh_slab_is_free(unsigned c, const void *p) {
    size_t slot = fh_slab_head(c, fh_slot_of(p));
    unsigned i = fh_block_index(c, (size_t)((const char *)p - fh_slot_address(slot)));
    return fh_load(&fh_slab_at(slot)->free[i / 64]) >> i % 64 & 1;
}

unsigned fh_slab_release_empty(unsigned c) {
    unsigned released = 0;
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_CLASSES && !fh_class_is_run(c));
    for (size_t slot = 0; (slot = fh_hint_next(c, slot)) != FH_NONE; slot++) {
        fh_slab_settle(slot, c, true);
        released += fh_state_kind(fh_load(&fh_slab_at(slot)->state)) != c;
    }
    return released;
}
