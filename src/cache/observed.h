/* A thread that is observed: every allocation is counted, and some are sampled.
 *
 *     not observed    fh_self_pointer ──▶ the thread's cache      shift = 0
 *     observed        fh_self_pointer ──▶ fh_thread_face          shift = the thread's cache − fh_thread_face
 *
 * The face is one read-only cache for all observed threads, whose bins are empty and full at once. So malloc and free of
 * an observed thread go to their slow halves every time, and these count, and do with the real bin (a bin of the face +
 * shift) what the hot path would have done. The hot path itself has not one instruction for all this, and a thread
 * changes between the two by writing two words. A pair of malloc and free takes 17 instructions more.
 *
 * Measured and rejected: a countdown on the hot path (2 instructions for everybody); a second malloc that the loader
 * chooses (cannot be switched on in a running program, and not in a static one on musl); the thread's cache instead of the
 * shift (10 instructions more, as size and class are then to be looked up a second time). */
#ifndef FH_CACHE_OBSERVED_H
#define FH_CACHE_OBSERVED_H

#include "cache/cache.h"

/* 1 from the moment when observing was asked for: slow paths then call fh_hook_observe. Relaxed: a thread that sees it
 * late is observed late. */
extern fh_word fh_observing FH_HIDDEN;

typedef struct {
    intptr_t shift;
    int64_t distance; /* bytes that may still be asked for before a block is sampled */
} fh_observed_state;

extern __thread fh_observed_state fh_observed_here __attribute__((tls_model("initial-exec"))) FH_HIDDEN;

/* All bins empty and full; read-only. */
extern const fh_thread fh_thread_face FH_HIDDEN;

/* The calling thread's cache if it is observed, else NULL. */
static inline fh_thread *fh_observed(void) {
    intptr_t shift = fh_observed_here.shift;
    return shift ? (fh_thread *)((intptr_t)&fh_thread_face + shift) : NULL;
}

/* The calling thread's cache, observed or not, or one of those of threads that have none. */
static inline fh_thread *fh_own(void) {
    fh_thread *t = fh_observed();
    return t ? t : fh_self();
}

/* Makes the calling thread, whose cache is t, observed or not. */
void fh_thread_observe(fh_thread *t, bool on);

/* Counts n bytes that an observed thread asks for. True: the distance ended within them, the block is to be sampled.
 * More than half of the address space cannot be had; whoever refuses it sets the distance right again. */
static inline bool fh_counts(size_t n) {
    fh_observed_here.distance = (int64_t)((uint64_t)fh_observed_here.distance - n);
    return FH_UNLIKELY(fh_observed_here.distance < 0);
}

#endif
