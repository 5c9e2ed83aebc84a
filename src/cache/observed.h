/* A thread that is observed: every allocation is counted, and some are sampled.
 *
 *     not observed    fh_self_bins ─▶ the bins of its cache
 *     observed        fh_self_bins ─▶ decoy bins, read-only, empty and full at once
 *
 * So malloc and free of an observed thread go to their slow halves every time. These find the real bin by the place of the
 * decoy, malloc counts (observe/allocate.c), and both do what the hot path would have done. The hot path itself has not one
 * instruction for all this, and a thread changes between the two by writing one word.
 *
 * Measured and rejected: a countdown on the hot path (2 instructions for everybody); a second malloc that the loader chooses
 * (cannot be switched on in a running program, and not in a static one on musl); decoy bins in front of each thread's own, to
 * which class bytes with their eighth bit set lead free directly (saves 0.4 % of an observed program's instructions on
 * average and 1.0 % at most; costs 2 KiB a thread and half of the class numbers). */
#ifndef FH_CACHE_OBSERVED_H
#define FH_CACHE_OBSERVED_H

#include "cache/cache.h"

/* 1 from the moment when observing was asked for, for ever: slow paths then call the observer's hooks. Relaxed: a thread
 * that sees it late is observed late. */
extern fh_word fh_observing FH_HIDDEN;

typedef struct {
    fh_thread *thread; /* the calling thread's cache, observed or not, or one of those of threads that have none */
    int64_t bytes_until_sample; /* of an observed thread */
} fh_thread_state;

extern __thread fh_thread_state fh_here __attribute__((tls_model("initial-exec"))) FH_HIDDEN;

extern const fh_bin fh_decoy_bins[FH_BINS] FH_HIDDEN;

static inline fh_thread *fh_own(void) {
    return fh_here.thread;
}

/* The real bin behind a decoy of the calling thread; NULL if it is none. */
static inline fh_bin *fh_behind_decoy(fh_bin *bin) {
    size_t offset = (size_t)((const char *)bin - (const char *)fh_decoy_bins);
    return FH_LIKELY(offset >= sizeof fh_decoy_bins) ? NULL : (fh_bin *)((char *)fh_own()->bin + offset);
}

/* Counts n bytes that an observed thread asks for. False, and nothing is counted, if a sample is due within them. */
static inline bool fh_count_unsampled(size_t n) {
    int64_t left = fh_here.bytes_until_sample - (int64_t)n;
    if (FH_UNLIKELY(left < 0)) return false;
    fh_here.bytes_until_sample = left;
    return true;
}

/* True if the calling thread is observed. */
static inline bool fh_is_observed(void) {
    return fh_bins() == fh_decoy_bins;
}

/* Makes the calling thread, whose cache is t, observed or not. */
void fh_thread_observe(fh_thread *t, bool on);

/* The program is observed from now on. */
void fh_thread_observe_all(void);

#endif
