/* What a sampled block says of its size. It is in a slab of a power of two, so that free knows it by its slab (types.h). But to
 * the program it is as large as the block that it would have got without the observer: `malloc_usable_size` and realloc
 * answer alike for both. Otherwise observing would change what the program does, and the samples would be biased: a block
 * that stays where an unsampled one moves, and so is drawn again, counts twice.
 *
 *     a slab of sampled blocks of 512 bytes:
 *         free      words 0 …  1: bit = this block is free
 *         short     words 32 … 63: of each block how much the program has less than 512 bytes, in steps of 16
 *
 * A slab of 64 KiB has 1,024 blocks of 64 bytes, and these have 2 bits each: 16, 32, 48 or 64 bytes. Larger ones are fewer and
 * have more bits, of which 16 are used. Sizes of classes are multiples of 16, and so are those of guests (holes.h).
 *
 *     equations:  [slab.short] of a free block it is 0, so that a free slot has nothing (types.h)
 *
 * Thread-safety: a block's bits are its holder's alone. Their word is shared, so each change is one locked instruction.
 * Progress: wait-free. */
#ifndef FH_STORE_SAMPLED_H
#define FH_STORE_SAMPLED_H

#include "base/assert.h"
#include "base/classes.h"
#include "store/window.h"

#define FH_SHORT_WORDS (FH_SLAB_WORDS / 2)
#define FH_SHORT_MOST_BITS 16u

/* Where the bits of a block are. */
typedef struct {
    fh_word *word;
    unsigned shift;
    uint64_t mask;
} fh_sampled_short;

/* Bits of each block of sample class c. */
static inline unsigned fh_sampled_bits(unsigned c) {
    unsigned bits = FH_SHORT_WORDS * 64 / fh_class_table[c].blocks;
    return bits < FH_SHORT_MOST_BITS ? bits : FH_SHORT_MOST_BITS;
}

/* Of block i of the slab. */
static inline fh_sampled_short fh_sampled_short_of(fh_slab *slab, unsigned c, unsigned i) {
    unsigned bits = fh_sampled_bits(c), each = 64 / bits;
    FH_ASSERT(fh_class_is_sample(c) && i / each < FH_SHORT_WORDS);
    return (fh_sampled_short){&slab->free[FH_SHORT_WORDS + i / each], i % each * bits, fh_low_mask(bits)};
}

static inline fh_sampled_short fh_sampled_short_at(unsigned c, const void *p) {
    return fh_sampled_short_of(fh_slab_at(fh_slot_of(p)), c, fh_block_index(c, (uintptr_t)p % FH_SLOT_SIZE));
}

/* Bytes that the program has of the block at p, which is of sample class c. Relaxed: its holder has its address from the
 * thread that wrote them. */
static inline size_t fh_sampled_usable(unsigned c, const void *p) {
    fh_sampled_short s = fh_sampled_short_at(c, p);
    return fh_class_size(c) - (fh_load(s.word) >> s.shift & s.mask) * FH_MIN_ALIGN;
}

/* The block at p was just taken, and the program has `usable` bytes of it. */
static inline void fh_sampled_begin(unsigned c, const void *p, size_t usable) {
    fh_sampled_short s = fh_sampled_short_at(c, p);
    uint64_t less = (fh_class_size(c) - usable) / FH_MIN_ALIGN;
    FH_ASSERT(usable <= fh_class_size(c) && less <= s.mask && usable % FH_MIN_ALIGN == 0);
    if (!less) return;
    uint64_t before = fh_or_relaxed(s.word, less << s.shift);
    FH_ASSERT((before >> s.shift & s.mask) == 0);
}

/* The block at p is about to be given. Relaxed: giving it is a release. */
static inline void fh_sampled_end(unsigned c, const void *p) {
    fh_sampled_short s = fh_sampled_short_at(c, p);
    if (fh_load(s.word) >> s.shift & s.mask) fh_and_relaxed(s.word, ~(s.mask << s.shift));
}

#endif
