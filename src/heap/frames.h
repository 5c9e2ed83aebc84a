/* Frames of a private heap: blocks that end together, back to a mark. A bump pointer goes through segments, which are blocks of
 * the heap; the inline half is in freehold/heap.h.
 *
 *     newest segment ┌─────────┬───────────┬───────────────┐        ┌─────────┬───────────────────────┐
 *                    │ before ─┼───────────┼───────────────┼──────▶ │ before  │ frames of an older day│
 *                    └─────────┴───────────┴───────────────┘        └─────────┴───────────────────────┘
 *                                     next ▲           end ▲
 *
 * The heap is private, so these are plain words of one thread. */
#ifndef FH_HEAP_FRAMES_H
#define FH_HEAP_FRAMES_H

#include "heap/types.h"

/* n bytes that the newest segment does not have. NULL with errno: ENOMEM. */
void *fh_frame_grow(fh_heap *h, size_t n);

/* What a mark has of the heap: its newest segment. The heap itself if there is none, because such a mark is of one heap too. */
static inline void *fh_frame_newest(fh_heap *h) {
    return h->segment ? (void *)h->segment : h;
}

/* Frees all that came after a mark: the newest segment and the bump pointer of that time. False: the mark is not of this heap, or
 * what it stood for was released already; nothing is done. */
bool fh_frame_release(fh_heap *h, void *segment, char *next);

/* True if p is a segment of the heap, and so no block of the program's. */
bool fh_frame_is_segment(const fh_heap *h, const void *p);

/* The heap is reset or ends: its segments go with it. */
void fh_frame_forget(fh_heap *h);

#endif
