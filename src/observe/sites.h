/* Call sites: what a node of the stack tree has allocated and freed, in weighted sums (profile.h). Sums only grow. Each is
 * one atomic addition, so that threads which allocate at the same site do not disturb each other. A reader may find one
 * sum newer than another by the samples that are being entered just then.
 *
 * Thread-safety: any thread. Progress: lock-free. */
#ifndef FH_OBSERVE_SITES_H
#define FH_OBSERVE_SITES_H

#include "observe/profile_file.h"
#include "observe/sampling.h"

/* The number of the site of that node, in heaps of that name (heaps.h) or in none; 0: no room. */
uint32_t fh_site_of(uint32_t node, uint32_t heap);

void fh_site_allocated(fh_profile_control *control, uint32_t site, const fh_weight *w, uint64_t now);
void fh_site_freed(fh_profile_control *control, uint32_t site, const fh_weight *w, uint64_t now, uint64_t born);

/* What a sample of the site stands for has changed: realloc changed its block where it is. */
void fh_site_resized(fh_profile_control *control, uint32_t site, const fh_weight *before, const fh_weight *after,
                     uint64_t age);

/* The child of a fork has a profile file of its own: forgets all numbers. No other thread may use the table. */
void fh_sites_clear(void);

size_t fh_sites_bytes(void); /* of private memory */

#endif
