/* Blocks of heaps for a tool that watches memory (system/tools.h). A block that the tool is told of has some bytes more than were
 * asked for. The last word of them says how many were.
 *
 *     p            p + n                        p + size
 *       │  shown     │  hidden … n and p, mixed │          live
 *       │                hidden                 │          free, until it is taken again or its memory leaves the heap
 *
 * Frames and the cells of a pool are parts of one block to the tool. Without a tool each of these is a load and a branch. Any
 * thread; wait-free. */
#ifndef FH_HEAP_TOLD_H
#define FH_HEAP_TOLD_H

#include "system/tools.h"

/* Bytes more that a block is to have. */
static inline size_t fh_told_room(void) {
    return fh_tool() ? 16 : 0;
}

/* The block at p, which has `size` bytes, was given to the program for n bytes. */
void fh_told_taken(void *p, size_t size, size_t n);

/* What was asked for at p, of a live block that has `size` bytes. */
size_t fh_told_asked(const void *p, size_t size);

/* The block stays where it is and is for n bytes from now on, fewer than before. */
void fh_told_shrunk(void *p, size_t size, size_t n);

/* It is about to be freed. */
void fh_told_freed(const void *p, size_t size);

/* What was to be freed at p is no live block. */
void fh_told_misfreed(const void *p);

/* These bytes are not the heap's any more, or hold no blocks of it. */
static inline void fh_told_left(const void *p, size_t n) {
    if (fh_tool()) fh_tool_show(p, n);
}

#endif
