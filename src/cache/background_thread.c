#include "cache/background_thread.h"

#include "cache/cache.h"
#include "store/background.h"
#include "store/huge.h"
#include "store/policy.h"
#include "store/purge.h"
#include "store/trim.h"
#include "system/system.h"

/* Where it is made. Malloc may be called from anywhere in the C library, and making a thread takes some of the C library's
 * own locks. So it is not made
 *   - before this library's constructor has run: the C library may not be ready. Not in that constructor either: a thread
 *     that is not wanted should not be, and the loader is at work;
 *   - from free: glibc frees what belonged to ended threads while it holds the lock of its stacks, which a new thread's
 *     stack needs too;
 *   - with anything of ours held, as a new thread's first memory comes from this allocator.
 * What is left is an allocation's slow path at its very end. musl's loader does not call malloc of others with its locks
 * held; glibc's are recursive. */
static fh_word allowed;

void fh_background_allow(void) {
    fh_store(&allowed, 1);
}

void fh_background_forked(void) {
    if (fh_load(&fh_background) != FH_BACKGROUND_OVER) fh_store(&fh_background, FH_BACKGROUND_NONE);
}

/* ── What it does ────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    uint64_t moves;       /* fh_purge_moves at the last look */
    size_t huge;          /* bytes of kept huge blocks at the last look */
    unsigned quiet_looks; /* in a row, at which nothing had moved */
} memory_of_looks;

/* Slots that lay free for the whole time since the last look, and huge blocks that were kept as long. */
static size_t give_back_unused(memory_of_looks *m) {
    size_t given = 0, dirty = fh_purge_dirty_bytes(), keep = fh_background_keep(dirty, fh_purge_lowest_bytes());
    if (keep < dirty) given += fh_purge_aged(keep);
    size_t huge = fh_huge_cached_bytes();
    keep = fh_background_keep(huge, huge < m->huge ? huge : m->huge);
    if (keep < huge) given += fh_huge_trim(keep);
    m->huge = fh_huge_cached_bytes();
    return given;
}

/* One look. True if there is nothing more to do until somebody frees. */
static bool look(memory_of_looks *m) {
    uint64_t moves = fh_purge_moves();
    m->quiet_looks = moves == m->moves ? m->quiet_looks + 1 : 0;
    size_t given = give_back_unused(m);
    if (m->quiet_looks == FH_BACKGROUND_QUIET_LOOKS) {
        fh_cache_flush(); /* this thread has no cache; it is for those that ended threads have left */
        fh_trim_caches();
        given += fh_trim_inside() + fh_purge_aged(0);
    }
    m->moves = fh_purge_moves();
    return m->quiet_looks >= FH_BACKGROUND_QUIET_LOOKS && given == 0;
}

/* Sleeps until woken. False: the library ends. */
static bool sleep_until_wanted(void) {
    uint64_t awake = FH_BACKGROUND_AWAKE;
    size_t rest = fh_purge_dirty_bytes() + fh_huge_cached_bytes();
    if (!fh_cas_acq_rel(&fh_background, &awake, FH_BACKGROUND_ASLEEP)) return false;
    fh_fence_after_rmw();
    /* The last look; see the header. What could not be given back before is no reason to stay awake. */
    size_t now = fh_purge_dirty_bytes() + fh_huge_cached_bytes();
    if (now > rest && fh_background_is_worth(now - rest)) fh_background_nudge();
    while (fh_load(&fh_background) == FH_BACKGROUND_ASLEEP) fh_system_wait(&fh_background, FH_BACKGROUND_ASLEEP, 0);
    return fh_load(&fh_background) == FH_BACKGROUND_AWAKE;
}

static void run(void) {
    memory_of_looks m = {0};
    while (fh_load(&fh_background) == FH_BACKGROUND_AWAKE) {
        fh_system_wait(&fh_background, FH_BACKGROUND_AWAKE, FH_BACKGROUND_PERIOD);
        if (fh_load(&fh_background) != FH_BACKGROUND_AWAKE) return;
        bool wanted = fh_settings.purge == FH_PURGE_BACKGROUND;
        if (wanted && !look(&m)) continue;
        if (!sleep_until_wanted()) return;
        m = (memory_of_looks){0};
    }
}

/* ── Its life ────────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_background_start(void) {
    uint64_t wanted = FH_BACKGROUND_WANTED;
    if (!fh_load(&allowed) || !fh_cas_acq_rel(&fh_background, &wanted, FH_BACKGROUND_AWAKE)) return;
    /* No thread to be had: the budget goes on by itself, and nobody tries again. */
    if (!fh_system_thread_start(run)) fh_store(&fh_background, FH_BACKGROUND_FAILED);
}

void fh_background_end(void) {
    fh_store(&fh_background, FH_BACKGROUND_OVER);
}
