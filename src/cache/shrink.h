/* Cache shrinking: what the caches keep while the program frees memory. When it frees a large structure, what magazines and
 * depots keep of it is scattered over all of its slabs, and one block is enough to hold a slab of 64 KiB: a server that
 * had freed everything held 50 MiB by 40,000 blocks of some dozens of bytes. So caches have to become small at the
 * right time, which is seen in two ways:
 *
 *     a class     from 4 MiB on that found their depot full since there was demand for the class
 *     the heap    when threads have flushed half of the most that they had, and enough of it: the heap contracts. Then
 *                 64 KiB of a class are enough, and a clock hand moves over the classes and finds those that no
 *                 thread flushes any more
 *
 * A class that is shrunk has no depot, and its bins shrink as they are flushed. The next refill ends it for the class.
 *
 *     word of a class:   0, in demand ── flushes count ──▶ bytes ── at the limit, by one thread ──▶ bytes | SHRUNK
 *                        ▲                                   │                                        │
 *                        └──────── a refill ─────────────────┴────────────────────────────────────────┘
 *
 *     contraction:       0 ──(flushed ≥ threshold)──▶ 1 ──(1/16 of it is in demand again)──▶ 0
 *
 * The refault credit raises the threshold: a program that frees and allocates the same 100 MiB over and over pays for the
 * first time. Shrinking itself earns none, because blocks that are flushed keep their memory (docs/memory.md).
 *
 * Thread-safety: any thread. Memory orders: relaxed would do throughout: these are figures to steer by, and the memory that
 * they speak of is handed over by the words of depot and slabs. The exchanges are acq_rel because there is no other.
 * Progress: wait-free, except emptying a depot, which is lock-free. Cost: a load a flush; a locked instruction while the
 * heap contracts. */
#ifndef FH_CACHE_SHRINK_H
#define FH_CACHE_SHRINK_H

#include "base/classes.h"
#include "base/tuning.h"
#include "base/types.h"
#include "store/events.h"

/* ── The rules: pure arithmetic ──────────────────────────────────────────────────────────────────────────────────── */

/* Bytes of a class without demand from which on it is shrunk: what found its depot full, or, while the heap contracts,
 * all that was flushed. */
static inline size_t fh_shrink_limit(bool contracting) {
    return contracting ? FH_SHRINK_CONTRACTING_BYTES : FH_SHRINK_BYTES;
}

/* Half of what threads had cached at the most was flushed, and enough to be worth the trouble. */
static inline bool fh_contraction_begins(size_t flushed, size_t peak, size_t credit, uint64_t seconds_since_growth) {
    size_t share = peak / 2;
    bool settled = seconds_since_growth >= FH_CONTRACTION_SETTLED_SECONDS;
    size_t least = settled ? FH_CONTRACTION_LEAST_SETTLED : FH_CONTRACTION_LEAST;
    return flushed >= (share > least ? share : least) + credit + credit / 4;
}

/* A sixteenth of what was flushed has been taken again: the program grows. */
static inline bool fh_contraction_ends(size_t flushed, size_t deepest) {
    return flushed + FH_CONTRACTION_ENDS + deepest / 16 <= deepest;
}

/* In a contraction each block that a bin holds may hold a slab, and its page once the free pages of slabs are purged. So a bin
 * of blocks of `size` bytes may have one for each 2 MiB of its class that have been flushed: of slabs of 64 KiB its two
 * magazines then hold a sixteenth of that at most. But small blocks are flushed by 4 KiB, up to sixteen, in any case: two at
 * a time, each flush waited for the caches that the program's own misses could have been loaded in (docs/memory.md). */
static inline unsigned fh_contraction_blocks(size_t size, size_t flushed) {
    size_t blocks = flushed / FH_SHRUNK_BYTES_A_BLOCK, least = FH_SHRUNK_LEAST_BYTES / size;
    if (least > FH_SHRUNK_LEAST_BLOCKS) least = FH_SHRUNK_LEAST_BLOCKS;
    if (blocks < least) blocks = least;
    return blocks < 1 ? 1 : blocks > FH_SHRUNK_BLOCKS ? FH_SHRUNK_BLOCKS : (unsigned)blocks;
}

/* ── What is done ────────────────────────────────────────────────────────────────────────────────────────────────── */

extern fh_word fh_shrink_class[FH_BINS] FH_HIDDEN;
extern fh_word fh_contraction FH_HIDDEN;

#define FH_SHRUNK (UINT64_C(1) << 63)

static inline bool fh_is_shrunk(unsigned c) {
    return fh_load(&fh_shrink_class[c]) & FH_SHRUNK;
}

static inline bool fh_is_contracting(void) {
    return fh_load(&fh_contraction) != 0;
}

/* Blocks that each magazine of a bin of class c may hold, which is shrunk. */
static inline unsigned fh_shrunk_bin_blocks(unsigned c) {
    if (!fh_is_contracting()) return FH_SHRUNK_BLOCKS;
    return fh_contraction_blocks(fh_class_size(c), (size_t)(fh_load(&fh_shrink_class[c]) & ~FH_SHRUNK));
}

/* `bytes` of class c came out of a bin that is full, and there is no demand for them at present. True if the class is
 * shrunk now. The thread that shrinks it empties the depot. */
bool fh_shrink_count(unsigned c, size_t bytes);

/* In a contraction: the clock hand comes by class c. True if it is shrunk from now on. The first time it only leaves a sign,
 * which a refill takes away. */
bool fh_shrink_pass(unsigned c);

/* There is demand for blocks of class c. Bytes that another thread adds meanwhile are lost. */
static inline void fh_shrink_demand(unsigned c) {
    if (FH_UNLIKELY(fh_load(&fh_shrink_class[c]) != 0)) fh_store(&fh_shrink_class[c], 0);
}

/* A thread has flushed `bytes` out of its bins, or refilled them (negative). */
void fh_contraction_count(int64_t bytes);
static inline void fh_count_flushed(fh_thread *t, int64_t bytes) {
    t->flushed += bytes;
    if (FH_LIKELY(t->flushed < FH_CONTRACTION_STEP && t->flushed > -FH_CONTRACTION_STEP)) return;
    bytes = t->flushed;
    t->flushed = 0;
    fh_contraction_count(bytes);
    fh_event_flushed(bytes);
}

#endif
