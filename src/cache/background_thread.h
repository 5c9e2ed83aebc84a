/* The thread of purge=background: gives back what nobody has wanted for a while. Off by default; the budget alone bounds
 * what a sleeping program keeps, and this takes away what is left below it.
 *
 *     awake    looks every 250 ms, gives back half of what lay unused since the last look, and the rest when that is below
 *              a MiB; after a second in which the heap stood still also what depots, parked caches and empty slabs hold,
 *              and free pages inside of slabs
 *     asleep   when nothing is left to give back. It is woken by whoever frees, when that makes a MiB: an idle process is
 *              not woken at all, and a busy one four times a second
 *
 * It blocks all signals, has a stack of its own of 128 KiB, and does not keep a program from ending. What threads have in
 * their magazines stays with them. */
#ifndef FH_CACHE_BACKGROUND_THREAD_H
#define FH_CACHE_BACKGROUND_THREAD_H

/* Called in an allocation, with nothing held, while fh_background is FH_BACKGROUND_WANTED: makes the thread. */
void fh_background_start(void);

/* From now on the C library is ready to make threads. */
void fh_background_allow(void);

/* In the child of a fork: there is none. */
void fh_background_forked(void);

/* The program ends: the thread does nothing any more. It is not waited for, as the library's code stays where it is to the
 * very end (the linker is told so, for the sake of threads that end after dlclose). */
void fh_background_end(void);

#endif
