/* Limits: the program's own (FREEHOLD=limit=2g, fh_limit_set) and the one of the control group that it lives in.
 *
 * What counts is memory that blocks lie in or lay in: slabs and runs in use, huge blocks, and freed ones of both that still
 * have memory. It is charged where slots are claimed and huge blocks are mapped, never for a single block: a program
 * without a limit pays one load a slab.
 *
 *     equation with a hard limit, at every moment:   slots in use + huge blocks + pending  ≤  hard
 *     pending: what is being claimed right now. It is added before the look and taken away after the claim is in the
 *     books, so that two threads that claim at once can both be refused, but not both admitted beyond the limit.
 *
 * The control group's limit refuses nothing, as the kernel enforces it, by killing. Approaching it is pressure: caches
 * shrink, and what is free goes back at once.
 *
 * Looks at the group are taken when the heap grows: once a second, and when an eighth of the room that was left at the last
 * look has been used up, as a heap can fill a small container in a hundredth of a second. How much the group waits for
 * memory (PSI) is read once a second.
 *
 * Thread-safety: any thread. Progress: lock-free; the group's files are read by one thread at a time. */
#ifndef FH_STORE_LIMIT_H
#define FH_STORE_LIMIT_H

#include "base/settings.h"
#include "base/types.h"
#include "store/policy.h"

/* fh_pressure now. */
extern fh_word fh_limit_pressure_word FH_HIDDEN;

static inline fh_pressure fh_limit_pressure(void) {
    return (fh_pressure)fh_load(&fh_limit_pressure_word);
}

/* True if there is a hard limit. */
static inline bool fh_limit_is_set(void) {
    return FH_UNLIKELY(fh_settings.limit != 0);
}

/* May so many bytes be claimed? Only to be asked when a limit is set. If so, fh_limit_done must follow when the claim is
 * in the books, or has failed. `spare`: a single slot, for small blocks, which may come out of the reserve. */
bool fh_limit_admit(size_t bytes, bool spare);
void fh_limit_done(size_t bytes);

/* The heap has grown, by a chunk, a huge block, or into what had no memory: looks at the control group now and then. */
void fh_limit_grown(void);

/* 1: there is a control group with a limit, and fh_limit_count is to be told of bytes that are about to get memory. */
extern fh_word fh_limit_grouped FH_HIDDEN;
void fh_limit_count(size_t bytes);

/* Sets soft and hard limit (0: none) and what is called when the soft one is passed, or the hard one met: with the bytes in
 * use and the limit in question. It may free, and may allocate. */
typedef void (*fh_limit_callback)(size_t in_use, size_t limit);
void fh_limit_install(size_t soft, size_t hard, fh_limit_callback callback);

/* Called with nothing held, after an allocation: calls the callback if it is due. True if it was called. `refused`: the
 * allocation failed, so it is due in any case; true is then a reason to try again. `caller`: a number of the calling thread's
 * own, not 0. */
bool fh_limit_relieve(bool refused, uint64_t caller);

/* That thread ends: if it does so from within the callback, by pthread_exit or cancelled, others may call it again. */
void fh_limit_left(uint64_t caller);

/* In the child of a fork that thread is the only one: nobody else can be in the callback. */
void fh_limit_forked(uint64_t caller);

extern fh_word fh_limit_due FH_HIDDEN;

/* For the statistics: both limits (0: none), the bytes that count against them, and how often a claim was refused. */
typedef struct {
    size_t soft, hard, in_use;
    uint64_t refusals;
    bool by_program; /* set by fh_limit_install, and not by an option */
} fh_limit_figures;
fh_limit_figures fh_limit_now(void);

/* For check/. [limit.pending] 0 when nobody is claiming. */
size_t fh_limit_pending(void);

/* The program is about to get NULL: from now on small blocks may come out of the reserve. */
void fh_limit_refused(void);

#endif
