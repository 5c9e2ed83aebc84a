/* Checks what caches and depots hold: each bin, each magazine, and each block in one.
 *
 * Cost: reads every magazine; a block costs some 10 ns. */
#ifndef FH_CHECK_MAGAZINES_H
#define FH_CHECK_MAGAZINES_H

#include "base/types.h"
#include "check/report.h"

/* All caches and depots of a heap at rest, after fh_check_chunks. */
void fh_check_magazines(fh_verification *check);

/* One cache, by its owner, while other threads run: the bins, their magazines' headers and the budget. All of these words are
 * the owner's own. */
void fh_check_bins(fh_verification *check, const fh_thread *t);

#endif
