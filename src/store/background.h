/* purge=background: whether its thread is there and awake, as one word. The thread itself is in cache/background_thread.c;
 * here is what the store tells it.
 *
 *     NONE ──▶ WANTED ──▶ AWAKE ◀──▶ ASLEEP        any ──▶ OVER (the library ends)      WANTED ──▶ FAILED
 *
 *     NONE → WANTED      whoever claims slots of a heap of 8 MiB while the option is set, by compare-and-swap
 *     WANTED → AWAKE     the thread that starts it, from an allocation with nothing held, by compare-and-swap
 *     AWAKE → ASLEEP     the background thread alone: there is nothing to give back. It then looks once more
 *     ASLEEP → AWAKE     whoever leaves a MiB for it, by compare-and-swap, and wakes it; or itself, in that last look
 *     any → NONE         in the child of a fork, where it does not exist
 *
 * Store and load: a thread adds to the free memory and then looks at the word; the background thread writes ASLEEP and
 * then looks at the free memory. A barrier between the two on either side sees to it that one of them sees the other.
 * Progress: wait-free, but for the background thread, which is made to wait. */
#ifndef FH_STORE_BACKGROUND_H
#define FH_STORE_BACKGROUND_H

#include "base/settings.h"
#include "base/types.h"

#define FH_BACKGROUND_NONE UINT64_C(0)
#define FH_BACKGROUND_WANTED UINT64_C(1)
#define FH_BACKGROUND_AWAKE UINT64_C(2)
#define FH_BACKGROUND_ASLEEP UINT64_C(3)
#define FH_BACKGROUND_FAILED UINT64_C(4)
#define FH_BACKGROUND_OVER UINT64_C(5)

extern fh_word fh_background FH_HIDDEN;

/* Memory was freed that could go back: wakes the thread if it sleeps and that is worth it. */
void fh_background_nudge(void);

static inline void fh_background_freed(void) {
    if (FH_UNLIKELY(fh_settings.purge == FH_PURGE_BACKGROUND)) fh_background_nudge();
}

/* A slab or more is claimed in a heap beyond what the budget lets every program keep: the thread is wanted. */
static inline void fh_background_grown(void) {
    uint64_t none = FH_BACKGROUND_NONE;
    if (FH_UNLIKELY(fh_settings.purge == FH_PURGE_BACKGROUND) && fh_load(&fh_background) == none)
        fh_cas_relaxed(&fh_background, &none, FH_BACKGROUND_WANTED);
}

#endif
