#include "store/limit.h"

#include "base/assert.h"

fh_limit_books fh_limit;

/* Of the calling thread. Its part of `pending` is set before it adds and taken away after it subtracts. So a fork from a signal
 * handler in between may count it once too often, and never too rarely. What is left of that goes with the claim. */
static __thread struct {
    size_t pending;
    bool is_forks_child; /* the fork came in between */
    bool was_refused;    /* the last claim that asked */
} own __attribute__((tls_model("initial-exec")));

static uint64_t add_pending(size_t bytes) {
    own.pending += bytes;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    /* acquire: a thread that took its bytes away before has them in the books, which are read after this. Relaxed would
     * admit two beyond the limit on a machine that shows the second word before the first. */
    return fh_add_acq_rel(&fh_limit.pending, bytes) + bytes;
}

static void subtract_pending(size_t bytes) {
    uint64_t pending = fh_sub_release(&fh_limit.pending, bytes); /* release: the books before it; see add_pending */
    FH_ASSERT(pending >= bytes);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    own.pending -= bytes;
    if (FH_LIKELY(!own.is_forks_child) || own.pending) return;
    own.is_forks_child = false;
    fh_store(&fh_limit.pending, 0);
}

bool fh_limit_has_refused(void) {
    return own.was_refused;
}

static bool refuse(void) {
    own.was_refused = true;
    fh_add_relaxed(&fh_limit.refusals, 1);
    fh_set_due(FH_DUE_LIMIT);
    return false;
}

bool fh_limit_admit(size_t bytes, bool spare) {
    size_t hard = (size_t)fh_load(&fh_limit.hard), reserve = fh_limit_reserve(hard);
    /* Lifted a moment ago; and the sum below cannot overflow. */
    if (hard != 0 && bytes > hard) return refuse();
    size_t claimed = (size_t)add_pending(bytes);
    FH_ASSERT(bytes != 0 && claimed >= bytes);
    size_t most = spare && fh_load(&fh_limit.reserve_is_open) ? hard : hard - reserve;
    if (hard != 0 && fh_used_bytes() + claimed > most) {
        subtract_pending(bytes);
        return refuse();
    }
    own.was_refused = false;
    fh_set_due(FH_DUE_LIMIT);
    return true;
}

void fh_limit_done(size_t bytes) {
    subtract_pending(bytes);
}

void fh_limit_forked(void) {
    fh_store(&fh_limit.pending, own.pending);
    own.is_forks_child = own.pending != 0;
}

void fh_limit_hold(size_t bytes) {
    FH_ASSERT(bytes != 0);
    (void)add_pending(bytes);
}
