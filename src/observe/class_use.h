/* Whose blocks a size class has: the rows of the statistics, and of a scan, are told apart by it. */
#ifndef FH_OBSERVE_CLASS_USE_H
#define FH_OBSERVE_CLASS_USE_H

#include "base/types.h"
#include "observe/profile.h"

#define FH_FIGURES_LARGE 0u /* the row of runs above 1 MiB: class 0 has no blocks of its own */

static inline fh_profile_use fh_statistics_use(unsigned c) {
    if (c < FH_BINS) return FH_PROFILE_USE_PROGRAM;
    if (c == FH_CLASS_EDGE) return FH_PROFILE_USE_EDGES;
    return c >= FH_CLASS_SAMPLE && c <= FH_SAMPLE_LAST ? FH_PROFILE_USE_SAMPLES : FH_PROFILE_USE_OWN;
}

#endif
