/* Blocks back into their heap, found by their address alone.
 *
 * Thread-safety: any thread, except on a private heap. Progress: lock-free; of a block of a stripe
 * wait-free (stripes.h). */
#ifndef FH_HEAP_FREE_H
#define FH_HEAP_FREE_H

#include "heap/types.h"

/* What has the slot of p; NULL: no heap has it. */
const fh_owned *fh_owned_at(const void *p);

/* As fh_hook_heap_block, but the bytes that the block has: a tool that watches memory lets the program use fewer (told.h). */
void *fh_heap_block(const void *p, size_t *size);

/* Frees a live block. */
void fh_heap_give(const char *call, const fh_owned *o, void *p);

#endif
