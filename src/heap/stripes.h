/* What threads keep of a heap of all threads: blocks of extents that were freed, or claimed, and that the next calls take and free by
 * plain loads and stores. A heap gets its eight stripes when it has grown, in one slot that is charged as all others are.
 *
 *     a stripe    owner: 0 nobody, or the ticket of a thread │ a bin for each class up to 3 KiB │ places of blocks
 *     a place     how far in front of the block its byte is: 16 bits │ the block's address: 48 bits
 *     a ticket    the process's generation: 16 bits │ a number: 24 bits │ its place in the table of tickets: 11 bits │ 0: 13 bits
 *
 *     owner       0, or a thread that is gone ──(compare-and-swap)──▶ a thread that wants it ──(it has given all back)──▶ 0
 *     a block     free ──(claimed with others of its word)──▶ in a stripe ⇄ the program's
 *                 in a stripe ──(its owner, half of a full bin)──▶ free
 *
 * Which stripe is a thread's follows from its ticket, so that eight threads have one each. A ninth that finds its stripe owned
 * takes and frees by bits, as in a heap without stripes. A thread that ends gives up its ticket and touches no heap: one may be
 * destroyed at that moment. The stripe stays as it is, and the thread that takes it over has its blocks. In the child of a fork all
 * tickets are over, because they are of another generation.
 *
 * That a block is live says its byte in the extent alone (fh_extent_out), which is changed by who has the block. So a walk needs
 * to know nothing of stripes. A second free finds the byte 0, in whichever stripe the block is.
 *
 * `top` of a bin is what commits a step. A thread that is interrupted for good between it and the rest loses a block at most, until
 * the heap ends.
 *
 * Limits. What a stripe has is not there for other threads. So a heap uses them only while it and all above it have FH_STRIPES_ROOM
 * left, which is more than all stripes can have. When there is less, `striped` is 0, and each thread gives its blocks back in its
 * next slow path. Who is refused memory empties its own stripe, and those of threads that are gone. What the other seven keep
 * of a class is less than a slot: FH_STRIPE_BYTES each.
 *
 * Reset and destroy release the stripes' slot and look at nothing in it.
 *
 * Thread-safety: any thread; not for private heaps, which have none. Progress: the two inline functions are wait-free, the others
 * lock-free. A thread that is stopped anywhere keeps its stripe's blocks from the others and nothing else. */
#ifndef FH_HEAP_STRIPES_H
#define FH_HEAP_STRIPES_H

#include "base/classes.h"
#include "cache/observed.h"
#include "heap/types.h"

#define FH_STRIPES 8u
#define FH_STRIPE_SIZE ((size_t)(FH_SLOT_SIZE / FH_STRIPES))
#define FH_STRIPE_LAST 76u                         /* class of 3 KiB */
#define FH_STRIPE_BYTES ((size_t)6144)             /* of blocks in a bin, at most */
#define FH_STRIPE_BLOCKS ((size_t)20)              /* and blocks */
#define FH_STRIPES_FROM ((size_t)4 * FH_SLOT_SIZE) /* a heap that has taken so much gets stripes */
#define FH_STRIPE_ADDRESS_BITS 48u

/* Offsets in the stripe, and in an extent of the class of its bytes. */
typedef struct {
    uint16_t top, begin, end, out;
} fh_stripe_bin;

typedef struct {
    fh_owned owned; /* of the first stripe: it is what the slot begins with */
    fh_word owner;
    fh_word ready; /* 1: the bins are there */
    fh_stripe_bin bin[FH_STRIPE_LAST + 1];
} fh_stripe;

static inline fh_stripe *fh_stripe_of(uint64_t stripes, uint64_t ticket) {
    return (fh_stripe *)(uintptr_t)(stripes + (ticket & (FH_SLOT_SIZE - FH_STRIPE_SIZE)));
}

static inline void *fh_place_block(uint64_t place) {
    return (void *)(uintptr_t)(place << (64 - FH_STRIPE_ADDRESS_BITS) >> (64 - FH_STRIPE_ADDRESS_BITS));
}

static inline fh_byte *fh_place_out(uint64_t place) {
    return (fh_byte *)((char *)fh_place_block(place) - (place >> FH_STRIPE_ADDRESS_BITS));
}

/* A block of class c that waits in the thread's own stripe, which is the program's now. NULL: none does. */
static inline void *fh_stripe_pop(fh_stripe *s, unsigned c) {
    fh_stripe_bin *bin = &s->bin[c];
    unsigned top = bin->top;
    if (FH_UNLIKELY(top == bin->begin)) return NULL;
    uint64_t place = *(uint64_t *)(void *)((char *)s + top - sizeof(uint64_t));
    bin->top = (uint16_t)(top - sizeof(uint64_t));
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    fh_byte_store(fh_place_out(place), 1);
    if (!fh_place_block(place)) __builtin_unreachable();
    return fh_place_block(place);
}

/* The bin has room, and `out` is the block's byte, which is 0. */
static inline void fh_stripe_push(fh_stripe *s, fh_stripe_bin *bin, const void *p, const fh_byte *out) {
    unsigned top = bin->top;
    *(uint64_t *)(void *)((char *)s + top) = ((uintptr_t)p - (uintptr_t)out) << FH_STRIPE_ADDRESS_BITS | (uintptr_t)p;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    bin->top = (uint16_t)(top + sizeof(uint64_t));
}

/* n bytes, 1 to 1 KiB, out of the calling thread's stripe. NULL: that is not how. */
static inline void *fh_stripe_hit(const fh_heap *h, size_t n) {
    uint64_t stripes = fh_load_acquire(&h->striped); /* their beginnings */
    if (!stripes || n - 1 >= FH_FINE_MAX) return NULL;
    uint64_t ticket = fh_own()->ticket;
    fh_stripe *s = fh_stripe_of(stripes, ticket);
    return FH_LIKELY(fh_load(&s->owner) == ticket) ? fh_stripe_pop(s, fh_class_fine(n)) : NULL;
}

/* fh_slab.quick: the heap, which begins at a multiple of 64 KiB │ lines of fh_extent.out: 4 bits │ class: 7 bits. So free looks at no
 * header of an extent: all of these fall into one cache set. */
#define FH_QUICK_CLASS UINT64_C(127)
#define FH_QUICK_LINES_SHIFT 7u
#define FH_EXTENT_LINES 16u

static inline uint64_t fh_quick_word(const fh_heap *h, unsigned c, unsigned lines) {
    return (uintptr_t)h | lines << FH_QUICK_LINES_SHIFT | c;
}

/* The heap gets stripes when it has grown. */
static inline bool fh_stripes_may(const fh_heap *h) {
    return !(h->flags & (FH_HEAP_IS_PRIVATE | FH_HEAP_IS_APART));
}

/* True if p was a live block and is in the calling thread's stripe now. A wrong pointer is never that. */
static inline bool fh_stripe_keep(uint64_t quick, void *p) {
    const fh_heap *h = (const fh_heap *)(uintptr_t)(quick & ~(uint64_t)(FH_SLOT_SIZE - 1));
    uint64_t stripes = fh_load_acquire(&h->striped); /* as above */
    if (!stripes || fh_load(&h->sampled)) return false;
    uint64_t ticket = fh_own()->ticket;
    fh_stripe *s = fh_stripe_of(stripes, ticket);
    if (FH_UNLIKELY(fh_load(&s->owner) != ticket)) return false;
    unsigned c = (unsigned)(quick & FH_QUICK_CLASS), lines = quick >> FH_QUICK_LINES_SHIFT & (FH_EXTENT_LINES - 1);
    fh_stripe_bin *bin = &s->bin[c];
    size_t offset = (uintptr_t)p % FH_SLOT_SIZE;
    unsigned i = fh_block_index(c, offset);
    fh_byte *out = (fh_byte *)((uintptr_t)p - offset + bin->out + lines * FH_CACHE_LINE + i);
    bool live = i * (size_t)fh_class_size(c) == offset && fh_byte_load(out) == 1;
    if (FH_UNLIKELY(!live || bin->top == bin->end)) return false;
    fh_byte_store(out, 0);
    fh_stripe_push(s, bin, p, out);
    return true;
}

/* A heap has grown: it gets stripes, if that is for it. */
void fh_stripes_begin(fh_heap *h);

/* A block of class c from the calling thread's stripe, which is filled from extents that have free blocks. NULL: that is not how, or
 * no extent has any. Of a heap that has stripes. */
void *fh_stripes_take(fh_heap *h, unsigned c);

/* Keeps block i of e, whose byte is 0 already. False: it is to be freed by its bit. Of a heap that has stripes. */
bool fh_stripes_keep(fh_extent *e, unsigned i);

/* The heap was refused memory: releases what can be reached. True: something was. */
bool fh_stripes_empty(fh_heap *h);

/* All of its blocks go. Returns the stripes' slot, which is to be released, or NULL. No other call is on the heap. */
void *fh_stripes_end(fh_heap *h);

#endif
