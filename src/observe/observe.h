/* The observer: it composes threads, samples, sites and the profile file. The layers below call it through base/hooks.h. */
#ifndef FH_OBSERVE_OBSERVE_H
#define FH_OBSERVE_OBSERVE_H

#include <stddef.h>
#include <stdint.h>

/* The program ends by itself: the last statistics, and the end of its profile file. */
void fh_observe_end(void);

/* The bytes until the calling thread's next sample are drawn. Returns the interval with which the last were drawn. */
uint64_t fh_observe_draw(void);

/* Enters the block at p, of n bytes, that was sampled with that interval. `frame`: of the function of ours that the program
 * called, or of one further in. */
void fh_observe_sampled(const void *p, size_t n, uint64_t interval, const void *frame);

/* A sample was due, and there was no memory for it. */
void fh_observe_lost(void);

#endif
