/* What the heap holds at this moment, by reading the words: nothing is counted while the program allocates.
 *
 * The structure is the one of the shared page (observe/profile.h), so that what a program asks of itself, what the metrics say
 * and what another process sees are the same figures. docs/statistics.md has each of them with its equation. */
#ifndef FH_OBSERVE_STATISTICS_H
#define FH_OBSERVE_STATISTICS_H

#include "base/types.h"
#include "observe/profile.h"

#include <stdbool.h>

/* The name that src/api still uses. */
typedef fh_profile_statistics fh_profile_figures;

#define FH_FIGURES_LARGE 0u /* the row of runs above 1 MiB: class 0 has no blocks of its own */

/* Fills *f, but for its sequence. Any thread, any time: nobody is stopped, so that figures of a running program are a
 * little off (never negative, never out of bounds). Reads a record for each slot: about 1 ms for 1 GiB, and a few files of
 * the kernel's. Does not allocate; needs 8 KiB of stack. */
void fh_statistics_collect(fh_profile_statistics *f);

/* Whose blocks the class has. */
fh_profile_use fh_statistics_use(unsigned c);

/* Totals that are not kept in the structure. */
typedef struct {
    uint64_t cached_blocks, free_blocks;
} fh_statistics_total;

fh_statistics_total fh_statistics_sum(const fh_profile_statistics *f);

/* A structure to fill: it is too large for the stack of any thread. There is one for all, and a mapping of its own for
 * whoever finds it in use; NULL when there is no memory for that. Never waits. */
fh_profile_statistics *fh_statistics_borrow(void);
void fh_statistics_return(fh_profile_statistics *f);

#endif
