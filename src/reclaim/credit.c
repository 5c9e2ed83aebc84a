#include "reclaim/credit.h"

#include "base/assert.h"
#include "reclaim/budget.h"
#include "system/system.h"

static fh_word faded_second; /* up to which the credit has faded */

/* Once a second, by the thread that moves the clock. */
static void fade(void) {
    uint64_t now = fh_system_seconds(), then = fh_load(&faded_second), credit = fh_load(&fh_order.credit);
    if (now == then || !fh_cas_relaxed(&faded_second, &then, now) || then == 0) return;
    size_t rest = fh_credit_after((size_t)credit, (size_t)fh_load(&fh_counts.reused), now - then);
    FH_ASSERT(rest <= credit);
    fh_store(&fh_counts.reused, 0); /* what is added meanwhile is lost */
    /* Compare-and-swap: a thread that was interrupted since it read the figure must not lower a newer one. */
    fh_cas_relaxed(&fh_order.credit, &credit, rest);
}

size_t fh_credit_now(void) {
    if (fh_load(&fh_order.credit)) fade();
    uint64_t bytes = fh_load(&fh_counts.refaulted) ? fh_swap_acq_rel(&fh_counts.refaulted, 0) : 0;
    if (bytes) fh_add_relaxed(&fh_order.credit, bytes);
    return (size_t)fh_load(&fh_order.credit);
}
