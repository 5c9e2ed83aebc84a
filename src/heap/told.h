/* Heaps whose blocks a tool that watches memory is told of (system/tools.h), and heaps that keep sizes (FH_HEAP_SIZES). The tool is
 * there when they are made, or they are not told. A block of both has some bytes more than were asked for. The last word of them
 * says how many were.
 *
 *     p            p + n                        p + size
 *       │  shown     │  hidden … n and p, mixed │          live
 *       │                hidden                 │          free, until it is taken again or its memory leaves the heap
 *
 * Frames and the cells of a pool are parts of one block to the tool. Any thread; wait-free. */
#ifndef FH_HEAP_TOLD_H
#define FH_HEAP_TOLD_H

#include "heap/types.h"
#include "system/tools.h"

/* Flags of a heap that is made now. */
static inline uint64_t fh_told_flags(void) {
    return fh_tool() ? FH_HEAP_IS_TOLD | FH_HEAP_IS_APART : 0;
}

/* Bytes more that a block is to have. */
#define FH_TOLD_ROOM ((size_t)16)

/* The block at p, which has `size` bytes, was given to the program for n bytes. Of a heap that keeps sizes. */
void fh_told_taken(const fh_heap *h, void *p, size_t size, size_t n);

/* What was asked for at p, of a live block that has `size` bytes. Of one of a heap that keeps no sizes: its size. */
size_t fh_told_asked(const void *p, size_t size);
static inline size_t fh_heap_asked_for(const fh_heap *h, const void *p, size_t size) {
    return fh_heap_keeps_sizes(h) ? fh_told_asked(p, size) : size;
}

/* The block stays where it is and is for n bytes from now on: fewer than before, or up to size − FH_TOLD_ROOM of one that no tool is
 * told of. */
void fh_told_resized(const fh_heap *h, void *p, size_t size, size_t n);

/* It is about to be freed. */
void fh_told_freed(const void *p, size_t size);

/* What was to be freed at p is no live block. */
void fh_told_misfreed(const void *p);

/* These bytes are not the heap's any more. */
static inline void fh_told_left(const fh_heap *h, const void *p, size_t n) {
    if (fh_heap_is_told(h)) fh_tool_show(p, n);
}

#endif
