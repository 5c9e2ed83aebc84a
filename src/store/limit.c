#include "store/limit.h"

#include "base/assert.h"

fh_limit_books fh_limit;

static bool refuse(void) {
    fh_add_relaxed(&fh_limit.refusals, 1);
    fh_set_due(FH_DUE_LIMIT);
    return false;
}

bool fh_limit_admit(size_t bytes, bool spare) {
    size_t hard = (size_t)fh_load(&fh_limit.hard), reserve = fh_limit_reserve(hard);
    /* Lifted a moment ago; and the sum below cannot overflow. */
    if (hard != 0 && bytes > hard) return refuse();
    /* acquire: a thread that took its bytes away before has them in the books, which are read below. Relaxed would admit
     * two beyond the limit on a machine that shows the second word before the first. */
    size_t claimed = (size_t)fh_add_acq_rel(&fh_limit.pending, bytes) + bytes;
    FH_ASSERT(bytes != 0 && claimed >= bytes);
    size_t most = spare && fh_load(&fh_limit.reserve_is_open) ? hard : hard - reserve;
    if (hard != 0 && fh_used_bytes() + claimed > most) {
        uint64_t pending = fh_sub_relaxed(&fh_limit.pending, bytes);
        FH_ASSERT(pending >= bytes);
        return refuse();
    }
    fh_set_due(FH_DUE_LIMIT);
    return true;
}

void fh_limit_done(size_t bytes) {
    uint64_t pending = fh_sub_release(&fh_limit.pending, bytes); /* release: the books before it; see fh_limit_admit */
    FH_ASSERT(pending >= bytes);
}

void fh_limit_hold(size_t bytes) {
    uint64_t pending = fh_add_relaxed(&fh_limit.pending, bytes);
    FH_ASSERT(bytes != 0 && pending + bytes >= bytes);
}
