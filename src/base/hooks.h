/* The few calls by which a lower layer reaches an upper one. Everything else goes downwards: api → cache → store →
 * system. Each hook is defined exactly once, in the layer named beside it. */
#ifndef FH_BASE_HOOKS_H
#define FH_BASE_HOOKS_H

#include "base/atomic.h"

/* api/options.c: reads the options from the environment, if nobody has done so and the C library has set it up. The
 * first allocation of a process calls it, and again a constructor, because the first allocation may come before there
 * is an environment. Never waits: a thread that comes while another one reads goes on with the defaults.
 * May be entered again from within itself; does not allocate. Any thread. */
void fh_hook_start(void);

/* see/metrics.c: a slow path is taken. Looks at the clock if somebody wants metrics, and sets fh_hook_due when it is time
 * to write them. Cheap otherwise. Any thread; may be called with a thread's cache half changed. */
void fh_hook_moment(void);

/* 1: whoever allocates next and holds nothing is to call fh_hook_write, which writes files. One thread does; the others
 * find it done or being done. Keeps errno. */
extern fh_word fh_hook_due __attribute__((visibility("hidden")));
void fh_hook_write(void);

#endif
