/* Freed blocks wait here before their memory is used again: so a use after free meets bytes that are nobody else's.
 *
 *     tail ──▶ oldest ■■■■■■■■■ newest ◀── head       a ring of slots, each 0 or a block's header
 *
 *     put:   head grows by fetch_add, the block is swapped into its slot; what was there leaves
 *     leave: tail grows by compare-and-swap, its slot is swapped for 0; a block that was there leaves
 *     equation:  bytes  =  Σ of the blocks in slots, and of those that are on their way in or out
 *
 * Every exchange is acq_rel and gives the block to one thread, which sees all that was written to it before. So a block leaves
 * once, whatever order threads come in; a slot that is met twice is empty the second time. Progress: wait-free; a put lets at
 * most FH_QUARANTINE_LEAVE blocks go. model/src/quarantine.rs explores it. */
#ifndef FH_MISUSE_QUARANTINE_H
#define FH_MISUSE_QUARANTINE_H

#include "misuse/block.h"

#define FH_QUARANTINE_LEAVE 64u

/* Places in the ring. */
#define FH_QUARANTINE_SLOTS ((uint64_t)1 << 17)

/* Maps the ring. False: no memory; then blocks leave at once. */
bool fh_quarantine_start(void);

/* Of a longer block the middle, which is not filled, returns to the OS while it waits: it needs address space and no memory. */
#define FH_QUARANTINE_WHOLE ((size_t)256 * 1024)

/* The block is FREED and the caller's. `leave` gets each block whose time is over. */
void fh_quarantine_put(fh_checked *h, void (*leave)(fh_checked *h));

/* All leave. */
void fh_quarantine_drain(void (*leave)(fh_checked *h));

/* Each block is taken out, seen and put back: nothing leaves. For the end of the process and fh_heap_check. */
void fh_quarantine_each(void (*see)(fh_checked *h));

#endif
