/* Memory of the store for a heap, charged. Thread-safety: any thread, except on a private heap. Lock-free, except what the kernel and
 * the soft limit's callback do. */
#ifndef FH_HEAP_CLAIM_H
#define FH_HEAP_CLAIM_H

#include "heap/types.h"

/* Charges, and tells those that are above their soft limit by it. False: *full is at its hard limit. */
bool fh_heap_charge(fh_heap *h, size_t bytes, fh_heap **full);

/* n bytes at a multiple of align, for which `charged` bytes are charged. *clean: they read as zero. NULL: *full is at its hard limit, or
 * there is no memory. */
void *fh_heap_claim(fh_heap *h, size_t align, size_t n, size_t charged, bool *clean, fh_heap **full);

/* Releases a slot that was claimed, and that no other thread has seen. */
void fh_heap_drop_slot(fh_heap *h, void *slot);

#endif
