#include "reclaim/credit.h"

#include "base/assert.h"
#include "reclaim/budget.h"
#include "system/system.h"

static fh_word faded_ns; /* when the credit has faded last */

/* By the thread that moves the clock, when a whole second has passed since the last time. Not at each tick of a clock of
 * seconds: of two safe points some milliseconds apart one may be before a tick and one after it, and in between nothing can
 * have been re-used. */
static void fade(void) {
    uint64_t now = fh_system_nanoseconds(), then = fh_load(&faded_ns), credit = fh_load(&fh_order.credit);
    uint64_t seconds = now > then ? (now - then) >> 30 : 0;
    if (seconds == 0 || !fh_cas_relaxed(&faded_ns, &then, now) || then == 0) return;
    size_t rest = fh_credit_after((size_t)credit, (size_t)fh_load(&fh_counts.reused), seconds);
    FH_ASSERT(rest <= credit);
    fh_store(&fh_counts.reused, 0); /* what is added meanwhile is lost */
    /* Compare-and-swap: a thread that was interrupted since it read the figure must not lower a newer one. */
    fh_cas_relaxed(&fh_order.credit, &credit, rest);
}

static fh_word allowance, allowed_ns; /* the latter: when it has grown last; 0: it has not begun to */

/* The allowance grows from the first purge on, because before that nothing can be missed. Had it all of its 16 MiB then, each
 * program that ends within a quarter of a second would pay 4,096 page faults before it has any credit. */
static void begin_allowance(void) {
    uint64_t none = 0;
    if (FH_UNLIKELY(!fh_load(&allowed_ns))) fh_cas_relaxed(&allowed_ns, &none, fh_system_nanoseconds());
}

/* What of these refaults is worth credit. Of threads that are here at once the first has the time that has passed, and each
 * takes of the allowance what there is: two may take the same, which is a few bytes of credit too few. */
static size_t earn(size_t bytes) {
    uint64_t now = fh_system_nanoseconds(), then = fh_load(&allowed_ns);
    size_t left = (size_t)fh_load(&allowance);
    if (now > then && fh_cas_relaxed(&allowed_ns, &then, now)) left = fh_allowance_after(left, now - then);
    size_t paid = bytes < left ? bytes : left;
    fh_store(&allowance, left - paid);
    return bytes - paid;
}

size_t fh_credit_now(void) {
    begin_allowance();
    if (fh_load(&fh_order.credit)) fade();
    uint64_t bytes = fh_load(&fh_counts.refaulted) ? fh_swap_acq_rel(&fh_counts.refaulted, 0) : 0;
    size_t earned = bytes ? earn((size_t)bytes) : 0;
    if (earned) fh_add_relaxed(&fh_order.credit, earned);
    return (size_t)fh_load(&fh_order.credit);
}
