/* A thread that is observed: every allocation is counted, and some are sampled.
 *
 *     the thread's cache      decoy[177]         bin[177]
 *     observed                ▲ fh_self_bins     ▲ fh_self_release_bins
 *     not observed                               ▲ both
 *
 * The decoy bins are empty and full at once. So malloc of an observed thread goes to its slow half every time, and this
 * counts, and does with the real bin, a row further on, what the hot path would have done. The hot path itself has not one
 * instruction for all this, and a thread changes between the two by writing a few words.
 *
 * free has nothing to count. It reads a word of its own, which shows the real bins, so an observed thread frees as any other.
 *
 * Measured and rejected: a countdown on the hot path (2 instructions for every program); a second malloc that the loader
 * chooses (cannot be switched on in a running program, and not in a static one on musl); one read-only row of decoys for all
 * threads (a pair of an observed thread took 59 instructions in place of 48); one word for malloc and free, so that free goes to
 * its slow half too (48 in place of 40); class bytes with their eighth bit set that lead free past the decoys (40, for half of the
 * class numbers; docs/weighed.md). */
#ifndef FH_CACHE_OBSERVED_H
#define FH_CACHE_OBSERVED_H

#include "cache/cache.h"

/* Bits, each set once and for ever: slow paths then call hooks. Not the first two: a checked program is not observed. Relaxed: a
 * thread that sees it late is observed late; FH_MODE_CHECK is set only while there is one thread.
 *
 *     FH_MODE_OBSERVE   the observer's hooks (observe/)
 *     FH_MODE_CHECK     every call goes to misuse/. Its threads have no decoys: their bins are the ones that threads
 *                       without a cache share, empty and full for ever, with a class map of no slots. So malloc
 *                       arrives at fh_hook_alloc and free at bin 0, which leads to fh_hook_checked_free.
 *     FH_MODE_SCOPE     some thread has been in a scope of a heap (heap/scope.h). One that is in a scope has no bins either.
 *     FH_MODE_PERTURB   blocks are filled (perturb.h). No thread has bins, and none is observed.
 *     FH_MODE_HARDEN    blocks are at random places, and wait when they are freed (hardened.h). The same. */
#define FH_MODE_OBSERVE UINT64_C(1)
#define FH_MODE_CHECK UINT64_C(2)
#define FH_MODE_SCOPE UINT64_C(4)
#define FH_MODE_PERTURB UINT64_C(8)
#define FH_MODE_HARDEN UINT64_C(16)
#define FH_MODES_UNOBSERVED (FH_MODE_PERTURB | FH_MODE_HARDEN)
extern fh_word fh_observing FH_HIDDEN;

static inline bool fh_is_observing(void) {
    return fh_load(&fh_observing) & FH_MODE_OBSERVE;
}

static inline bool fh_is_checking(void) {
    return fh_load(&fh_observing) & FH_MODE_CHECK;
}

static inline bool fh_is_hardened(void) {
    return fh_load(&fh_observing) & FH_MODE_HARDEN;
}

typedef struct {
    fh_thread *thread; /* the calling thread's cache, observed or not, or one of those of threads that have none */
    int64_t bytes_until_sample; /* below 0 if the thread is not observed */
} fh_thread_state;

extern __thread fh_thread_state fh_here __attribute__((tls_model("initial-exec"))) FH_HIDDEN;

static inline fh_thread *fh_own(void) {
    return fh_here.thread;
}

/* True if the slow paths of the calling thread are to call hooks. */
static inline bool fh_has_mode(void) {
    uint64_t modes = fh_load(&fh_observing);
    return FH_UNLIKELY(modes) && (modes != FH_MODE_SCOPE || fh_own()->scope);
}

/* Pushes p into the calling thread's own bin, whatever bins free sees, and does not look whether it is free already: the
 * caller knows. False: the bin has no room, or there is none for p. Checked builds look at each block. */
static inline bool fh_release_cached(void *p) {
    fh_bin *bin = &fh_own()->bin[fh_class_at(p)];
    void **top = bin->top;
    if (FH_UNLIKELY(FH_CHECKED || top == bin->end)) return false;
    fh_bin_push(bin, top, p);
    return true;
}

/* True if the calling thread is observed. */
static inline bool fh_is_observed(void) {
    return fh_bins() == fh_own()->decoy;
}

/* Of a thread whose bytes are used up, in a call for n bytes: true if a sample or a guard is due, or the thread is not observed.
 * With option guard they always are used up: the thread then counts in its cache, each allocation with its bytes and a weight
 * (observe/observe.c). A thread that is not observed has no weight. */
static inline bool fh_is_due(size_t n) {
    fh_thread *t = fh_own();
    if (FH_LIKELY(!fh_is_observed() || t->block_weight == 0)) return true;
    fh_here.bytes_until_sample = 0;
    t->weight_left -= (int64_t)(n + t->block_weight);
    return t->weight_left < 0;
}

/* Counts n bytes (a quarter of the address space at most) that an observed thread asks for. True: a sample or a guard is due. */
static inline bool fh_count(size_t n) {
    fh_here.bytes_until_sample -= (int64_t)n;
    return FH_UNLIKELY(fh_here.bytes_until_sample < 0) && fh_is_due(n);
}

/* Makes the calling thread, whose cache is t, observed or not. */
void fh_thread_observe(fh_thread *t, bool on);

/* The calling thread, whose cache is t, has entered its outermost scope or left it: it has no bins from now on, or its own. */
void fh_thread_scope(fh_thread *t);

/* FH_MODE_PERTURB or FH_MODE_HARDEN holds from now on. */
void fh_thread_take_bins(uint64_t mode);

/* The program is observed from now on. Does nothing in a checked program, and in a hardened one. */
void fh_thread_observe_all(void);

/* The program is checked from now on. False: it is observed, or has more threads than this one. */
bool fh_thread_check_all(void);

#endif
