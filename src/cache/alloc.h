/* The slow half of allocating, for the layers above: what fh_alloc does when a bin is empty, without the observer. */
#ifndef FH_CACHE_ALLOC_H
#define FH_CACHE_ALLOC_H

#include "cache/cache.h"
#include "cache/observed.h"
#include "cache/thread.h"
#include "store/edge.h"
#include "store/events.h"
#include "system/system.h"

/* The bytes that a request of n bytes gets: more of them may be asked for at no cost. What there cannot be stays as it is. */
static inline size_t fh_good_bytes(size_t n) {
    unsigned c = fh_class_of(n);
    if (c != FH_CLASS_SPECIAL) return fh_class_size(c);
    return n <= FH_WINDOW_SIZE ? fh_round_up(n, FH_PAGE) : n;
}

/* The smallest class of at least n bytes whose blocks are all multiples of align. Slabs begin at a multiple of 64 KiB, so
 * it is the block size that decides; a power of two is reached after at most eight steps. */
static inline unsigned fh_aligned_class(size_t align, size_t n) {
    unsigned c = fh_class_of(n < align ? align : n);
    while (c <= FH_SMALL_LAST && fh_class_size(c) & (align - 1)) c++;
    return c;
}

/* What the program gets when nothing has helped, instead of a block of n bytes: NULL with errno ENOMEM. */
void *fh_no_memory(size_t n);

/* A block of class c, from a bin, the depot or the store. n: the bytes that were asked for, for messages. Does what is due,
 * and tries again after a refusal. NULL with errno ENOMEM when nothing has helped. */
void *fh_alloc_class(unsigned c, size_t n);

/* A block that no magazine holds: one of more than 1 MiB, or with an alignment above 64 KiB. */
void *fh_alloc_special(size_t align, size_t n, bool *clean);

/* A block that there can never be, whatever is released: beyond the window, the own limit, or what the kernel allows. It is
 * refused at once. Asking the kernel is noticed by small blocks, so it is asked about very large ones only. */
bool fh_is_out_of_reach(size_t n);

/* n bytes at once are more than the machine has, and the kernel says so. A block that grows asks for what it grows by. */
static inline bool fh_is_beyond_machine(size_t n) {
    return FH_UNLIKELY(n >= FH_GIB) && fh_system_refuses(n);
}

/* Any block of n > 0 bytes at a multiple of align, without the observer. */
void *fh_alloc_unobserved(size_t align, size_t n, bool *clean);

/* The same for n ≤ FH_SMALL_MAX bytes, from the calling thread's own bin alone: what the hot path would do if that were the bin
 * that malloc sees. NULL: there is none in it. For a checked program, whose threads' calls all take the slow half. */
static inline void *fh_alloc_cached(size_t n) {
    fh_bin *bin = &fh_own()->bin[n <= FH_FINE_MAX ? fh_class_fine(n) : fh_class_coarse(n)];
    return FH_LIKELY(bin->top != NULL) ? fh_bin_pop(bin) : NULL;
}

#endif
