/* The few calls by which a lower layer reaches an upper one. Everything else goes downwards: api → cache → store →
 * system. Each hook is defined exactly once, in the layer named beside it. */
#ifndef FH_BASE_HOOKS_H
#define FH_BASE_HOOKS_H

/* api/options.c: reads the options from the environment, if nobody has done so and the C library has set it up. The
 * first allocation of a process calls it, and again a constructor, because the first allocation may come before there
 * is an environment. Never waits: a thread that comes while another one reads goes on with the defaults.
 * May be entered again from within itself; does not allocate. Any thread. */
void fh_hook_start(void);

#endif
