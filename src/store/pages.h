/* Free pages inside of slabs that are partly used. A free block holds no link and is described by a bit elsewhere, so a
 * whole page of free blocks can lose its memory and no thread notices: the next user of such a block meets a page of
 * zeroes. A heap of which one block in a hundred is alive loses three quarters of its memory that way.
 *
 * Thread-safety: any thread. Progress: lock-free, except what the kernel does. A thread that is stopped in the middle keeps
 * the free blocks of eight slabs from others. Cost: one question to the kernel a slab or half of a chunk. And one call for up
 * to 32 stretches of pages, where the kernel has such a call; else one for each. */
#ifndef FH_STORE_PAGES_H
#define FH_STORE_PAGES_H

#include "base/types.h"

#define FH_HALF_SLOTS (FH_CHUNK_SLOTS / 2) /* 2 MiB, a huge page */

/* Purges the free pages inside of the slab at a slot, as far as it is one of the program's blocks. Returns the bytes. Pages of blocks
 * that were never handed out may have memory too, where something else was before. If some do, these blocks are free ones from then on. */
size_t fh_pages_purge(size_t slot);

/* The same for all slabs that begin in half of a chunk, of which this is the first slot. The kernel is asked once. */
size_t fh_pages_purge_half(size_t first);

/* The bytes of its free blocks; 0 when they would not fill a page. */
size_t fh_pages_free_bytes(size_t slot);

/* The bytes of its pages of which all blocks are free and that have memory, which asks the kernel. */
size_t fh_pages_free(size_t slot);

/* The bytes of the pages of which all blocks are free, in all slabs of half of a chunk, with memory or not. `first` is its first slot. */
size_t fh_pages_free_in_half(size_t first);

/* For the statistics: was any page ever purged? And of the slab of class c at a slot (of a small class), with so many
 * blocks handed out once, the pages without memory that hold nothing but free blocks. `resident` has a byte for each page
 * of the slab, as fh_system_resident fills it. */
bool fh_pages_were_purged(void);
unsigned fh_pages_missing(size_t slot, unsigned c, unsigned bump, const unsigned char *resident);

#endif
