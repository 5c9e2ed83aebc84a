/* The life of a thread's cache: none → live → none again. */
#ifndef FH_CACHE_THREAD_H
#define FH_CACHE_THREAD_H

#include "base/hooks.h"
#include "base/tuning.h"
#include "base/types.h"
#include "store/events.h"

/* The caches of threads that have none: before their first slow path, and after their end (late destructors). Read-only. Their
 * bins are zero, which is no magazine, not even one that is full and empty at once: 700 pointers would be written before each
 * program begins. Who looks into a bin of fh_own() asks for it by fh_bin_peek. */
extern const fh_thread fh_thread_none FH_HIDDEN, fh_thread_over FH_HIDDEN;

/* What malloc and free see of these two, and for a moment of any thread: bins that are all empty and full. */
typedef struct {
    fh_row_head head;
    fh_bin bin[FH_BINS];
} fh_row;
extern const fh_row fh_no_row FH_HIDDEN;

/* The calling thread's cache, created now if it has none. NULL: the thread is over, or there is no memory for a cache. The
 * caller then uses the store block by block. After a fork it also flushes what the parent's other threads had. */
fh_thread *fh_thread_enter(void);

/* The short way into a slow path, for an exchange: most bins that are empty have a previous magazine with blocks, and most that
 * are full an empty one. These two change places and nothing else is done: 75 instructions where a refill or flush takes 200.
 *
 * False: the long way is to be taken. The cache is not LIVE: it stands for none, or was interrupted for good. Or it is time
 * again: on the long way unused bins are found, and a bin that is always exchanged grows until one magazine is enough. */
static inline bool fh_thread_enter_short(fh_thread *t) {
    if (fh_load(&t->state) != FH_THREAD_LIVE || ++t->exchanges % FH_EXCHANGES == 0) return false;
    fh_store(&t->state, FH_THREAD_BUSY);
    return true;
}

/* Refills, flushes, and of these to and from the depot: sums over threads that have ended. */
#define FH_THREAD_COUNTS 4u
extern fh_word fh_threads_gone[FH_THREAD_COUNTS] FH_HIDDEN;

/* Flushes the parked caches: those of ended threads that no new thread has taken yet. */
void fh_cache_flush_parked(void);

/* True if the calling thread has blocks in its cache, or a cache is parked. Cost: a look at each bin. */
bool fh_cache_has_blocks(void);

/* For check/: the cache that waits in a shard for a thread to come, or NULL; and how many forks are behind this process. */
const fh_thread *fh_thread_parked(unsigned shard);
uint64_t fh_thread_generation(void);

/* The slow path is over. */
void fh_thread_leave(fh_thread *t);

/* And nothing is held: does what is due. */
static inline void fh_thread_safe_point(fh_safe_point point) {
    uint64_t due = fh_load(&fh_due);
    if (point == FH_AFTER_FREE) due &= ~FH_DUE_ALLOCATION_ONLY;
    if (FH_UNLIKELY(due)) fh_hook_reclaim(point);
}

/* The same at the end of an allocation, of which the block at p is what the program will get. */
static inline void fh_thread_allocated(void *p) {
    if (FH_UNLIKELY(fh_load(&fh_due))) fh_hook_allocated(p);
}

#endif
