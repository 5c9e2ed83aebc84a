/* A heap over memory that the program gives. All of its blocks are there, and so are their bits:
 *
 *     memory  ┌────────┬───────┬───────┬───────┬─ ─┬─ units of 16 bytes, 64 a word ─┐
 *             │ header │ free  │ first │ last  │   │                                │
 *             └────────┴───────┴───────┴───────┴─ ─┴────────────────────────────────┘
 *
 * A block up to 1 KiB is within one word, with the protocol of the first slot (types.h). A longer one is whole words, claimed one
 * after another; what was claimed in vain is set again. So two threads may both be refused where one had room.
 *
 * Thread-safety: any thread, except on a private heap. Progress: lock-free. Cost: a search from a hint, and for a long block one
 * step a KiB. */
#ifndef FH_HEAP_GIVEN_H
#define FH_HEAP_GIVEN_H

#include "heap/types.h"

/* False: it is too small, in the window, or another heap has a part of it. */
bool fh_given_may(const void *memory, size_t bytes);

/* The memory is the heap's from now on; NULL: too many heaps have some. */
fh_given *fh_given_begin(fh_heap *h, void *memory, size_t bytes);

/* Enough for a block of n bytes with that alignment: whole slots. */
size_t fh_given_bytes_for(size_t align, size_t n);

/* Of a paged heap: the region before it, and all that the program gave. */
void fh_given_link(fh_given *g, fh_given *next);
fh_given *fh_given_next(const fh_given *g);
void *fh_given_memory(const fh_given *g, size_t *bytes);

void fh_given_clear(fh_given *g);
void fh_given_end(const fh_given *g);

/* NULL: there is no room. */
void *fh_given_take(fh_given *g, size_t align, size_t n);

/* The live block that p points to or into. */
void *fh_given_block(const fh_given *g, const void *p, size_t *size);

/* Frees the block at p, of those bytes. False: another thread has freed it. */
bool fh_given_free(fh_given *g, void *p, size_t size);

void fh_given_each(fh_given *g, fh_heap_seen *see, void *arg);

/* Bytes with memory behind them, as the kernel says. */
size_t fh_given_resident(const fh_given *g);

#endif
