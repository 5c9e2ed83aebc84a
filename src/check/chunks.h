/* Checks what the window holds: each chunk with its slots, slabs and runs, and the hints that lead to them.
 *
 * Thread-safety: for a heap at rest. Cost: reads all metadata, some 40 KiB for each chunk; a brief check a tenth of it. */
#ifndef FH_CHECK_CHUNKS_H
#define FH_CHECK_CHUNKS_H

#include "check/report.h"

void fh_check_chunks(fh_verification *check);

#endif
