#include "store/background.h"

#include "store/huge.h"
#include "store/policy.h"
#include "store/purge.h"
#include "system/system.h"

fh_word fh_background;

void fh_background_nudge(void) {
    /* The memory that was freed before the word is read; see the header. */
    fh_fence_after_rmw();
    uint64_t seen = fh_load(&fh_background);
    if (seen != FH_BACKGROUND_ASLEEP) return;
    if (!fh_background_is_worth(fh_purge_dirty_bytes() + fh_huge_cached_bytes())) return;
    /* Relaxed: the thread reads nothing but counters because of it. */
    if (fh_cas_relaxed(&fh_background, &seen, FH_BACKGROUND_AWAKE)) fh_system_wake(&fh_background);
}
