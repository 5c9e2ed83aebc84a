#include "reclaim/huge_pages.h"

#include "base/settings.h"
#include "reclaim/budget.h"
#include "store/limit.h"

void fh_huge_pages_configure(void) {
    bool is_short = fh_pressure_now() != FH_PRESSURE_NONE;
    bool fit = fh_huge_pages_fit((size_t)fh_load(&fh_limit.hard)) && !is_short;
    bool automatic = fh_settings.thp == FH_THP_AUTO;
    uint64_t first = fh_settings.thp == FH_THP_ALWAYS ? 0 : automatic && fit ? FH_YOUNG_CHUNKS : UINT64_MAX;
    fh_store(&fh_order.thp_first_chunk, first);
    fh_store(&fh_order.thp_timed, automatic);
    if (!automatic) fh_store(&fh_order.thp_skip, 0);
    /* Short of memory, any page is worth its huge page. */
    fh_store(&fh_order.thp_split_bytes, is_short ? 0 : FH_SPLIT_BYTES);
}

/* Of two threads that bring the back-off up to date at once one is lost, which costs one huge page too many or too few. */
void fh_huge_pages_touched(void) {
    static fh_word back_off; /* how many halves were passed over last time */
    uint64_t nanoseconds = fh_load(&fh_counts.touch_ns), last = fh_load(&back_off);
    uint64_t next = fh_back_off_after(last, nanoseconds);
    if (next != last) fh_store(&back_off, next);
    if (nanoseconds >= FH_HUGE_TOUCH_SLOW) fh_store(&fh_order.thp_skip, next);
}
