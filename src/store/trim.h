/* Everything that can go back, at once: what malloc_trim does, and what happens when memory is short.
 *
 * Beyond the free slots that purge.c looks after, there are free pages *inside* of slabs that are partly used. A free block
 * holds no link and is described by a bit elsewhere, so whole pages of free blocks can lose their memory without anybody
 * noticing: the next user of such a block meets a page of zeroes. A heap of which one block in a hundred is alive goes
 * home that way by three quarters.
 *
 * Thread-safety: any thread, any number at once. Progress: lock-free, but for what the kernel does; a thread that is parked
 * in the middle holds back the free blocks of one slab. Cost: all of the heap's records are read, and a call of the system
 * made for each stretch of free pages: for moments, not for hot paths. */
#ifndef FH_STORE_TRIM_H
#define FH_STORE_TRIM_H

#include "base/types.h"

/* Empties the depots and releases the slabs that are all free, then gives back free slots until at most `keep` bytes of
 * them have memory, freed huge blocks likewise, and the free pages inside of slabs. Returns the bytes given back. What
 * threads have in their magazines is not touched. */
size_t fh_trim(size_t keep);

/* Parts of it: the depots and the slabs that are all free. */
void fh_trim_caches(void);

/* And the pages inside of slabs. */
size_t fh_trim_inside(void);

/* For the statistics: has that ever given anything back? And of the slab of class c at a slot (of a small class), with so
 * many blocks handed out once, the pages without memory that lie wholly in free blocks. `resident` has a byte a page of
 * the slab, as fh_system_resident fills it. */
bool fh_trim_was_inside(void);
unsigned fh_trim_missing_pages(size_t slot, unsigned c, unsigned bump, const unsigned char *resident);

/* The free pages inside of the slab at a slot, as far as there is one of the program's blocks: gives them back, returns the
 * bytes. And the bytes of its free blocks, 0 when they would not fill a page. */
size_t fh_trim_slab(size_t slot);
size_t fh_trim_free_bytes(size_t slot);

/* The heap is about to grow to so many chunks. If it has grown much since the last look, and half of what its slabs hold
 * is free, the free pages inside of them go back. */
void fh_trim_grown(size_t chunks);

#endif
