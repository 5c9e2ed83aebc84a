#include "store/limit.h"

#include "base/assert.h"
#include "store/guarded.h"

fh_limit_books fh_limit;

static uint64_t add_pending(size_t bytes) {
    /* acquire: a thread that took its bytes away before has them in the books, which are read after this. Relaxed would
     * admit two beyond the limit on a machine that shows the second word before the first. */
    return fh_add_acq_rel(&fh_limit.pending, bytes) + bytes;
}

static void subtract_pending(size_t bytes) {
    uint64_t pending = fh_sub_release(&fh_limit.pending, bytes); /* release: the books before it; see add_pending */
    /* Less than was added: this is the child of a fork that came from a signal handler within the claim. */
    if (FH_UNLIKELY(pending < bytes)) fh_add_relaxed(&fh_limit.pending, bytes - pending);
}

static bool refuse(void) {
    fh_add_relaxed(&fh_limit.refusals, 1);
    fh_set_due(FH_DUE_LIMIT);
    return false;
}

bool fh_limit_admit(size_t bytes, bool spare) {
    size_t hard = (size_t)fh_load(&fh_limit.hard), reserve = fh_limit_reserve(hard);
    /* Lifted a moment ago; and the sum below cannot overflow. */
    if (hard != 0 && bytes > hard) return refuse();
    size_t most = spare && fh_load(&fh_limit.reserve_is_open) ? hard : hard - reserve;
    /* Asked before it is added: a thread that is refused again and again would keep the others from what there is. */
    if (hard != 0 && fh_charged_bytes() + (size_t)fh_load(&fh_limit.pending) + bytes > most) return refuse();
    size_t claimed = (size_t)add_pending(bytes);
    FH_ASSERT(bytes != 0 && claimed >= bytes);
    if (hard != 0 && fh_charged_bytes() + claimed > most) {
        subtract_pending(bytes);
        return refuse();
    }
    fh_set_due(FH_DUE_LIMIT);
    return true;
}

void fh_limit_done(size_t bytes) {
    subtract_pending(bytes);
}

void fh_limit_forked(void) {
    fh_store(&fh_limit.pending, 0);
}

void fh_limit_hold(size_t bytes) {
    FH_ASSERT(bytes != 0);
    (void)add_pending(bytes);
}
