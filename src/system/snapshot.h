/* A frozen copy of this process, for looking at it at leisure. linux_snapshot.c answers. errno is kept. */
#ifndef FH_SYSTEM_SNAPSHOT_H
#define FH_SYSTEM_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Forks, without the program noticing: nothing that it has registered for forks runs, its handlers of signals never run in
 * the copy, no signal comes when the copy ends, and a wait for any child does not see it. Returns the copy's process number
 * in the caller, 0 in the copy, and minus an error number if there is none.
 *
 * The copy has one thread, the caller's. It must not touch what libraries guard by locks (another thread may have held one),
 * and leaves by fh_snapshot_end. */
long fh_snapshot_fork(void);

/* In the copy: lets go of all files, so that whoever waits for the end of a pipe does not wait for the copy; takes what runs
 * more importantly before it; and is the first to go when memory is short. */
void fh_snapshot_settle(void);

_Noreturn void fh_snapshot_end(void);

/* In the caller, later: true if the copy has ended (or is not to be found); what the system kept of it is gone then. Does not
 * wait. */
bool fh_snapshot_ended(long process);

/* Makes a range readable, in the copy, where it may not have been. */
void fh_snapshot_make_readable(uintptr_t begin, uintptr_t end);

/* Which pages of a range of the copy have contents of their own: one byte a page, 1 or 0. At most `pages` are asked about;
 * returns for how many it is known, 0 if the system does not say. */
size_t fh_snapshot_contents(uintptr_t begin, size_t pages, unsigned char *has);

#endif
