/* The thread of purge=background: purges what there was no demand for in a while. Off by default; the budget alone bounds
 * what an idle program keeps, and this takes away what is left below it.
 *
 *     awake    a round every 250 ms: purges half of what was unused since the last round, and the rest when that is below
 *              a MiB; after a second in which the heap did not change also what depots, parked caches and empty slabs
 *              hold, and free pages inside of slabs
 *     asleep   when nothing is left to purge. It is woken by the thread that frees, when that makes a MiB: an idle process
 *              is not woken at all, and a busy one four times a second
 *
 * It blocks all signals, has a stack of its own of 128 KiB, and does not keep a program from ending. What threads have in
 * their magazines stays with them. Its state is one word:
 *
 *     NONE ──▶ WANTED ──▶ AWAKE ◀──▶ ASLEEP        any ──▶ OVER (the library ends)      WANTED ──▶ FAILED
 *
 *     NONE → WANTED      a safe point in a heap of 8 MiB while the option is set, by compare-and-swap
 *     WANTED → AWAKE     the thread that starts it, at the end of an allocation, by compare-and-swap
 *     AWAKE → ASLEEP     the background thread alone: there is nothing to purge. It then checks once more
 *     ASLEEP → AWAKE     a thread that leaves a MiB for it, by compare-and-swap, and wakes it; or itself, in that last check
 *     any → NONE         in the child of a fork, where it does not exist
 *
 * Store and load: a thread adds to the free memory and then reads the word; the background thread writes ASLEEP and then
 * reads the free memory. A barrier between the two on either side lets one of them see the other. Progress: wait-free,
 * except the background thread, which is made to wait. */
#ifndef FH_RECLAIM_BACKGROUND_H
#define FH_RECLAIM_BACKGROUND_H

#include "base/types.h"

#define FH_BACKGROUND_NONE UINT64_C(0)
#define FH_BACKGROUND_WANTED UINT64_C(1)
#define FH_BACKGROUND_AWAKE UINT64_C(2)
#define FH_BACKGROUND_ASLEEP UINT64_C(3)
#define FH_BACKGROUND_FAILED UINT64_C(4)
#define FH_BACKGROUND_OVER UINT64_C(5)

extern fh_word fh_background FH_HIDDEN;

/* The option has changed. */
void fh_background_configure(void);

/* Slots changed hands while the option is set: asks for the thread, or wakes it if that is worth it. */
void fh_background_check(void);

/* At the end of an allocation, with nothing held: makes the thread. */
void fh_background_start(void);

/* From now on the C library is ready to make threads. */
void fh_background_allow(void);

/* In the child of a fork: there is none. */
void fh_background_forked(void);

/* The program ends: the thread does nothing any more. It is not waited for, because the library's code stays mapped to the
 * very end (the linker is told so, for the sake of threads that end after dlclose). */
void fh_background_end(void);

#endif
