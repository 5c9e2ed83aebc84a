/* The few calls by which a lower layer reaches an upper one. Everything else goes downwards: api → cache → store →
 * system. Each hook is defined exactly once, in the layer named beside it. */
#ifndef FH_BASE_HOOKS_H
#define FH_BASE_HOOKS_H

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fh_thread;

/* api/options.c: reads the options from the environment, if nobody has done so and the C library has set it up. The
 * first allocation of a process calls it, and again a constructor, because the first allocation may come before there
 * is an environment. Never waits: a thread that comes while another one reads goes on with the defaults.
 * May be entered again from within itself; does not allocate. Any thread. */
void fh_hook_start(void);

/* observe/metrics.c: a slow path is taken. Looks at the clock if somebody wants metrics, and sets fh_hook_due when it is time
 * to write them. Cheap otherwise. Any thread; may be called with a thread's cache half changed. */
void fh_hook_moment(void);

/* 1: whoever allocates next and holds nothing is to call fh_hook_write, which writes files. One thread does; the others
 * find it done or being done. Keeps errno. */
extern fh_word fh_hook_due __attribute__((visibility("hidden")));
void fh_hook_write(void);

/* observe/observe.c: what the observer does. None of these allocates, waits, or lets a failure be seen; errno is kept.
 *
 * A slow path of thread t begins, with nothing held: makes the page if it is not there, follows the control words, takes
 * figures when they are due. Called only while fh_observing is set. */
void fh_hook_observe(struct fh_thread *t);

/* The distance of the calling thread has ended: draws the next one. Returns the interval with which the last one was
 * drawn. */
uint64_t fh_hook_draw(void);

/* Enters the block at p, of n bytes, that was sampled with that interval. `frame`: of the function of ours that the
 * program called, or of one further in. */
void fh_hook_sampled(const void *p, size_t n, uint64_t interval, const void *frame);

/* The block at p, special to free, is about to be freed; it may be sampled (`surely`: it is or was). */
void fh_hook_freed(const void *p, bool surely);

/* realloc has changed the block at p, sampled or not, to n bytes where it is. */
void fh_hook_resized(const void *p, size_t n);

/* The pages of the block at p may be moved to another address now, and p become another block's at once: until
 * fh_hook_stayed(p), or fh_hook_freed(p + 1), the sample is known by the address p + 1. */
void fh_hook_moving(const void *p);
void fh_hook_stayed(const void *p);

/* The program is refused memory: a moment for figures. */
void fh_hook_refused(void);

/* In the child, after a fork. */
void fh_hook_forked(void);

/* ── Defined in check/verify.c ───────────────────────────────────────────────────────────────────────────────────── */

/* Checked and stress builds only: thread t has left a slow path and holds nothing. Checks its cache, and now and then more. Aborts if
 * something is wrong. */
void fh_hook_left(const struct fh_thread *t);

#endif
