/* The heaps below a heap, with no list of them: each says in its slot's metadata whose child it is. So a child costs a store when it
 * is made and one when it ends, and no other heap is looked at, which may be ending at that moment.
 *
 *     slot of a heap   parent: the heap above it, written before the slot leads to the heap; 0 again before the heap ends
 *
 * Thread-safety: any thread. Heaps that are made meanwhile are met or not; none of those below may be reset or destroyed. Progress:
 * lock-free. Cost: two loads for each slot that was ever taken. */
#ifndef FH_HEAP_BELOW_H
#define FH_HEAP_BELOW_H

#include "heap/types.h"

typedef void fh_heap_met(fh_heap *heap, void *arg);

/* The heap itself, and all below it. */
void fh_heaps_below(fh_heap *h, fh_heap_met *meet, void *arg);

#endif
