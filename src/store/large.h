/* Large blocks, above 64 KiB. However large a block is, it is in the window: what it was in when it is freed is free slots
 * like all others, for blocks of any size.
 *
 * A block of up to 1 MiB has a class, and as many pages of 4 KiB. It begins at any page: the slots in which it begins and ends
 * may be shared with its neighbours (edge.h), those between are its own. It is cached in magazines like a block of a slab.
 *
 * A longer one is a run of whole slots, with its length in the state of the first one. It has pages that the program may use,
 * and perhaps more slots: the rounding up to slots, and room to grow that it got when it had to move.
 *
 *     ┌──────────────────────────────┬─────────┬ ─ ─ ─ ─ ─ ─ ─ ─ ┐
 *     │ pages (the word of that name)│rounding │  room to grow       slots: the length in the state
 *     └──────────────────────────────┴─────────┴ ─ ─ ─ ─ ─ ─ ─ ─ ┘
 *
 * The word `pages` of the slot in which a block begins changes 0 → n when it is allocated, and n → 0 by compare-and-swap when
 * it is freed: of two frees one gets it. Between the two only realloc changes it, whose caller owns the block.
 *
 * Thread-safety: any thread, for blocks of its own. Progress: lock-free, as run.h. */
#ifndef FH_STORE_LARGE_H
#define FH_STORE_LARGE_H

#include "base/assert.h"
#include "store/edge.h"
#include "store/window.h"

/* At least `size` bytes at a multiple of align (a power of two); NULL: no memory. *clean: reads as zero. */
void *fh_large_alloc(size_t size, size_t align, bool *clean);

/* The same in the place of the long block that was freed last (run.h), if it had as many slots; else NULL. It may have memory that
 * was written to. May be called without a cache. */
void *fh_large_alloc_again(size_t size, size_t align, bool *clean);

/* The same in a partition above 0: whole slots, and a gap behind them in a hardened one. */
void *fh_large_alloc_in(unsigned partition, size_t size, size_t align, bool *clean);

/* The program has freed the large block at p of a hardened partition, which is not to be free yet. False: it is none (any more),
 * or another call was first. */
bool fh_large_retire(void *p);
bool fh_large_is_retired(const void *p);

/* Frees the large block that begins at p; false if none does (any more). May be called without a cache. */
bool fh_large_free(void *p);

/* Frees the block at p that comes out of a magazine of run class c, after checking that it is one. */
void fh_large_give(unsigned c, void *p);

/* Bytes of the large block that begins at p which the program may use, 0 if none does. */
size_t fh_large_size(const void *p);

/* The word `pages`: how many, and in the upper half the first one, counted from the beginning of the slot. */
static inline uint64_t fh_large_word(size_t n, size_t first) {
    FH_ASSERT(n >= 1 && n >> 32 == 0 && first < FH_SLOT_PAGES);
    return (uint64_t)first << 32 | n;
}

/* True if a large block of just `size` bytes, a multiple of 4 KiB, begins at p, which is in a slot of a large block's class. One
 * word is read: realloc asks each time whether a block stays as it is. */
static inline bool fh_large_is(const void *p, size_t size) {
    size_t offset = (uintptr_t)p % FH_SLOT_SIZE;
    uint64_t word = fh_large_word(size / FH_PAGE, offset / FH_PAGE);
    return offset % FH_PAGE == 0 && fh_load(&fh_slab_at(fh_slot_of(p))->pages) == word;
}

/* The large block that p points into (its beginning), or NULL. For messages, and for the search for leaks. */
void *fh_large_around(const void *p);

/* The large block that begins in that slot, and its bytes; NULL if none does. *slots: of so many slots it has a part. */
void *fh_large_in(size_t slot, size_t *size, size_t *slots);

/* Makes the large block n bytes (n > 64 KiB) without moving it, if that can be done. */
bool fh_large_resize(void *p, size_t n);

/* Moves the large block to a place where n bytes fit, and room to grow: what is long moves by its pages and not its bytes.
 * NULL: no memory, and it is as it was. n is above 1 MiB, and more than the block has. */
void *fh_large_move(void *p, size_t n);

/* The first n bytes of the block at p, which is the caller's and not known to be clean, read as zero afterwards. What is worth
 * it returns to the OS instead: most memory of this kind is not touched again as a whole. A heap's block is written, wherever it is. */
void fh_large_zero(void *p, size_t n);

#endif
