#include "store/slab.h"

#include "base/classes.h"
#include "store/marks.h"
#include "store/run.h"
#include "store/window.h"
#include "system/report.h"
#include "system/system.h"

/* Words that hold bits of blocks below `bump`. */
static unsigned words_of(unsigned bump) {
    return (bump + 63) / 64;
}

/* The bits of word w when all blocks below `bump` are free. */
static uint64_t full_word(unsigned bump, unsigned w) {
    return fh_low_mask(bump - 64 * w < 64 ? bump - 64 * w : 64);
}

static size_t head_of(unsigned c, size_t slot) {
    return slot & ~(size_t)(fh_class_table[c].slots - 1);
}

static bool all_free(const fh_slab *slab, unsigned bump) {
    for (unsigned w = 0; w < words_of(bump); w++) {
        if (fh_load_acquire(&slab->free[w]) != full_word(bump, w)) return false;
    }
    return true;
}

static bool any_free(const fh_slab *slab, unsigned bump) {
    for (unsigned w = 0; w < words_of(bump); w++) {
        if (fh_load_acquire(&slab->free[w])) return true;
    }
    return false;
}

/* ── Release ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Claims all words of a slab that was seen all free, then its state. False: somebody took a block or bumped meanwhile;
 * everything is as it was, and the caller looks again. */
static bool try_release(size_t slot, fh_slab *slab, unsigned c, unsigned bump) {
    unsigned words = words_of(bump), w = 0;
    for (; w < words; w++) {
        uint64_t full = full_word(bump, w);
        /* acquire: all uses of the blocks before the slab becomes something else. Ascending: of two releasers only one
         * gets word 0. */
        if (!fh_cas_acquire(&slab->free[w], &full, 0)) break;
    }
    if (w == words) {
        /* All blocks are ours, so nobody is between adding to the count and setting bits: only a bump can interfere. */
        uint64_t state = fh_load(&slab->state);
        while (fh_state_kind(state) == c && fh_state_bump(state) == bump) {
            if (!fh_cas_acq_rel(&slab->state, &state, 0)) continue;
            unsigned slots = fh_class_table[c].slots;
            if (c <= FH_SMALL_LAST) {
                for (unsigned i = 0; i < slots; i++) *fh_class_byte(slot + i) = 0;
            }
            fh_mark_clear(c, 0, slot); /* no second look: the slot is ours, and has nothing */
            fh_run_release(slot, slots);
            return true;
        }
    }
    for (unsigned i = 0; i < w; i++) fh_or_release(&slab->free[i], full_word(bump, i));
    fh_fence_after_rmw();
    return false;
}

/* Looks at a slab in which this thread has just set bits (a full barrier ago) and of which it holds nothing any more:
 * the slab may be of another class by now, or none. Releases it if it is all free and the class has others, or marks it. */
static void look(size_t slot, bool release_last) {
    fh_slab *slab = fh_slab_at(slot);
    for (;;) {
        uint64_t state = fh_load_acquire(&slab->state);
        unsigned c = fh_state_kind(state), bump = fh_state_bump(state), count = fh_state_count(state);
        if (c >= FH_CLASSES) return; /* free, or a run */
        bool empty = count >= bump && all_free(slab, bump);
        if (!empty && count < fh_class_table[c].mark_at) return;
        fh_mark_set(c, 0, slot);
        if (!empty || (!release_last && !fh_mark_other(c, slot))) return;
        if (try_release(slot, slab, c, bump)) return;
    }
}

/* ── Take ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Writes the addresses of the blocks whose bits are set. */
static unsigned emit(unsigned c, char *start, unsigned w, uint64_t bits, void **out) {
    size_t size = fh_class_size(c);
    char *first = start + (size_t)w * 64 * size;
    unsigned n = 0;
    for (; bits; bits &= bits - 1) out[n++] = first + fh_lowest_bit(bits) * size;
    return n;
}

/* Claims up to `want` free blocks: up to 64 in one instruction. Gets nothing from a slab that is not of class c. */
static unsigned take_bits(size_t slot, fh_slab *slab, unsigned c, unsigned bump, unsigned want, void **out) {
    char *start = fh_slot_address(slot);
    unsigned got = 0;
    for (unsigned w = 0; w < words_of(bump) && got < want; w++) {
        uint64_t bits = fh_load(&slab->free[w]);
        while (bits) {
            uint64_t claim = fh_lowest_bits(bits, want - got);
            /* acquire: pairs with the release of whoever freed the blocks. */
            if (!fh_cas_acquire(&slab->free[w], &bits, bits & ~claim)) continue;
            if (got == 0 && fh_state_kind(fh_load(&slab->state)) != c) {
                /* A stale mark led us here. Put the bits back; nothing was counted. */
                fh_or_release(&slab->free[w], claim);
                fh_fence_after_rmw();
                look(slot, false);
                return 0;
            }
            got += emit(c, start, w, claim, out + got);
            break;
        }
    }
    if (got) fh_sub_relaxed(&slab->state, got); /* relaxed: we hold blocks, so the slab stays what it is */
    return got;
}

/* Blocks that were never handed out: moves bump. */
static unsigned take_fresh(size_t slot, fh_slab *slab, unsigned c, unsigned want, void **out) {
    unsigned blocks = fh_class_table[c].blocks;
    size_t size = fh_class_size(c);
    uint64_t state = fh_load(&slab->state);
    for (;;) {
        unsigned bump = fh_state_bump(state);
        if (fh_state_kind(state) != c || bump >= blocks) return 0;
        unsigned n = blocks - bump < want ? blocks - bump : want;
        /* acquire: the making of the slab. A state that went away and came back is as good: same class, same bump. */
        if (!fh_cas_acquire(&slab->state, &state, state + ((uint64_t)n << FH_STATE_BUMP_SHIFT))) continue;
        char *p = fh_slot_address(slot) + bump * size;
        for (unsigned i = 0; i < n; i++, p += size) out[i] = p;
        return n;
    }
}

/* The slab had less than was wanted: its mark goes, unless there is something after all. */
static void unmark(size_t slot, fh_slab *slab, unsigned c) {
    fh_mark_clear(c, 0, slot);
    uint64_t state = fh_load_acquire(&slab->state);
    if (fh_state_kind(state) != c) return;
    unsigned bump = fh_state_bump(state);
    if (bump < fh_class_table[c].blocks || any_free(slab, bump)) fh_mark_set(c, 0, slot);
}

/* A new slab; its first blocks go to the caller before anybody else sees it. */
static unsigned take_new(unsigned c, unsigned want, void **out) {
    const fh_class_info *info = &fh_class_table[c];
    bool clean;
    size_t slot = fh_run_claim(info->slots, info->slots, &clean);
    if (slot == FH_NONE) return 0;
    fh_slab *slab = fh_slab_at(slot);
    unsigned n = want < info->blocks ? want : info->blocks;
    char *p = fh_slot_address(slot);
    for (unsigned i = 0; i < n; i++, p += info->size) out[i] = p;
    if (c <= FH_SMALL_LAST) {
        for (unsigned i = 0; i < info->slots; i++) *fh_class_byte(slot + i) = (uint8_t)c;
    }
    /* release: whoever sees the class sees words of 0 (they are 0 in every free slot). */
    fh_store_release(&slab->state, fh_state_make(c, n, clean ? FH_STATE_CLEAN : 0));
    if (n < info->blocks) fh_mark_set(c, 0, slot);
    return n;
}

/* Where those near one processor took their last blocks of a class: slot + 1. A hint, and the means by which threads that
 * run at the same time keep out of each other's slabs: without it, two threads that make and drop 16-byte blocks are
 * 2.2 × slower, as they meet in every word. */
static fh_word current[FH_SHARDS][FH_CLASSES];

/* A slab of class c to take from, FH_NONE if a new one is better. */
static size_t find_slab(unsigned c, unsigned shard) {
    uint64_t mine = fh_load(&current[shard][c]);
    if (mine && fh_state_kind(fh_load(&fh_slab_at(mine - 1)->state)) == c) return mine - 1;
    size_t others[FH_SHARDS];
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        others[i] = i == shard ? FH_NONE : (size_t)fh_load(&current[i][c]) - 1; /* 0 − 1 is FH_NONE */
    }
    return fh_mark_find_apart(c, others, FH_SHARDS);
}

unsigned fh_slab_take(unsigned c, unsigned want, void **out) {
    unsigned got = 0, shard = fh_system_near() % FH_SHARDS;
    while (got < want) {
        size_t slot = find_slab(c, shard);
        if (slot == FH_NONE) {
            unsigned n = take_new(c, want - got, out + got);
            if (n == 0) break;
            fh_store(&current[shard][c], fh_slot_of(out[got]) + 1);
            got += n;
            continue;
        }
        fh_slab *slab = fh_slab_at(slot);
        uint64_t state = fh_load_acquire(&slab->state);
        unsigned n = 0;
        if (fh_state_kind(state) == c) {
            n = take_bits(slot, slab, c, fh_state_bump(state), want - got, out + got);
            if (got + n < want) n += take_fresh(slot, slab, c, want - got - n, out + got + n);
        }
        got += n;
        if (got < want) unmark(slot, slab, c);
        fh_store(&current[shard][c], got < want ? 0 : slot + 1);
    }
    return got;
}

/* ── Give ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A batch is sorted into words and slabs by two small hash tables on the stack, so that each word costs one fetch_or and
 * each slab one fetch_add, however the blocks are strewn. Entry 0 of the index tables means "none". Blocks that were
 * freed together often lie together, so the word of the block before is kept at hand (slot … bits) and goes to the table
 * only when another one comes. */
#define BATCH 64u
#define TABLE 128u

typedef struct {
    size_t slot;
    unsigned word;
    uint64_t bits;
} word_entry;

typedef struct {
    size_t slot;
    unsigned count;
} slab_entry;

typedef struct {
    unsigned words, slabs;
    size_t slot;    /* the slab at hand, */
    char *start;    /*   where it begins, */
    unsigned bump;  /*   and how many of its blocks there are */
    unsigned word;  /* the word at hand */
    uint64_t bits;  /*   and its blocks in this batch */
    word_entry word_of[BATCH];
    slab_entry slab_of[BATCH];
    uint8_t word_index[TABLE], slab_index[TABLE];
} sorter;

static unsigned hash(uint64_t key) {
    return (unsigned)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 57); /* 7 bits: TABLE */
}

static slab_entry *slab_entry_of(sorter *s, size_t slot) {
    unsigned h = hash(slot);
    for (; s->slab_index[h]; h = (h + 1) % TABLE) {
        slab_entry *e = &s->slab_of[s->slab_index[h] - 1];
        if (e->slot == slot) return e;
    }
    slab_entry *e = &s->slab_of[s->slabs++];
    s->slab_index[h] = (uint8_t)s->slabs;
    *e = (slab_entry){.slot = slot};
    return e;
}

static word_entry *word_entry_of(sorter *s, size_t slot, unsigned word) {
    unsigned h = hash(slot * FH_SLAB_WORDS + word);
    for (; s->word_index[h]; h = (h + 1) % TABLE) {
        word_entry *e = &s->word_of[s->word_index[h] - 1];
        if (e->slot == slot && e->word == word) return e;
    }
    word_entry *e = &s->word_of[s->words++];
    s->word_index[h] = (uint8_t)s->words;
    *e = (word_entry){.slot = slot, .word = word};
    return e;
}

static void report_blocks(fh_fault fault, unsigned c, size_t slot, unsigned word, uint64_t bits) {
    for (; bits; bits &= bits - 1) {
        size_t i = word * 64 + fh_lowest_bit(bits);
        fh_report_fault(fault, NULL, fh_slot_address(slot) + i * fh_class_size(c), 0, fh_class_size(c));
    }
}

/* Puts the word at hand into the table. */
static void put_away(sorter *s, unsigned c) {
    if (!s->bits) return;
    word_entry *e = word_entry_of(s, s->slot, s->word);
    uint64_t twice = e->bits & s->bits, fresh = s->bits & ~twice;
    e->bits |= fresh;
    if (fresh) slab_entry_of(s, s->slot)->count += fh_count_bits(fresh);
    s->bits = 0;
    if (FH_UNLIKELY(twice)) report_blocks(FH_FAULT_DOUBLE_FREE, c, s->slot, s->word, twice);
}

/* Makes the slab that p points into the one at hand. False: it is no slab of class c any more. */
static bool enter_slab(sorter *s, unsigned c, const void *p) {
    size_t slot = head_of(c, fh_slot_of(p));
    uint64_t state = fh_load(&fh_slab_at(slot)->state);
    if (FH_UNLIKELY(fh_state_kind(state) != c)) return false;
    s->slot = slot;
    s->start = fh_slot_address(slot);
    s->bump = fh_state_bump(state);
    return true;
}

/* Checks the pointers and sorts them. The caller holds them, as far as they are blocks. */
static void sort(sorter *s, unsigned c, unsigned n, void **blocks) {
    const fh_class_info *info = &fh_class_table[c];
    size_t size = info->size, bytes = info->slots * FH_SLOT_SIZE;
    for (unsigned k = 0; k < n; k++) {
        char *p = blocks[k];
        size_t offset = (uintptr_t)p - (uintptr_t)s->start;
        if (offset >= bytes) {
            put_away(s, c);
            if (FH_UNLIKELY(!enter_slab(s, c, p))) {
                /* Everything in that slab was free, it went back, and now this block comes again. */
                fh_report_fault(FH_FAULT_DOUBLE_FREE, NULL, p, 0, size);
                continue;
            }
            offset = (size_t)(p - s->start);
        }
        unsigned i = (unsigned)((offset * info->reciprocal) >> 40);
        if (FH_UNLIKELY(i * size != offset || i >= s->bump)) {
            /* Inside of a block; or in a slab of ours, but never handed out. */
            fh_report_fault(i >= s->bump ? FH_FAULT_FOREIGN : FH_FAULT_INSIDE, NULL, p, (size_t)s->start + i * size, size);
            continue;
        }
        uint64_t bit = UINT64_C(1) << i % 64;
        if (i / 64 != s->word) {
            put_away(s, c);
            s->word = i / 64;
        } else if (FH_UNLIKELY(s->bits & bit)) {
            fh_report_fault(FH_FAULT_DOUBLE_FREE, NULL, p, 0, size);
        }
        s->bits |= bit;
    }
    put_away(s, c);
}

/* Bits that were set already: these blocks were free. Takes them out of the count again, as far as the slab is still
 * there, and reports them. A count that is off by them costs a look too many or an empty slab kept; never a block. */
static void report_free_already(unsigned c, const word_entry *word, uint64_t twice) {
    fh_slab *slab = fh_slab_at(word->slot);
    uint64_t state = fh_load(&slab->state);
    unsigned n = fh_count_bits(twice);
    while (fh_state_kind(state) == c && fh_state_count(state) >= n) {
        if (fh_cas_relaxed(&slab->state, &state, state - n)) break;
    }
    report_blocks(FH_FAULT_DOUBLE_FREE, c, word->slot, word->word, twice);
}

static void give_batch(unsigned c, unsigned n, void **blocks) {
    sorter s;
    s.words = s.slabs = s.word = s.bump = 0;
    s.bits = 0;
    s.slot = 0;
    s.start = NULL; /* no block lies within a slab's length of address 0 */
    for (unsigned i = 0; i < TABLE; i++) s.word_index[i] = s.slab_index[i] = 0;
    sort(&s, c, n, blocks);
    /* Counts first: from the last fetch_or on the slabs may be gone. Relaxed: we still hold blocks of each. */
    for (unsigned i = 0; i < s.slabs; i++) fh_add_relaxed(&fh_slab_at(s.slab_of[i].slot)->state, s.slab_of[i].count);
    for (unsigned i = 0; i < s.words; i++) {
        word_entry *word = &s.word_of[i];
        /* release: the program's last use of the blocks before anybody takes them. */
        uint64_t before = fh_or_release(&fh_slab_at(word->slot)->free[word->word], word->bits);
        if (FH_UNLIKELY(before & word->bits)) report_free_already(c, word, before & word->bits);
    }
    fh_fence_after_rmw();
    for (unsigned i = 0; i < s.slabs; i++) look(s.slab_of[i].slot, false);
}

void fh_slab_give(unsigned c, unsigned n, void **blocks) {
    for (unsigned done = 0; done < n; done += BATCH) {
        give_batch(c, n - done < BATCH ? n - done : BATCH, blocks + done);
    }
}

/* ── Questions ───────────────────────────────────────────────────────────────────────────────────────────────────── */

void *fh_slab_block_of(unsigned c, const void *p) {
    size_t slot = head_of(c, fh_slot_of(p)), size = fh_class_size(c);
    char *start = fh_slot_address(slot);
    unsigned i = fh_block_index(c, (size_t)((const char *)p - start));
    uint64_t state = fh_load_acquire(&fh_slab_at(slot)->state);
    return fh_state_kind(state) == c && i < fh_state_bump(state) ? start + i * size : NULL;
}

bool fh_slab_is_free(unsigned c, const void *p) {
    size_t slot = head_of(c, fh_slot_of(p));
    unsigned i = fh_block_index(c, (size_t)((const char *)p - fh_slot_address(slot)));
    return fh_load(&fh_slab_at(slot)->free[i / 64]) >> i % 64 & 1;
}

unsigned fh_slab_release_empty(unsigned c) {
    unsigned released = 0;
    for (size_t chunk = 0; chunk < fh_window_chunks(); chunk++) {
        for (uint64_t marks = fh_load_acquire(&fh_chunk_at(chunk)->mark[c]); marks; marks &= marks - 1) {
            size_t slot = chunk * FH_CHUNK_SLOTS + fh_lowest_bit(marks);
            look(slot, true);
            released += fh_state_kind(fh_load(&fh_slab_at(slot)->state)) != c;
        }
    }
    return released;
}
