/* The search for what can be reached, in a frozen copy of the process that is the scan's alone: it writes into the copy's heap
 * where that saves memory. Conservative: every aligned word that could be a pointer into a live block, be it into its middle,
 * is taken for one. */
#ifndef FH_OBSERVE_REACH_SCAN_H
#define FH_OBSERVE_REACH_SCAN_H

#include "observe/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fh_reach fh_reach;

/* Makes the bitmaps and takes everything that is free out of the way. NULL: no memory. About 1 % of the heap's size. How far
 * it has come is told in *answer from then on. */
fh_reach *fh_reach_begin(fh_profile_scan *answer);

/* Follows everything from the writable memory of the program: its variables, thread-local ones, stacks. Of the stack that
 * `stack` is on, only what is above. False: the list of mappings cannot be read. */
bool fh_reach_follow(fh_reach *r, uintptr_t stack);

/* True if the block that `address` points into was reached; *live: there is a live block. */
bool fh_reach_reached(const fh_reach *r, uintptr_t address, bool *live);

/* Counts all live blocks, reached and not. */
void fh_reach_count(const fh_reach *r, fh_profile_scan *answer);

#endif
