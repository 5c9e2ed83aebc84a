/* What the kernel has in memory of that which no block accounts for: free slots, and room in slots in use that no block has
 * ever had. Where huge pages are in play such room is there without having been written to, and nothing but the kernel
 * knows. */
#ifndef FH_OBSERVE_RESIDENCY_H
#define FH_OBSERVE_RESIDENCY_H

#include "observe/profile.h"

/* Fills in the words of the kernel's answers; `measured` says whether there are any. Thread-safety: any
 * thread. Progress: lock-free, except what the kernel does. Cost: one question a chunk. */
void fh_residency_measure(fh_profile_statistics *f);

#endif
