/* Edges: slots that large blocks share. A block of 64 KiB to 1 MiB has whole pages and not whole slots, so it ends in the
 * middle of a slot, and the next one may begin there. Without that a block of 66,000 bytes would take 128 KiB, and on huge
 * pages all of it is resident.
 *
 *         slot 4             slot 5             slot 6             slot 7
 *     ┌──────────────────┬───┬──────────────┬───────┬──────────┬──────────────────┐
 *     │ block A, 17 pages    │ block B, 17 pages    │ gap      │ free             │      5 and 6 are edges
 *     └──────────────────┴───┴──────────────┴───────┴──────────┴──────────────────┘
 *
 * An edge is a slab of sixteen pages, one bit each, 1 = free, with a kind of its own (FH_CLASS_EDGE). Pages are given and the
 * slot is released by the protocol of slabs (slab_life.h): bits first, then "all free" is judged by the word. What is taken is
 * a stretch at one of its ends: the lower one by a block that ends here, the upper one by a block that begins here. A block is
 * longer than a slot, so in a slot one block ends at most and one begins at most, and the free pages are in one piece: the gap.
 *
 *     equations, in a heap at rest:
 *         [edge.pages]  a page of an edge is free, or a page of the block that ends or of the one that begins there
 *         [edge.empty]  not all pages of an edge are free, and none is an edge of which all are one block's
 *         [edge.clean]  a page of an edge that was never handed out is free
 *
 * The hint of an edge says that its first or its last page is free, so a block may end or begin there.
 *
 * `clean` says of pages that they were never handed out since the slot came without memory. Each bit is written by the thread
 * that makes the edge, and cleared by the one that takes the page.
 *
 * Thread-safety: any thread. Progress: lock-free, as slab_life.h. */
#ifndef FH_STORE_EDGE_H
#define FH_STORE_EDGE_H

#include "base/types.h"

#define FH_PAGE ((size_t)4096) /* what large blocks are rounded to, whatever the OS's page is */
#define FH_SLOT_PAGES ((unsigned)(FH_SLOT_SIZE / FH_PAGE))

/* Makes an edge of a slot that is the caller's: these pages are free, the others stay the caller's. clean: no page of it was
 * handed out since it came without memory. */
void fh_edge_make(size_t slot, uint64_t free, bool clean);

/* The opposite: all pages are the caller's, and the slot is one in the middle of its block from now on. */
void fh_edge_absorb(size_t slot);

/* Takes these pages, if all of them are free. *clean becomes false if they may have been written to. */
bool fh_edge_take(size_t slot, uint64_t pages, bool *clean);

/* Gives these pages of the caller's. When all of the slot is free it is released. */
void fh_edge_give(size_t slot, uint64_t pages);

/* The free pages of an edge as bits; 0 if the slot is none. A snapshot. */
uint64_t fh_edge_free(size_t slot);

/* Clears the hint of an edge that turned out to have none of that. */
void fh_edge_unhint(size_t slot);

/* The lowest edge from that slot on at an end of which pages are free, FH_NONE if there is none. It may be stale. */
size_t fh_edge_next(size_t slot);

#endif
