/* A thread that is observed: every allocation is counted, and some are sampled.
 *
 *     the thread's cache      face[128]    bin[128]
 *     observed                ▲ fh_self_bins
 *     not observed                         ▲
 *
 * The bins of the face are empty and full at once. So malloc of an observed thread goes to its slow half every time, and
 * this counts, and does with the real bin, a face further on, what the hot path would have done. The hot path itself has
 * not one instruction for all this, and a thread changes between the two by writing a few words.
 *
 * free has nothing to count. It finds its bin by the byte of the class map, which has eight bits for 128 bins: in a program
 * that is observed from its beginning (MARKED) the classes have the eighth bit set, and lead free past the face to the real
 * bin. In one that was asked to later (PLAIN) they have not, and free goes the way of malloc. Both kinds of bytes are right in
 * either, as all that they decide is by which way free gets there: with the one exception that behind the bins of a
 * thread that is not observed there is nothing. So in a MARKED program all threads keep their face, with an endless
 * distance while nothing is to be sampled, and which of the two it is, is decided before there is any cache:
 *
 *     OPEN ──(the options say observe, before any cache is made)──▶ MARKED
 *     OPEN ──(the first cache is made)──▶ PLAIN                     each by compare-and-swap, once
 *
 * Measured and rejected: a countdown on the hot path (2 instructions for everybody); a second malloc that the loader
 * chooses (cannot be switched on in a running program, and not in a static one on musl); one read-only face for all threads
 * (the way from there to the real bin is a word more to be read, and cannot be a marked class's). */
#ifndef FH_CACHE_OBSERVED_H
#define FH_CACHE_OBSERVED_H

#include "cache/cache.h"

/* 1 from the moment when observing was asked for: slow paths then call fh_hook_observe. Relaxed: a thread that sees it
 * late is observed late. */
extern fh_word fh_observing FH_HIDDEN;

typedef struct {
    fh_thread *thread; /* the calling thread's cache, observed or not, or one of those of threads that have none */
    int64_t distance;  /* bytes until a block is sampled; below 0 if the thread has no face */
} fh_observed_state;

extern __thread fh_observed_state fh_observed_here __attribute__((tls_model("initial-exec"))) FH_HIDDEN;

static inline fh_thread *fh_own(void) {
    return fh_observed_here.thread;
}

/* The calling thread's cache if it is observed, else NULL. */
static inline fh_thread *fh_observed(void) {
    fh_thread *t = fh_own();
    return fh_bins() == t->face ? t : NULL;
}

/* The program is observed from now on; if no thread has a cache yet, it becomes MARKED. */
void fh_thread_observe_all(void);

/* Makes the calling thread, whose cache is t, observed or not; whoever wants it sampled sets the distance afterwards. */
void fh_thread_observe(fh_thread *t, bool on);

/* Counts n bytes that a thread asks for. True: it is observed and the distance ended within them, the block is to be
 * sampled; or it is not observed. More than half of the address space cannot be had; whoever refuses it sets the distance
 * right again. */
static inline bool fh_counts(size_t n) {
    fh_observed_here.distance = (int64_t)((uint64_t)fh_observed_here.distance - n);
    return FH_UNLIKELY(fh_observed_here.distance < 0);
}

#endif
