#include "store/slab.h"

#include "base/assert.h"
#include "base/classes.h"
#include "base/hooks.h"
#include "store/run.h"
#include "store/events.h"
#include "store/gaps.h"
#include "store/hints.h"
#include "store/holes.h"
#include "store/random.h"
#include "store/sampled.h"
#include "store/slab_life.h"
#include "store/thp.h"
#include "store/window.h"
#include "system/report.h"
#include "system/system.h"

/* ── Take ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Writes the addresses of the blocks whose bits are set. */
static unsigned emit(unsigned c, char *start, unsigned w, uint64_t bits, void **out) {
    size_t size = fh_class_size(c);
    char *first = start + (size_t)w * 64 * size;
    FH_ASSERT(bits != 0 && w < FH_SLAB_WORDS);
    unsigned n = 0;
    for (; bits; bits &= bits - 1) out[n++] = first + fh_lowest_bit(bits) * size;
    return n;
}

/* Claims up to `want` free blocks: up to 64 in one instruction. Gets nothing from a slab that is not of class c. */
static unsigned take_bits(size_t slot, fh_slab *slab, unsigned c, unsigned bump, unsigned want, void **out) {
    char *start = fh_slot_address(slot);
    unsigned got = 0;
    for (unsigned w = 0; w < fh_slab_words(bump) && got < want; w++) {
        uint64_t bits = fh_load(&slab->free[w]);
        while (bits) {
            uint64_t claim = fh_lowest_bits(bits, want - got);
            /* acquire: pairs with the release of the threads that freed the blocks. */
            FH_ASSERT((claim & ~bits) == 0 && fh_count_bits(claim) <= want - got);
            if (!fh_cas_acquire(&slab->free[w], &bits, bits & ~claim)) continue;
            if (got == 0 && fh_state_kind(fh_load(&slab->state)) != c) {
                /* A stale hint led us here. Nothing was counted. */
                fh_slab_put_back(slot, w, claim);
                return 0;
            }
            /* Its class cannot change any more, and blocks beyond bump are never free. */
            FH_ASSERT_COSTLY((claim & ~fh_low_mask(fh_state_bump(fh_load(&slab->state)) - 64 * w)) == 0);
            got += emit(c, start, w, claim, out + got);
            break;
        }
    }
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
        FH_ASSERT(n >= 1 && bump >= 1);
        /* acquire: the making of the slab. A state that went away and came back is as good: same class, same bump. */
        if (!fh_cas_acquire(&slab->state, &state, state + ((uint64_t)n << FH_STATE_BUMP_SHIFT))) continue;
        char *p = fh_slot_address(slot) + bump * size;
        for (unsigned i = 0; i < n; i++, p += size) out[i] = p;
        return n;
    }
}

static bool has_no_bits(const fh_slab *slab) {
    uint64_t bits = 0;
    for (unsigned w = 0; w < FH_SLAB_WORDS; w++) bits |= fh_load(&slab->free[w]);
    return bits == 0;
}

/* Of each class a bit: it had a slab before. Of most classes a program has a few blocks, so its first slab is not put where it
 * would keep memory from all others. What takes the second one has shown that it fills slabs. */
static fh_word had_slab[(FH_CLASSES + 63) / 64];

static bool is_first_of_class(unsigned c) {
    fh_word *word = &had_slab[c / 64];
    uint64_t bit = UINT64_C(1) << c % 64;
    if (fh_load(word) & bit) return false;
    fh_or_relaxed(word, bit);
    return true;
}

/* Slots for a new slab, and for the gap behind it. */
static size_t claim_slots(unsigned partition, unsigned c) {
    size_t slots = fh_class_table[c].slots;
    bool clean;
    if (FH_LIKELY(!partition)) {
        return is_first_of_class(c) ? fh_run_claim_bare(slots, &clean) : fh_run_claim(slots, slots, 0, &clean);
    }
    size_t gap = fh_gap_slots(partition, slots, true);
    size_t slot = fh_run_claim_in(partition, slots, gap, slots + gap, 0, &clean);
    if (slot != FH_NONE && gap) fh_gap_close(slot + slots, gap);
    return slot;
}

/* Makes slots that were claimed a slab. Its first n blocks are the caller's before another thread sees it. */
static void make_slab(unsigned partition, size_t slot, unsigned c, unsigned n) {
    const fh_class_info *info = &fh_class_table[c];
    fh_slab *slab = fh_slab_at(slot);
    FH_ASSERT(n >= 1 && n <= info->blocks && slot % info->slots == 0);
    FH_ASSERT_COSTLY(has_no_bits(slab));
    if (c <= FH_SMALL_LAST && !partition) {
        for (unsigned i = 0; i < info->slots; i++) fh_class_set(slot + i, c);
    }
    /* release: a thread that sees the class sees words of 0 (they are 0 in every free slot). An exchange and not a store:
     * another thread may be about to clear a hint from this slot's earlier life. It must see the state, or we must see the
     * hint cleared. A plain store could still be in the CPU's buffer while the hint is read. */
    uint64_t before = fh_swap_acq_rel(&slab->state, fh_state_make(c, n));
    FH_ASSERT(before == 0);
    fh_fence_after_rmw();
    if (n < info->blocks) fh_hint_set(c, 0, slot);
}

static unsigned take_new(unsigned partition, unsigned c, unsigned want, void **out) {
    const fh_class_info *info = &fh_class_table[c];
    size_t slot = claim_slots(partition, c);
    if (slot == FH_NONE) return 0;
    fh_thp_refill(slot);
    unsigned n = want < info->blocks ? want : info->blocks;
    char *p = fh_slot_address(slot);
    for (unsigned i = 0; i < n; i++, p += info->size) out[i] = p;
    make_slab(partition, slot, c, n);
    return n;
}

/* Where the threads near one CPU took their last blocks of a class: slot + 1. By this hint threads that run at the same time
 * keep out of each other's slabs. Without it, two threads that allocate and free 16-byte blocks are 2.2 × slower, because
 * they meet in every word. What the threads of a small program write is on one page of it. */
static _Alignas(2048) fh_word current[FH_PARTITIONS][FH_SHARDS][256];
_Static_assert(FH_CLASSES <= 256, "half a page for each shard");

/* Written only when it changes: a line that is merely read stays with all of its readers. release: a thread that finds the
 * slab by it sees the region's metadata, which this thread has seen. */
static void remember(unsigned partition, unsigned shard, unsigned c, uint64_t slot_plus_one) {
    fh_word *word = &current[partition][shard][c];
    if (fh_load(word) != slot_plus_one) fh_store_release(word, slot_plus_one);
}

/* A slab of class c to take from, FH_NONE if a new one is better. */
static size_t find_slab(unsigned partition, unsigned c, unsigned shard) {
    uint64_t mine = fh_load_acquire(&current[partition][shard][c]); /* see remember */
    if (mine && fh_state_kind(fh_load(&fh_slab_at(mine - 1)->state)) == c) return mine - 1;
    size_t others[FH_SHARDS];
    /* In a small heap another slab for a few blocks is worth more than that threads keep out of each other's words, of which
     * those of blocks above 1 KiB are written rarely. */
    bool together = fh_thp_is_near() || (fh_class_size(c) > FH_FINE_MAX && fh_thp_is_young());
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        others[i] =
            i == shard || together ? FH_NONE : (size_t)fh_load(&current[partition][i][c]) - 1; /* 0 − 1 is FH_NONE */
    }
    return fh_hint_find_apart(partition, c, others, FH_SHARDS);
}

/* Blocks of the slab that begins in that slot, if it is one of class c. */
static unsigned take_from(size_t slot, unsigned c, unsigned want, void **out) {
    fh_slab *slab = fh_slab_at(slot);
    uint64_t state = fh_load_acquire(&slab->state);
    if (fh_state_kind(state) != c) return 0;
    unsigned n = take_bits(slot, slab, c, fh_state_bump(state), want, out);
    return n < want ? n + take_fresh(slot, slab, c, want - n, out + n) : n;
}

static unsigned take(unsigned c, unsigned want, void **out, bool guests) {
    unsigned got = 0, shard = fh_system_cpu_hint() % FH_SHARDS;
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_CLASSES && !fh_class_is_run(c) && c != FH_CLASS_BORROWED);
    fh_event_demand(c);
    while (got < want) {
        size_t slot = find_slab(0, c, shard);
        if (slot == FH_NONE) {
            /* Before the heap grows, the holes that other classes have left. */
            unsigned n = guests ? fh_holes_take(c, want - got, out + got) : 0;
            got += n;
            if (n) break;
            n = take_new(0, c, want - got, out + got);
            if (n == 0) break;
            remember(0, shard, c, fh_slot_of(out[got]) + 1);
            got += n;
            continue;
        }
        unsigned n = take_from(slot, c, want - got, out + got);
        if (n && fh_load(&current[0][shard][c]) != slot + 1) fh_thp_refill(slot);
        got += n;
        FH_ASSERT(got <= want);
        if (got < want) fh_slab_unhint(fh_slab_at(slot), slot, c);
        remember(0, shard, c, got < want ? 0 : slot + 1);
    }
    fh_event_taken(shard, got * fh_class_size(c));
    return got;
}

/* ── Take, in a partition ────────────────────────────────────────────────────────────────────────────────────────── */

/* One of the bits, which are not 0; each with the same probability, within one in 2^26. */
static uint64_t random_bit(uint64_t bits, uint32_t random) {
    for (uint64_t n = (uint64_t)random * fh_count_bits(bits) >> 32; n > 0; n--) bits &= bits - 1;
    return bits & -bits;
}

/* As take_bits, for one block anywhere in the slab: a random one of the first word with free blocks from a random one on. */
static bool take_random(size_t slot, fh_slab *slab, unsigned c, unsigned bump, uint64_t random, void **out) {
    unsigned words = fh_slab_words(bump), first = (unsigned)((random >> 32) * words >> 32);
    for (unsigned i = 0; i < words; i++) {
        unsigned w = first + i < words ? first + i : first + i - words;
        uint64_t bits = fh_load(&slab->free[w]);
        while (bits) {
            uint64_t one = random_bit(bits, (uint32_t)random);
            /* acquire: as in take_bits. */
            if (!fh_cas_acquire(&slab->free[w], &bits, bits & ~one)) continue;
            if (fh_state_kind(fh_load(&slab->state)) != c) {
                fh_slab_put_back(slot, w, one);
                return false;
            }
            return emit(c, fh_slot_address(slot), w, one, out) == 1;
        }
    }
    return false;
}

/* The caller has all blocks of a new slab, and gives all but one. It holds that one, so the slab stays. */
static void *keep_one(size_t slot, unsigned c, uint64_t random) {
    fh_slab *slab = fh_slab_at(slot);
    unsigned blocks = fh_class_table[c].blocks, kept = (unsigned)((random >> 32) * blocks >> 32);
    for (unsigned w = 0; w < fh_slab_words(blocks); w++) {
        uint64_t bits = fh_low_mask(blocks - 64 * w < 64 ? blocks - 64 * w : 64);
        if (w == kept / 64) bits &= ~(UINT64_C(1) << kept % 64);
        if (bits) fh_or_release(&slab->free[w], bits); /* release: as of any block that is given */
    }
    fh_fence_after_rmw();
    if (blocks > 1) fh_hint_set(c, 0, slot);
    return fh_slot_address(slot) + kept * fh_class_size(c);
}

/* Of a new slab; NULL: no memory. */
static void *take_one_new(unsigned partition, unsigned c, uint64_t random) {
    void *first;
    if (!(partition & FH_PARTITION_HARDENED)) return take_new(partition, c, 1, &first) ? first : NULL;
    size_t slot = claim_slots(partition, c);
    if (slot == FH_NONE) return NULL;
    make_slab(partition, slot, c, fh_class_table[c].blocks);
    return keep_one(slot, c, random);
}

void *fh_slab_take_in(unsigned partition, unsigned c) {
    unsigned shard = fh_system_cpu_hint() % FH_SHARDS;
    bool hardened = partition & FH_PARTITION_HARDENED;
    uint64_t random = hardened ? fh_random_next(shard) : 0;
    void *p = NULL;
    FH_ASSERT(partition != 0 && partition < FH_PARTITIONS && c != FH_CLASS_SPECIAL && c <= FH_SMALL_LAST);
    fh_event_demand(c);
    while (!p) {
        size_t slot = find_slab(partition, c, shard);
        if (slot == FH_NONE) {
            p = take_one_new(partition, c, random);
            if (!p) return NULL;
            slot = fh_slab_head(c, fh_slot_of(p));
        } else if (hardened) {
            uint64_t state = fh_load_acquire(&fh_slab_at(slot)->state);
            bool is = fh_state_kind(state) == c;
            if (!is || !take_random(slot, fh_slab_at(slot), c, fh_state_bump(state), random, &p)) p = NULL;
        } else if (!take_from(slot, c, 1, &p)) {
            p = NULL;
        }
        if (!p) fh_slab_unhint(fh_slab_at(slot), slot, c);
        remember(partition, shard, c, p ? slot + 1 : 0);
    }
    fh_event_taken(shard, fh_class_size(c));
    return p;
}

unsigned fh_slab_take(unsigned c, unsigned want, void **out) {
    return take(c, want, out, true);
}

unsigned fh_slab_take_own(unsigned c, unsigned want, void **out) {
    return take(c, want, out, false);
}

bool fh_slab_is_preferred(size_t slot, unsigned c) {
    bool is = false;
    unsigned partition = fh_partition_of_slot(slot);
    for (unsigned i = 0; i < FH_SHARDS; i++) is |= fh_load(&current[partition][i][c]) == slot + 1;
    return is;
}

/* ── Give ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A batch is sorted into words and slabs on the stack, so that a word costs one fetch_or and a slab one fetch_add for as
 * many blocks as possible. Blocks freed together are often neighbours. So the current word (slab, word,
 * bits) is put away only when a block of another one comes. A few recent ones are found again through a small index, which
 * may forget. A word that is entered twice costs an instruction, nothing else.
 *
 * Rejected: exact hash tables, which find every word again, cost more than they save where blocks are scattered. */
#define BATCH 128u
#define RECENT 16u

typedef struct {
    uint32_t slab; /* index into slab_of */
    uint32_t word;
    uint64_t bits;
} word_entry;

typedef struct {
    uint32_t slot;
    uint16_t bump;
    uint8_t count; /* its blocks in this batch */
    bool filled;   /* our bits made a word full */
} slab_entry;

_Static_assert(FH_WINDOW_SLOTS <= UINT32_MAX && FH_SLAB_WORDS * 64 <= UINT16_MAX && BATCH <= UINT8_MAX,
               "an entry has room for them: it is small, for programs with small stacks");

typedef struct {
    unsigned words, slabs;
    uint8_t recent_word[RECENT], recent_slab[RECENT]; /* index + 1 of the entry last seen with that hash, 0 = none */
    word_entry word_of[BATCH];
    slab_entry slab_of[BATCH];
} sorter;

static unsigned hash(uint64_t key) {
    return (unsigned)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 60); /* 4 bits: RECENT */
}

static void report_blocks(fh_fault fault, unsigned c, size_t slot, unsigned word, uint64_t bits) {
    for (; bits; bits &= bits - 1) {
        size_t i = word * 64 + fh_lowest_bit(bits);
        fh_report_fault(fault, NULL, fh_slot_address(slot) + i * fh_class_size(c), 0, fh_class_size(c));
    }
}

/* Puts a word, with these of its blocks, into the table. */
static inline void put_away(sorter *s, unsigned c, unsigned slab, unsigned word, uint64_t bits) {
    if (!bits) return;
    FH_ASSERT(slab < s->slabs && word < FH_SLAB_WORDS);
    unsigned h = hash(slab * FH_SLAB_WORDS + word), i = s->recent_word[h];
    if (i == 0 || s->word_of[i - 1].slab != slab || s->word_of[i - 1].word != word) {
        i = ++s->words;
        FH_ASSERT(i <= BATCH);
        s->recent_word[h] = (uint8_t)i;
        s->word_of[i - 1] = (word_entry){.slab = slab, .word = word};
    }
    word_entry *e = &s->word_of[i - 1];
    FH_ASSERT(e->slab == slab && e->word == word);
    uint64_t twice = e->bits & bits;
    e->bits |= bits;
    s->slab_of[slab].count = (uint8_t)(s->slab_of[slab].count + fh_count_bits(bits & ~twice));
    if (FH_UNLIKELY(twice)) report_blocks(FH_FAULT_DOUBLE_FREE, c, s->slab_of[slab].slot, word, twice);
}

/* The index of the slab that p points into; its state as it is now. */
static inline unsigned enter_slab(sorter *s, unsigned c, const void *p, uint64_t *state) {
    size_t slot = fh_slab_head(c, fh_slot_of(p));
    unsigned h = hash(slot), i = s->recent_slab[h];
    if (i == 0 || s->slab_of[i - 1].slot != slot) {
        FH_ASSERT(s->slabs < BATCH);
        s->slab_of[s->slabs] = (slab_entry){.slot = (uint32_t)slot};
        i = ++s->slabs;
        s->recent_slab[h] = (uint8_t)i;
    }
    *state = fh_load(&fh_slab_at(slot)->state);
    s->slab_of[i - 1].bump = (uint16_t)fh_state_bump(*state);
    return i - 1;
}

/* A sampled block is special to free, and so in no magazine: except when a thread that is not observed yet frees it by a size
 * that it trusts (freehold/fast.h). False: the slab of p is none of samples. */
static bool give_sample(unsigned kind, void *p) {
    if (!fh_class_is_sample(kind)) return false;
    if ((uintptr_t)p % fh_class_size(kind) == 0) {
        fh_hook_freed(p, true);
        fh_sampled_end(kind, p);
    }
    fh_slab_give(kind, 1, &p);
    return true;
}

/* The bits of the blocks from *k on that follow block i, at `last`, upwards or downwards without a gap. They are of the same word, and
 * were handed out. *k is behind them then. What is freed in the order in which it was allocated, or in the reverse one, takes a third of
 * the instructions so (hotpath.instructions). */
static inline uint64_t neighbours(void **blocks, unsigned *k, unsigned n, const char *last, ptrdiff_t size, unsigned i,
                                  unsigned bump) {
    ptrdiff_t step = *k < n ? (const char *)blocks[*k] - last : 0;
    bool up = step == size;
    if (!up && step != -size) return 0;
    unsigned end = (i | 63) + 1 < bump ? (i | 63) + 1 : bump, at = *k, most = at + (up ? end - 1 - i : i % 64);
    for (most = most < n ? most : n; at < most && (const char *)blocks[at] == last + step; at++) last += step;
    unsigned found = at - *k;
    *k = at;
    return found ? fh_low_mask(found) << (up ? i % 64 + 1 : i % 64 - found) : 0;
}

/* Checks the pointers and sorts them. The caller holds them, as far as they are blocks. The current slab and word are kept in
 * registers: some 30 instructions a block of the same word, if none was beside it. */
static void sort(sorter *s, unsigned c, unsigned n, void **blocks) {
    const fh_class_info *info = &fh_class_table[c];
    size_t size = info->size, bytes = info->slots * FH_SLOT_SIZE;
    char *start = NULL; /* no block is within a slab's length of address 0 */
    unsigned slab = 0, bump = 0, word = 0;
    uint64_t bits = 0;
    FH_ASSERT(n <= BATCH && size != 0);
    for (unsigned k = 0; k < n;) {
        char *p = blocks[k++];
        size_t offset = (uintptr_t)p - (uintptr_t)start;
        if (offset >= bytes) {
            put_away(s, c, slab, word, bits);
            bits = 0;
            uint64_t state;
            slab = enter_slab(s, c, p, &state);
            if (FH_UNLIKELY(fh_state_kind(state) != c)) {
                start = NULL;
                /* The slab may have been opened meanwhile, or p was a guest when it came into the magazine. If not,
                 * all of that slab was free, it was released, and this block is given again. */
                if (fh_holes_give(NULL, p) || give_sample(fh_state_kind(state), p)) continue;
                fh_report_fault(FH_FAULT_DOUBLE_FREE, NULL, p, 0, size);
                continue;
            }
            start = fh_slot_address(s->slab_of[slab].slot);
            bump = fh_state_bump(state);
            offset = (size_t)(p - start);
        }
        unsigned i = (unsigned)((offset * info->reciprocal) >> 40);
        if (FH_UNLIKELY(i * size != offset || i >= bump)) {
            /* Inside of a block; or in a slab of ours, but never handed out. */
            fh_report_fault(i >= bump ? FH_FAULT_FOREIGN : FH_FAULT_INSIDE, NULL, p, (size_t)start + i * size, size);
            continue;
        }
        uint64_t bit = UINT64_C(1) << i % 64;
        if (i / 64 != word) {
            put_away(s, c, slab, word, bits);
            bits = 0;
            word = i / 64;
        }
        bit |= neighbours(blocks, &k, n, p, (ptrdiff_t)size, i, bump);
        if (FH_UNLIKELY(bits & bit)) report_blocks(FH_FAULT_DOUBLE_FREE, c, s->slab_of[slab].slot, word, bits & bit);
        bits |= bit;
    }
    put_away(s, c, slab, word, bits);
}

/* True if setting `bits` in a word that was `before` may have made the slab all free. `bump` may be too low by now. Then this may be said
 * too often, and never too rarely: of blocks beyond it nothing is asked. */
static bool fills(uint64_t before, uint64_t bits, unsigned word, unsigned bump) {
    FH_ASSERT(bits != 0 && word < fh_slab_words(bump));
    return !(fh_low_mask(bump - word * 64) & ~(before | bits));
}

/* Not inlined, for its table. */
__attribute__((noinline)) static void give_sorted(unsigned c, unsigned n, void **blocks) {
    sorter s;
    s.words = s.slabs = 0;
    for (unsigned i = 0; i < RECENT; i++) s.recent_word[i] = s.recent_slab[i] = 0;
    sort(&s, c, n, blocks);
    for (unsigned i = 0; i < s.words; i++) {
        const word_entry *e = &s.word_of[i];
        slab_entry *in = &s.slab_of[e->slab];
        /* release: the program's last use of the blocks before another thread takes them. */
        FH_ASSERT(e->bits != 0 && e->slab < s.slabs);
        uint64_t before = fh_or_release(&fh_slab_at(in->slot)->free[e->word], e->bits);
        /* Bits that were set already: these blocks were free. */
        if (FH_UNLIKELY(before & e->bits)) {
            report_blocks(FH_FAULT_DOUBLE_FREE, c, in->slot, e->word, before & e->bits);
        }
        in->filled |= fills(before, e->bits, e->word, in->bump);
    }
    fh_fence_after_rmw();
    for (unsigned i = 0; i < s.slabs; i++) {
        const slab_entry *e = &s.slab_of[i];
        if (e->count) fh_slab_given(fh_slab_at(e->slot), e->slot, c, e->count, e->filled);
    }
}

/* ── Give, scattered ─────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    fh_slab *slab;
    uint32_t slot;
    uint16_t index; /* of the block in its slab */
    bool inside;    /* the pointer is not at its beginning */
} scattered_block;

/* So many are fetched at once. A CPU waits for fewer words than that. */
#define AHEAD 32u

/* Blocks each in a slab of its own: sorting finds nothing. First all their words are fetched, then their bits are set. */
static void give_few(unsigned c, unsigned n, void **blocks) {
    const fh_class_info *info = &fh_class_table[c];
    uintptr_t base = fh_window_base();
    size_t size = info->size, of_slab = (size_t)info->slots * FH_SLOT_SIZE - 1;
    uint64_t reciprocal = info->reciprocal;
    scattered_block at[AHEAD];
    FH_ASSERT(n <= AHEAD);
    for (unsigned k = 0; k < n; k++) {
        uintptr_t place = (uintptr_t)blocks[k] - base;
        size_t slot = (place & ~of_slab) >> FH_SLOT_SHIFT, offset = place & of_slab;
        uint32_t i = (uint32_t)((offset * reciprocal) >> 40);
        fh_slab *slab = fh_slab_at(slot);
        at[k] = (scattered_block){slab, (uint32_t)slot, (uint16_t)i, i * size != offset};
        __builtin_prefetch(&slab->state);
        __builtin_prefetch(&slab->free[i / 64], 1);
    }
    for (unsigned k = 0; k < n; k++) {
        const scattered_block *b = &at[k];
        uint64_t state = fh_load(&b->slab->state), bit = UINT64_C(1) << b->index % 64;
        unsigned bump = fh_state_bump(state);
        if (FH_UNLIKELY(fh_state_kind(state) != c || b->index >= bump || b->inside)) {
            give_sorted(c, 1, &blocks[k]); /* says what is wrong with it */
            continue;
        }
        /* release: as in give_sorted. */
        uint64_t before = fh_or_release(&b->slab->free[b->index / 64], bit);
        if (FH_UNLIKELY(before & bit)) {
            report_blocks(FH_FAULT_DOUBLE_FREE, c, b->slot, b->index / 64, bit);
            continue;
        }
        fh_fence_after_rmw();
        fh_slab_given(b->slab, b->slot, c, 1, fills(before, bit, b->index / 64, bump));
    }
}

static void give_scattered(unsigned c, unsigned n, void **blocks) {
    for (unsigned done = 0; done < n; done += AHEAD) give_few(c, n - done < AHEAD ? n - done : AHEAD, blocks + done);
}

/* A guess from four pairs of neighbours, or from all if there are fewer. In one block there is nothing to sort. While the heap
 * contracts, most of what is given is two or three blocks that were freed in no order. */
static bool are_scattered(unsigned c, unsigned n, void **blocks) {
    unsigned apart = 0, pairs = 0, step = n < 8 ? 1 : n / 4;
    for (unsigned k = 0; k + 1 < n; k += step, pairs++)
        apart += fh_slab_head(c, fh_slot_of(blocks[k])) != fh_slab_head(c, fh_slot_of(blocks[k + 1]));
    return pairs < 3 ? apart == pairs : apart >= 3;
}

void fh_slab_give(unsigned c, unsigned n, void **blocks) {
    FH_ASSERT(c != FH_CLASS_SPECIAL && c < FH_CLASSES && !fh_class_is_run(c) && c != FH_CLASS_BORROWED);
    for (unsigned done = 0; done < n; done += BATCH) {
        unsigned batch = n - done < BATCH ? n - done : BATCH;
        (are_scattered(c, batch, blocks + done) ? give_scattered : give_sorted)(c, batch, blocks + done);
    }
    fh_event_given(c, n * fh_class_size(c));
}
