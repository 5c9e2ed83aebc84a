/* A heap over memory that callbacks of the program give: regions, each as given.h has it. The first one has 1 MiB, and later ones as
 * much as the heap has then. If a limit or the program does not allow that it is half of it, and so on. A region is charged whole. All go back when
 * the heap is reset or destroyed.
 *
 * Thread-safety: any thread, except on a private heap; two may ask for a region at once. Progress: lock-free, except the
 * callbacks. */
#ifndef FH_HEAP_REGIONS_H
#define FH_HEAP_REGIONS_H

#include "heap/types.h"

/* NULL: *full is the heap whose limit is in the way, or this one: the program gives no more. */
void *fh_regions_take(fh_heap *h, size_t align, size_t n, fh_heap **full);

void fh_regions_each(const fh_heap *h, fh_heap_seen *see, void *arg);

size_t fh_regions_resident(const fh_heap *h);

/* All go back. Returns the bytes that were charged. */
size_t fh_regions_end(fh_heap *h);

#endif
