/* Limits: the program's own (FREEHOLD=limit=2g, fh_limit_set) and that of the control group that it is in.
 *
 * The own hard limit is enforced where memory is claimed (store/limit.h). Here is what follows from it: the pressure, what
 * is purged so that live and idle memory together fit below it, and the program's callback.
 *
 * The control group's limit refuses nothing, because the kernel enforces it, by killing. Approaching it is pressure: caches
 * shrink, and what is free is purged at once. The group is read when the heap grows: once a second, and when an eighth of
 * what was left at the last reading has been used up, because a heap can fill a small container in a hundredth of a second.
 * What was claimed since then counts as used, because the program may be about to write to all of it.
 * How much the group waits for memory (PSI) is read once a second.
 *
 * Thread-safety: any thread. Progress: lock-free; the group's files are read by one thread at a time. */
#ifndef FH_RECLAIM_LIMITS_H
#define FH_RECLAIM_LIMITS_H

#include "store/limit.h"

/* The option has changed. */
void fh_limits_configure(void);

/* There was a claim under a hard limit: brings the pressure up to date and purges what does not fit. */
void fh_limits_check(void);

/* The heap has grown: reads the control group now and then. */
void fh_limits_check_group(void);

/* Reads the control group for the last time (fh_system_restrict). What it uses from then on is what it used then and what
 * this heap has grown by since: other processes of the group, and a limit that is changed, are not seen any more. */
void fh_limits_remember_group(void);

/* Sets soft and hard limit (0: none) and what is called when the soft one is passed, or the hard one met: with the bytes in
 * use and the limit in question. It may free, and may allocate. */
typedef void (*fh_limit_callback)(size_t in_use, size_t limit);
void fh_limits_install(size_t soft, size_t hard, fh_limit_callback callback);

/* Calls the callback. `refused`: an allocation failed. `caller`: a number of the calling thread's own, not 0. `block`: what was
 * allocated and the program does not have yet, or NULL; nothing else is held. One thread at a time, and not again from within. */
void fh_limits_call_back(bool refused, uint64_t caller, void *block);

/* That thread ends, and its cache still works. If it ends from within the callback, by pthread_exit or cancelled, others may call
 * it again, and the block is freed. */
void fh_limits_thread_ends(uint64_t caller);

/* In the child of a fork that thread is the only one: no other can be in the callback, or about to claim. */
void fh_limits_forked(uint64_t caller);

/* The program is about to get NULL: from now on small blocks may come out of the reserve. */
void fh_limits_refused(void);

/* For the statistics: both limits (0: none), the bytes that count against them, and how often a claim was refused. */
typedef struct {
    size_t soft, hard, in_use;
    uint64_t refusals;
    bool by_program; /* set by fh_limits_install, and not by an option */
} fh_limit_figures;
fh_limit_figures fh_limits_now(void);

#endif
