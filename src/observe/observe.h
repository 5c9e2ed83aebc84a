/* The observer: it composes threads, samples, sites and the profile file. The layers below call it through base/hooks.h. */
#ifndef FH_OBSERVE_OBSERVE_H
#define FH_OBSERVE_OBSERVE_H

#include "observe/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The program ends by itself: the last statistics, and the end of its profile file. */
void fh_observe_end(void);

/* The bytes until the calling thread's next sample are drawn. Returns the interval with which the last were drawn. */
uint64_t fh_observe_draw(void);

/* The calling thread's draw is over. True: it chose the block for a guard and not for a sample. To be asked before the next
 * draw. */
bool fh_observe_draws_guard(void);

/* Writes what is known of a touch of a guard into the profile file, if there is one: the first of them stays. Also in a signal
 * handler. */
void fh_observe_fault(fh_profile_fault *fault);

/* Enters the block at p, of n bytes, that was sampled with that interval. `frame`: of the function of ours that the program
 * called, or of one further in. */
void fh_observe_sampled(const void *p, size_t n, uint64_t interval, const void *frame);

/* A block of which the program says that it holds pointers (fh_malloc_type): in a partition of its own, and never sampled. Of a
 * checked program and in a scope of a heap it is one like all others. *clean, said: as for fh_hook_alloc_aligned. */
void *fh_alloc_pointers(size_t align, size_t n, bool *clean, unsigned said);

/* The block at p, of n bytes, is one of the heap now: it is drawn with the probability of its size, and then entered. */
struct fh_heap;
void fh_observe_heap_block(struct fh_heap *heap, const void *p, size_t n, const void *frame);

/* A sample was due, and there was no memory for it. */
void fh_observe_lost(void);

#endif
