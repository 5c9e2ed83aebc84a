/* Which calls are on which heap: so a checked build finds a heap that is reset or destroyed while another call is on it, or on
 * one of its blocks. Release builds do not ask.
 *
 *     a call     entry: 0 ──(compare-and-swap)──▶ heap ── fence ── `ending` is 0? ── the call ── entry: 0
 *     an end     `ending`: 0 ──(compare-and-swap)──▶ thread ── fence ── no entry has the heap? ── reset, or destroy
 *
 * Each writes before it reads what the other writes. So of two that overlap one at least meets the other, and is refused with a
 * report. A thread may use the heap in the callbacks of its own end. The header of a heap that was destroyed is kept for a while:
 * then a use after destroy finds it, and not another heap at the same address.
 *
 * In the child of a fork no call of another thread is on a heap: both words have the process's generation in them.
 *
 * Thread-safety: any thread. Progress: wait-free except for the claim of an entry, which is lock-free. */
#ifndef FH_HEAP_USE_H
#define FH_HEAP_USE_H

#include "heap/types.h"

/* Marks a call on the heap. NULL: it was refused and reported, with p. The heap does not end before fh_use_end. Not marked, and so
 * not met by an end, is a call while 256 others are on heaps. */
fh_word *fh_use_begin(const char *call, const void *p, fh_heap *h);
void fh_use_end(fh_word *use);

/* The same for a call on the block at p, which o has. NULL also if another part of a heap has it by now. */
fh_word *fh_use_begin_block(const char *call, const void *p, const fh_owned *o);

/* From now on other threads' calls on the heap are refused. False: a call is on it, which is reported; nothing was done. */
bool fh_use_close(const char *call, fh_heap *h);

/* After a reset, or if the heap did not end. */
void fh_use_open(fh_heap *h);

/* The heap is over. Its first slot is kept; returns the one that was kept longest, which is to be released, or NULL. */
fh_heap *fh_use_keep(fh_heap *h);

#endif
