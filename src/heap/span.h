/* Heaps whose pages the kernel treats otherwise than those of others: left out of core dumps, on huge pages, with a name. The kernel
 * keeps that for whole mappings. So such a heap has spans of its own, and its extents and large blocks up to 1 MiB are parts of them:
 *
 *     span   ┌─ first slot ─┬────────┬─────────────┬─────────────┬─ ─ ─┐
 *            │ heap, or the │ extent │ large block │ free, zeroed │     │   a bit for each slot
 *            │ span's header│        │             │             │     │
 *            └──────────────┴────────┴─────────────┴─────────────┴─ ─ ─┘
 *
 * A longer block is a large block of the store for itself. Spans and such blocks are *pieces*. The store gets a piece back as it
 * was: without pages, and treated as all others. There are FH_PIECES_MOST at a time, because each one may be a mapping.
 *
 *     a slot     free ──(compare-and-swap on a word)──▶ part of an extent or a large block ──(purged, or on that word)──▶ free
 *     a span     the heap's until it is reset or destroyed
 *
 * Thread-safety: any thread; fh_spans_clear and fh_spans_end as reset and destroy. Progress: lock-free, except the kernel's calls. */
#ifndef FH_HEAP_SPAN_H
#define FH_HEAP_SPAN_H

#include "heap/types.h"

/* Each one splits two mappings at most: a quarter of those that Linux grants a process. */
#define FH_PIECES_MOST 8192u

/* The first slot of a heap with these flags; the rest of its first span follows. NULL with errno: ENOMEM; ENOTSUP: the kernel does
 * not leave pages out of dumps, or may not be asked. */
fh_heap *fh_spans_begin(uint64_t flags, const char *name);

/* After the header was written. */
void fh_spans_show(fh_heap *h);

/* Bytes that a block of n bytes, whole slots, takes. */
size_t fh_spans_round(const fh_heap *h, size_t n);

/* Whole slots at a multiple of align. NULL: *full is the heap whose limit is in the way of another span, or NULL: no memory. */
void *fh_spans_claim(fh_heap *h, size_t align, size_t bytes, bool *clean, fh_heap **full);

/* A large block, or what was claimed in vain. */
void fh_spans_release(fh_heap *h, void *p, size_t bytes);

/* True if p is a part of a span, and no piece of its own. */
bool fh_spans_have(const void *p);

/* All spans but the first are released, and all slots of that but the first are free. Returns the bytes that were charged. */
size_t fh_spans_clear(fh_heap *h);

/* After that: the heap itself. */
void fh_spans_end(fh_heap *h);

/* Bytes with memory behind them, as the kernel says. */
size_t fh_spans_resident(const fh_heap *h);

/* Those of any pages; all of them if the kernel does not say. */
size_t fh_resident_in(void *p, size_t bytes);

#endif
