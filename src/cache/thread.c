#include "cache/thread.h"

#include "base/classes.h"
#include "base/hooks.h"
#include "cache/cache.h"
#include "cache/magazine.h"
#include "cache/observed.h"
#include "store/slab.h"
#include "store/window.h"
#include "system/system.h"

/* A bin whose magazine is full and empty at once, 128 of them. */
#define B                                                                                                              \
    { (void **)&fh_empty_magazine[1], (void **)&fh_empty_magazine[1] }
#define B4 B, B, B, B
#define B16 B4, B4, B4, B4
#define B128 B16, B16, B16, B16, B16, B16, B16, B16

const fh_thread fh_thread_none = {.bin = {B128}};
const fh_thread fh_thread_over = {.bin = {B128}};
const fh_thread fh_thread_face = {.bin = {B128}};

__thread fh_thread *fh_self_pointer __attribute__((tls_model("initial-exec"))) = (fh_thread *)&fh_thread_none;
__thread fh_thread *fh_observed_pointer __attribute__((tls_model("initial-exec")));
fh_word fh_observing;

/* Number of forks that lie behind this process, in its own line of ancestors. A cache of an older generation belongs to
 * a thread that does not exist here: all but the one that forked, which renews its own. */
static fh_word generation;
static fh_word orphans; /* 1: the child has not yet taken in what the other threads had */
static fh_word threads_made;

/* What threads that are no more have counted, so that the sums never shrink. Relaxed: figures. */
fh_word fh_threads_gone[FH_THREAD_COUNTS];

static void keep_counts(const fh_thread *t) {
    const uint64_t counts[FH_THREAD_COUNTS] = {t->refills, t->flushes, t->from_depot, t->to_depot};
    for (unsigned i = 0; i < FH_THREAD_COUNTS; i++) fh_add_relaxed(&fh_threads_gone[i], counts[i]);
}

/* ── Fork ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Runs in the child, in the thread that forked, the only one there is. The work itself waits for the first slow path, as
 * most children call exec at once. */
static void after_fork_in_child(void) {
    fh_store(&generation, fh_load(&generation) + 1);
    fh_thread *t = fh_own();
    if (t != &fh_thread_none && t != &fh_thread_over) {
        t->generation = (uint32_t)fh_load(&generation);
        t->interval = 0; /* or the child's generator would go on as the parent's does */
    }
    fh_store_release(&orphans, 1);
    if (fh_load(&fh_observing)) fh_hook_forked();
}

/* Gives everything that t has in hand to the store. */
static void hand_in(fh_thread *t) {
    for (unsigned c = 1; c < FH_BINS; c++) fh_bin_empty(t, c);
}

/* Hands in the cache of a thread that did not survive the fork. One that was inside a slow path at that moment may have
 * a magazine half way to somewhere: it is left alone, which is a leak of at most THREAD_BYTES and never a block twice. */
static void adopt(fh_thread *t) {
    /* acq_rel: of two threads of the child that come here, one gets it. */
    uint64_t live = FH_THREAD_LIVE;
    if (!fh_cas_acq_rel(&t->state, &live, FH_THREAD_DEAD)) return;
    hand_in(t);
    keep_counts(t);
    void *p = t;
    fh_slab_give(FH_CLASS_THREAD, 1, &p);
}

/* Walks all caches there are: the slabs of their class. */
static void adopt_orphans(void) {
    uint32_t now = (uint32_t)fh_load(&generation);
    for (size_t slot = 0; slot < fh_window_chunks() * FH_CHUNK_SLOTS; slot++) {
        uint64_t state = fh_load_acquire(&fh_slab_at(slot)->state);
        if (fh_state_kind(state) != FH_CLASS_THREAD) continue;
        for (unsigned i = 0; i < fh_state_bump(state); i++) {
            fh_thread *t = (fh_thread *)(fh_slot_address(slot) + i * fh_class_size(FH_CLASS_THREAD));
            if (fh_load(&t->state) == FH_THREAD_LIVE && t->generation < now) adopt(t);
        }
    }
}

void fh_process_start(void) {
    fh_system_at_fork(after_fork_in_child);
}

/* ── A thread's cache ────────────────────────────────────────────────────────────────────────────────────────────── */

static void thread_exit(void *value);

static fh_thread *make(void) {
    void *p;
    if (!fh_window_start() || !fh_slab_take(FH_CLASS_THREAD, 1, &p)) return NULL;
    fh_thread *t = p;
    for (unsigned c = 0; c < FH_BINS; c++) {
        fh_bin_reset(&t->bin[c]);
        t->rack[c] = (fh_rack){0};
    }
    t->budget_used = 0;
    t->generation = (uint32_t)fh_load(&generation);
    t->number = (uint32_t)fh_add_relaxed(&threads_made, 1);
    t->ticks = t->next_idle = 0;
    t->refills = t->flushes = t->from_depot = t->to_depot = 0;
    t->distance = t->interval = t->polls = 0;
    fh_store_release(&t->state, FH_THREAD_BUSY);
    fh_self_pointer = t;
    /* This may call malloc: from here on that works. If the system has no such service left, what the thread has in hand
     * when it ends stays where it is. */
    (void)fh_system_at_thread_exit(thread_exit, t);
    return t;
}

void fh_thread_observe(fh_thread *t, bool on) {
    fh_observed_pointer = on ? t : NULL;
    fh_self_pointer = on ? (fh_thread *)&fh_thread_face : t;
}

fh_thread *fh_thread_enter(void) {
    fh_thread *t = fh_own();
    if (FH_UNLIKELY(t == &fh_thread_none)) {
        fh_hook_start();
        /* Reading the options may have allocated. */
        t = fh_self() == &fh_thread_none ? make() : fh_own();
    } else if (t == &fh_thread_over) {
        t = NULL;
    }
    if (t) fh_store(&t->state, FH_THREAD_BUSY);
    if (FH_UNLIKELY(fh_load(&orphans)) && fh_swap_acq_rel(&orphans, 0)) adopt_orphans();
    if (FH_UNLIKELY(fh_load(&fh_observing)) && t) fh_hook_observe(t);
    return t;
}

void fh_thread_leave(fh_thread *t) {
    /* release: for the child of a fork, which reads it in the snapshot. */
    if (t) fh_store_release(&t->state, FH_THREAD_LIVE);
}

void fh_thread_hand_in(void) {
    fh_thread *t = fh_own();
    if (t == &fh_thread_none || t == &fh_thread_over) return;
    fh_store(&t->state, FH_THREAD_BUSY);
    hand_in(t);
    fh_thread_leave(t);
}

/* At the end of a thread. Destructors that run after this one allocate and free block by block, straight in the store, so
 * nothing of theirs is left behind. */
static void thread_exit(void *value) {
    fh_thread *t = fh_own();
    if (t != value) return;
    fh_thread_hand_in();
    fh_thread_observe(t, false);
    fh_self_pointer = (fh_thread *)&fh_thread_over;
    keep_counts(t);
    fh_store(&t->state, FH_THREAD_DEAD);
    void *p = t;
    fh_slab_give(FH_CLASS_THREAD, 1, &p);
}
