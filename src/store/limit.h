/* Admission: may n bytes be claimed while a hard limit is set? Arithmetic over the books, and nothing else: what is
 * done about a refusal is the policy's (reclaim/limits.h), at the end of the slow path.
 *
 * What counts is memory that blocks are or were in: slots in use. It is charged where slots are claimed, never for a single
 * block: a program without a limit pays one load a slab.
 *
 *     equation with a hard limit, at every moment:   slots in use + pages of guarded blocks (guarded.h)
 *                                                    + what is being claimed  ≤  hard
 *
 * `pending` is what is being claimed or released at this moment. It is added before the books are read, and taken away after
 * the claim is in the books, or the slots are free. What is being released counts twice for an instant: too much, never too
 * little. In a heap at rest it is 0 [limit.pending]. So two threads that claim at once can both be refused, but
 * not both admitted beyond the limit.
 *
 * The policy side is reclaim/limits.c. It sets `hard`, opens the reserve after a refusal, and closes it when there is room
 * again. fh_limit_reserve is a rule of that policy. It stands here because admission needs it.
 *
 * Thread-safety: any thread. Progress: wait-free. */
#ifndef FH_STORE_LIMIT_H
#define FH_STORE_LIMIT_H

#include "store/events.h"

typedef struct {
    fh_word hard;            /* bytes; 0: no limit */
    fh_word pending;         /* bytes admitted and not yet in the books */
    fh_word reserve_is_open; /* 1 from the first refusal until enough is free again */
    fh_word refusals;        /* claims that were refused */
} fh_limit_books;

extern fh_limit_books fh_limit FH_HIDDEN;

/* True if there is a hard limit. */
static inline bool fh_limit_is_set(void) {
    return FH_UNLIKELY(fh_load(&fh_limit.hard) != 0);
}

/* What is held back of a hard limit until the first refusal, for the small blocks that dealing with a refusal takes: a
 * message, an exception, a request that is answered with an error. A slot for each of some dozens of classes, because at
 * that moment no empty slab is kept any more. */
static inline size_t fh_limit_reserve(size_t hard) {
    size_t share = hard / 16;
    return share < 2 * FH_SLOT_SIZE ? 2 * FH_SLOT_SIZE : share > 4 * FH_MIB ? 4 * FH_MIB : share;
}

/* True if a large block of n bytes fits below the hard limit in no case, however much is freed. */
static inline bool fh_limit_excludes(size_t n) {
    size_t hard = (size_t)fh_load(&fh_limit.hard);
    return FH_UNLIKELY(hard != 0) && n > hard - fh_limit_reserve(hard);
}

/* May `bytes` be claimed? Only to be asked when a limit is set. If so, fh_limit_done must follow when the claim is
 * in the books, or has failed. `spare`: a single slot, for small blocks, which may come out of the reserve. */
bool fh_limit_admit(size_t bytes, bool spare);
void fh_limit_done(size_t bytes);

/* `bytes` count no more but are not free yet. fh_limit_done must follow when they are. */
void fh_limit_hold(size_t bytes);

/* In the child of a fork: what other threads were about to claim is not pending here, because they do not exist. A claim that
 * a signal handler forked within continues, and is not pending. */
void fh_limit_forked(void);

#endif
