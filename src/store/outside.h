/* Memory outside of the window that a heap of the embedding API was given: which heap has an address there.
 *
 * Thread-safety: any thread. Progress: lock-free. */
#ifndef FH_STORE_OUTSIDE_H
#define FH_STORE_OUTSIDE_H

#include "base/types.h"

#define FH_OUTSIDE_MOST 64u

/* Entries that were ever in use; usually 0, so that a foreign pointer costs one load. */
extern fh_word fh_outside_entries;

/* Shows `owned` for all addresses of that memory. False: FH_OUTSIDE_MOST are there already. */
bool fh_outside_add(const void *memory, size_t bytes, const void *owned);
void fh_outside_drop(const void *owned);

/* True if a byte of that memory has been added already. */
bool fh_outside_overlaps(const void *memory, size_t bytes);

/* What was added for the memory that p points into; 0: nothing. The answer holds as long as the caller holds a block there. */
uintptr_t fh_outside_find(const void *p);

static inline uintptr_t fh_outside_word(const void *p) {
    return FH_LIKELY(fh_load(&fh_outside_entries) == 0) ? 0 : fh_outside_find(p);
}

#endif
