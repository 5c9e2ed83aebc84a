#include "cache/partition.h"

#include "base/assert.h"
#include "base/tuning.h"
#include "cache/alloc.h"
#include "cache/hardened.h"
#include "cache/observed.h"
#include "cache/thread.h"
#include "store/large.h"
#include "store/live.h"
#include "store/slab.h"

/* What a refill does now and then, in a program of which no bin is refilled. */
static void tick(fh_thread *t) {
    if (!t || ++t->ticks % FH_BIN_TICK) return;
    fh_hook_metrics();
    fh_event_time_passed();
}

static void *take_small(unsigned partition, unsigned c) {
    bool hardened = partition & FH_PARTITION_HARDENED;
    if (hardened && c < FH_LIVE_FIRST_CLASS) c = FH_LIVE_FIRST_CLASS;
    void *p = fh_slab_take_in(partition, c);
    if (p && hardened) fh_live_begin(c, p);
    return p;
}

static void *try_in(unsigned partition, size_t align, size_t n, bool *clean) {
    void *p = NULL;
    fh_thread *t = fh_thread_enter();
    tick(t);
    *clean = false;
    if (!fh_window_start()) {
        /* no address space */
    } else if (n <= FH_SMALL_MAX && align <= FH_SLOT_SIZE) {
        p = take_small(partition, fh_aligned_class(align, n));
    } else {
        p = fh_large_alloc_in(partition, n, align, clean);
    }
    fh_thread_leave(t);
    return p;
}

void *fh_alloc_in(unsigned partition, size_t align, size_t n, bool *clean) {
    FH_ASSERT(fh_is_power_of_two(align));
    if (n == 0) n = 1;
    if (FH_UNLIKELY(fh_is_out_of_reach(n) || align > FH_WINDOW_SIZE || fh_is_beyond_machine(n))) return fh_no_memory(n);
    void *p = try_in(partition, align, n, clean);
    for (fh_safe_point point = FH_AFTER_REFUSAL; FH_UNLIKELY(p == NULL); point++) {
        fh_delay_empty();
        if (!fh_hook_reclaim(point)) return fh_no_memory(n);
        p = try_in(partition, align, n, clean);
    }
    fh_thread_allocated(p);
    return p;
}

void *fh_alloc_like(const void *p, size_t n) {
    bool clean;
    unsigned partition = fh_partition_of(p);
    return FH_LIKELY(!partition) ? fh_alloc(n) : fh_alloc_in(partition, FH_MIN_ALIGN, n, &clean);
}
