/* The statistics: what the heap holds, by reading its words. Nothing is counted while the program allocates.
 *
 * The structure is that of the profile file (observe/profile.h): what a program asks of itself, what the metrics say and
 * what another process sees are the same statistics. docs/statistics.md has each of them with its equation. */
#ifndef FH_OBSERVE_STATISTICS_H
#define FH_OBSERVE_STATISTICS_H

#include "observe/class_use.h"
#include "observe/profile.h"

#include <stdbool.h>

/* Fills *f, except its sequence. Any thread, any time. No thread is stopped, so the statistics of a running program are a
 * little off (never negative, never out of bounds). Reads a record for each slot: about 1 ms for 1 GiB, and a few files of
 * the kernel's. Does not allocate; needs 4 KiB of stack. */
void fh_statistics_collect(fh_profile_statistics *f);

/* Totals that are not kept in the structure. */
typedef struct {
    uint64_t cached_blocks, free_blocks;
} fh_statistics_total;

fh_statistics_total fh_statistics_sum(const fh_profile_statistics *f);

/* A structure to fill: it is too large for the stack of any thread. There is one for all, and a mapping of its own for
 * a thread that finds it in use; NULL when there is no memory for that. Never waits. */
fh_profile_statistics *fh_statistics_borrow(void);
void fh_statistics_return(fh_profile_statistics *f);

#endif
