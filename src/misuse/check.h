/* Option check: every misuse of a block that can be found at run time is found, in any program, without another build. The
 * blocks carry a header and a guard (block.h), are filled, and wait in a quarantine when they are freed (quarantine.h).
 *
 *     malloc ─▶ fh_alloc_slow ─▶ fh_hook_alloc ─▶ fh_hook_checked_alloc ─▶ fh_alloc_unobserved        cache/
 *     free ──▶ fh_release_slow ─▶ release ──────▶ fh_hook_checked_free ─┬─ winner: checks, fills, quarantine
 *                                                                     └─ loser: double free
 *     leaving the quarantine: checks again ─▶ fh_release_unchecked                                   cache/
 *
 * Off, none of it costs an instruction of the hot path: threads get here because their bins are empty and full at once
 * (cache/observed.h). Nothing in it allocates from the heap or takes a lock. errno is kept. */
#ifndef FH_MISUSE_CHECK_H
#define FH_MISUSE_CHECK_H

#include "system/tools.h"

#include <stdbool.h>
#include <stddef.h>

/* The program is checked from now on, and that tool is told of its blocks. False, with a line on stderr: it has other threads,
 * or is observed. */
bool fh_checked_start(fh_tool_kind tool);

/* The process ends, and is checked: what is in quarantine and what is still live is checked once more. */
void fh_checked_end(void);

/* The block at p, which the calling thread has just been given, came from that family of calls (FH_SAYS_…). */
void fh_checked_set_family(void *p, unsigned family);

/* And is one of fh_malloc_at_least and its kin: freed with the size that was asked for, or with the one that it has. */
void fh_checked_set_rounded(void *p);

/* For fh_check: true, and a report that does not end the process, if p is no live block, or a damaged one. False of NULL, and in
 * a program that is not checked. Keeps errno. */
bool fh_checked_look(const void *p);

/* What the program asked for at p; 0 and a report if p is no live block. */
size_t fh_checked_usable(const void *p);

#endif
