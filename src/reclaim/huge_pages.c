#include "reclaim/huge_pages.h"

#include "base/settings.h"
#include "reclaim/budget.h"
#include "store/limit.h"

/* The control group's limit; 0: none that can be read. Until the group is read it may be any, so it counts as small. */
static fh_word group_limit = {1};

static uint64_t first_chunk(void) {
    uint64_t thp = FH_SETTING(thp), limit = fh_load(&fh_limit.hard);
    bool automatic = thp == FH_THP_AUTO && fh_huge_pages_fit((size_t)limit);
    if (fh_pressure_now() != FH_PRESSURE_NONE) automatic = false;
    return thp == FH_THP_ALWAYS ? 0 : automatic ? FH_YOUNG_CHUNKS : UINT64_MAX;
}

/* A small container has no room for parts of huge pages. */
static uint64_t dense_chunk(void) {
    bool fits = fh_huge_pages_fit((size_t)fh_load(&group_limit));
    return fits && first_chunk() == FH_YOUNG_CHUNKS ? FH_DENSE_CHUNKS : UINT64_MAX;
}

void fh_huge_pages_configure(void) {
    uint64_t first, dense;
    bool automatic;
    do { /* as in fh_idle_configure */
        first = first_chunk();
        dense = dense_chunk();
        automatic = FH_SETTING(thp) == FH_THP_AUTO;
        fh_store(&fh_order.thp_timed, automatic);
        fh_store(&fh_order.thp_dense_chunk, dense);
        fh_swap_acq_rel(&fh_order.thp_first_chunk, first);
    } while (first_chunk() != first || dense_chunk() != dense || (FH_SETTING(thp) == FH_THP_AUTO) != automatic);
    if (!automatic) fh_store(&fh_order.thp_skip, 0);
    /* Short of memory, any page is worth its huge page. */
    fh_store(&fh_order.thp_split_bytes, fh_pressure_now() == FH_PRESSURE_NONE ? FH_SPLIT_BYTES : 0);
}

void fh_huge_pages_note_group(size_t limit) {
    if (fh_load(&group_limit) == limit) return;
    fh_store(&group_limit, limit);
    fh_huge_pages_configure();
}

/* Of two threads that bring these up to date at once one is lost, which costs one huge page too many or too few. */
void fh_huge_pages_touched(void) {
    static fh_word saved;    /* nanoseconds that quick ones have saved, of which slow ones are paid */
    static fh_word back_off; /* how many halves were passed over last time */
    uint64_t nanoseconds = fh_load(&fh_counts.touch_ns), last = fh_load(&back_off), before = fh_load(&saved);
    bool is_slow = nanoseconds >= FH_HUGE_TOUCH_SLOW;
    uint64_t after = fh_touch_saved_after(before, nanoseconds), one_in = fh_touch_timed_one_in(after);
    fh_store(&saved, after);
    /* An option that was set meanwhile may have made it 0, and then that stays. */
    uint64_t timed = fh_load(&fh_order.thp_timed);
    if (timed && timed != one_in) fh_cas_relaxed(&fh_order.thp_timed, &timed, one_in);
    if (is_slow && fh_touch_is_paid(before, nanoseconds)) return;
    uint64_t next = fh_back_off_after(last, nanoseconds);
    if (next != last) fh_store(&back_off, next);
    if (is_slow) fh_store(&fh_order.thp_skip, next);
}
