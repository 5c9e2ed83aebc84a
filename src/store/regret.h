/* Regret: how much was given back and soon wanted again. It raises the threshold of the next giving back, so that a program
 * which comes back to the same size again and again pays for the first time only, and it fades by half each second, so that
 * one which does not come back has its memory given back all the same (policy.h has the arithmetic).
 *
 * Thread-safety: any thread. Memory orders: relaxed, as these are figures to steer by and no memory is touched because of
 * them. Progress: wait-free; what is lost to a race is a little regret. */
#ifndef FH_STORE_REGRET_H
#define FH_STORE_REGRET_H

#include "store/policy.h"
#include "system/system.h"

typedef struct {
    fh_word amount; /* in whatever unit its user counts */
    fh_word second; /* up to which it has faded */
    fh_word reused; /* kept because of it, and in use again in this second: it does not fade below that */
} fh_regret;

static inline void fh_regret_add(fh_regret *r, size_t more) {
    fh_add_relaxed(&r->amount, more);
}

/* So much of what was kept is in use again. */
static inline void fh_regret_reused(fh_regret *r, size_t amount) {
    if (fh_load(&r->amount)) fh_add_relaxed(&r->reused, amount);
}

/* The regret, brought up to date once a second by whoever moves the clock. */
static inline size_t fh_regret_now(fh_regret *r) {
    uint64_t amount = fh_load(&r->amount);
    if (!amount) return 0;
    uint64_t now = fh_system_seconds(), then = fh_load(&r->second);
    if (now != then && fh_cas_relaxed(&r->second, &then, now) && then != 0) {
        uint64_t rest = fh_purge_regret(amount, fh_load(&r->reused), now - then);
        fh_store(&r->reused, 0); /* one that is added meanwhile is lost */
        /* Compare-and-swap: who was interrupted since it read the figure must not subtract from a smaller one. */
        if (fh_cas_relaxed(&r->amount, &amount, rest)) amount = rest;
    }
    return (size_t)amount;
}

#endif
