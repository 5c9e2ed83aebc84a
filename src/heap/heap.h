/* The life of a heap, and the walk over its blocks. What a heap is: types.h.
 *
 * Thread-safety and progress: types.h says it. */
#ifndef FH_HEAP_HEAP_H
#define FH_HEAP_HEAP_H

#include "heap/types.h"

typedef struct {
    const char *name;
    fh_heap *parent;
    size_t soft, hard;
    fh_heap_asked *asked;
    void *arg;
    uint64_t flags;
    void *memory; /* for its blocks; NULL: from the store. fh_given_may(memory, memory_size) */
    size_t memory_size;
    const fh_heap_source *source; /* its blocks are in memory from there; NULL: not */
} fh_heap_plan;

/* NULL with errno: ENOMEM. Cost: some 0.3 µs. */
fh_heap *fh_heap_create(const fh_heap_plan *plan);

/* All blocks are free, after the callbacks for its end. The heap must not be in use by another call. False: a thread is in a scope
 * of it. Cost: some 0.3 µs for each 64 KiB. */
bool fh_heap_clear(fh_heap *h);

/* false: it has children, or a thread is in a scope of it. */
bool fh_heap_end(fh_heap *h);

/* Each live block; those that other threads allocate or free meanwhile are met or not. */
void fh_heap_each(fh_heap *h, fh_heap_seen *see, void *arg);

/* Bytes with memory behind them, of this heap alone: what the kernel says. */
size_t fh_heap_resident(fh_heap *h);

#endif
