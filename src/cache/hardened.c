#include "cache/hardened.h"

#include "base/assert.h"
#include "base/settings.h"
#include "cache/magazine.h"
#include "cache/observed.h"
#include "cache/thread.h"
#include "store/gaps.h"
#include "store/large.h"
#include "store/live.h"
#include "store/locate.h"
#include "store/random.h"
#include "system/report.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

void fh_hardened_start(void) {
    fh_random_start();
    (void)fh_gaps_start();
    fh_thread_take_bins(FH_MODE_HARDEN);
}

/* ── The delay ───────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    _Alignas(FH_CACHE_LINE) fh_word next;
    fh_word fine[FH_DELAY_FINE];
    fh_word next_coarse;
    fh_word coarse[FH_DELAY_COARSE];
} rings;

static rings delayed[FH_SHARDS];
static fh_word next_large, large[FH_DELAY_LARGE];

/* Puts p into the ring; returns the block that has waited longest, or NULL. acq_rel: the program's last use of a block before
 * another thread gives it. */
static void *put(fh_word *next, fh_word *places, unsigned n, const void *p) {
    uint64_t at = fh_add_relaxed(next, 1) % n;
    return (void *)(uintptr_t)fh_swap_acq_rel(&places[at], (uintptr_t)p); // NOLINT(performance-no-int-to-ptr)
}

/* The block at p, of `size` bytes, waits. Returns one that does not any more, or NULL. */
static void *delay(const void *p, size_t size) {
    rings *r = &delayed[fh_system_cpu_hint() % FH_SHARDS];
    if (size <= FH_FINE_MAX) return put(&r->next, r->fine, FH_DELAY_FINE, p);
    if (size <= FH_SMALL_MAX) return put(&r->next_coarse, r->coarse, FH_DELAY_COARSE, p);
    return put(&next_large, large, FH_DELAY_LARGE, p);
}

/* To the store. What was written around it since it was freed cannot have changed what it is. */
static void give(void *p) {
    if (!p || fh_large_free(p)) return;
    fh_place at = fh_locate(p);
    FH_ASSERT(at.kind == FH_AT_SLAB && at.begin == p);
    fh_give_one(at.c, p);
}

static void empty(fh_word *places, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        if (fh_load(&places[i]))
            give((void *)(uintptr_t)fh_swap_acq_rel(&places[i], 0)); // NOLINT(performance-no-int-to-ptr)
    }
}

void fh_delay_empty(void) {
    if (!fh_is_hardened()) return;
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        empty(delayed[i].fine, FH_DELAY_FINE);
        empty(delayed[i].coarse, FH_DELAY_COARSE);
    }
    empty(large, FH_DELAY_LARGE);
}

/* ── Freeing ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The program has the block no more. False: another call was first. */
static bool end(const fh_place *at, void *p) {
    return at->kind == FH_AT_SLAB ? fh_live_end(at->c, p) : fh_large_retire(p);
}

static void zero(const fh_place *at, void *p) {
    if (at->kind == FH_AT_SLAB) {
        memset(p, 0, at->size);
    } else {
        fh_large_zero(p, at->size);
    }
}

bool fh_hardened_end(const fh_place *at, void *p) {
    if (FH_UNLIKELY(!end(at, p))) return false;
    if (FH_SETTING(harden) == FH_HARDEN_ZERO) zero(at, p);
    give(at->size <= FH_RUN_CACHED_MAX ? delay(p, at->size) : p);
    return true;
}

static void release(const char *call, void *p) {
    fh_place at = fh_locate(p);
    if (!fh_place_check(&at, call, p) || fh_hardened_end(&at, p)) return;
    fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, at.size);
}

bool fh_release_hardened(const char *call, void *p) {
    if (!(fh_partition_of(p) & FH_PARTITION_HARDENED)) return false;
    int error = errno; /* free keeps it */
    fh_thread *t = fh_thread_enter();
    release(call, p);
    fh_thread_leave(t);
    fh_thread_safe_point(FH_AFTER_FREE);
    errno = error;
    return true;
}
