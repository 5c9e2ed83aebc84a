/* Every size and limit that a stress build makes tiny, each as `FH_STRESS ? tiny : normal`, with the reason for the normal
 * value and what was tried beside it. A constant that is the same in all builds stays where it is used.
 *
 * A stress build (CMake's FREEHOLD_STRESS) is for tests. A path that a normal build takes once in a hundred calls, or once a
 * minute, is taken every few calls. It is slow and wastes memory, and it keeps every promise and every equation.
 * tests/stress/slow_paths.c counts how often these paths are taken, and fails in either build if the option has no effect. */
#ifndef FH_BASE_TUNING_H
#define FH_BASE_TUNING_H

#include "base/types.h"

/* Both sides of `FH_STRESS ? … : …` always compile. */
#ifndef FH_STRESS
#define FH_STRESS 0
#endif

/* ── Magazines (cache/magazine.c) ────────────────────────────────────────────────────────────────────────────────── */

/* One magazine of a class holds at most this many bytes; a bin has two magazines. Of runs half of it. */
#define FH_MAGAZINE_BYTES (128 * FH_KIB)
#define FH_MAGAZINE_RUN_BYTES FH_MIB

#define FH_MAGAZINE_LEAST (FH_STRESS ? 1u : 8u)

/* And at most this many blocks. Of at most 128 bytes more: −20 to −30 % time where thousands are allocated and freed over
 * and over. */
#define FH_MAGAZINE_MOST (FH_STRESS ? 2u : 254u)
#define FH_MAGAZINE_MOST_TINY (FH_STRESS ? 2u : 510u)
#define FH_MAGAZINE_TINY 128

/* What a new bin starts with: about this many bytes, at most 6 blocks. A thread that allocates one block of a class should
 * not take a page of them along. */
#define FH_BIN_FIRST_BYTES 1024
#define FH_BIN_FIRST_BLOCKS (FH_STRESS ? 1u : 6u)

/* Every so many times that the two magazines of a bin could just change places the long way is taken (cache/magazine.c). An
 * odd number, because they change places twice in a round: so refills and flushes both have their turn. */
#define FH_EXCHANGES (FH_STRESS ? 3u : 15u)

/* All bins of a thread together, those of bulky blocks apart. Beyond it a bin does not grow; unused ones give up their share
 * (FH_BIN_TICK). */
#define FH_THREAD_BYTES (FH_STRESS ? 64 * FH_KIB : 2 * FH_MIB)

/* Of bulky blocks, longer than this, a bin has nothing at all beyond the bounds: seventy of them would hold 50 MiB. A thread
 * that wants one now and then takes it from the store, which costs a small part of writing to it. So all threads together
 * cache an eighth of what is in use, and 4 MiB in any case, enough for two. docs/memory.md has what was tried. */
#define FH_BULKY_FROM (32 * FH_KIB)
#define FH_THREAD_BULKY_BYTES (FH_STRESS ? 256 * FH_KIB : 2 * FH_MIB)
#define FH_BULKY_SHARE 8u
#define FH_BULKY_LEAST (FH_STRESS ? 512 * FH_KIB : 4 * FH_MIB)

/* But this much a thread may have whatever the others hold, who may stand still for ever: two blocks of 256 KiB. */
#define FH_THREAD_BULKY_LEAST (FH_STRESS ? 128 * FH_KIB : 512 * FH_KIB)

/* Of small blocks no more than a quarter of what is in use, and a MiB in any case. With an eighth, and a half or three quarters of a
 * MiB, larson took 1.1 of the time for 0.87 of the memory. */
#define FH_THREAD_SHARE 4u
#define FH_THREAD_LEAST (FH_STRESS ? 32 * FH_KIB : FH_MIB)

/* One bin is checked every so many slow paths, and emptied when it was found unused so many times. */
#define FH_BIN_TICK (FH_STRESS ? 2u : 64u)
#define FH_BIN_TICKS_UNUSED (FH_STRESS ? 1u : 2u)

/* What the cache of a thread that has ended may keep for the next thread (cache/thread.c), and the threads in a row that had enough
 * in a bin until it is halved. */
#define FH_PARKED_BYTES (FH_STRESS ? 4 * FH_KIB : FH_MIB)
#define FH_BIN_LIVES_UNUSED (FH_STRESS ? 1u : 8u)

/* ── What the caches keep while the program frees (cache/shrink.h) ──────────────────────────────────────────────────── */

/* Bytes of a class that found their depot full since it was in demand last; from there on its caches shrink. While the
 * heap contracts: all that was flushed. */
#define FH_SHRINK_BYTES (FH_STRESS ? 64 * FH_KIB : 4 * FH_MIB)
#define FH_SHRINK_CONTRACTING_BYTES (FH_STRESS ? 4 * FH_KIB : 64 * FH_KIB)

/* Blocks that each magazine of a shrinking class may hold, if it is that class alone. */
#define FH_SHRUNK_BLOCKS (FH_STRESS ? 1u : 30u)

/* And while the heap contracts, one for as many bytes of the class as were flushed; but of small blocks as many as are so many
 * bytes, up to so many. */
#define FH_SHRUNK_BYTES_A_BLOCK (2 * FH_MIB)
#define FH_SHRUNK_LEAST_BYTES (FH_STRESS ? 1u : 4u * FH_KIB)
#define FH_SHRUNK_LEAST_BLOCKS 16u

/* A contraction begins when this much was freed: 64 MiB, because many programs free as much only to allocate it again. It is
 * 16 MiB once the heap has not grown for some seconds. It ends when this much, and a sixteenth, was taken again. */
#define FH_CONTRACTION_LEAST (FH_STRESS ? FH_MIB : 64 * FH_MIB)
#define FH_CONTRACTION_LEAST_SETTLED (FH_STRESS ? 256 * FH_KIB : 16 * FH_MIB)
#define FH_CONTRACTION_SETTLED_SECONDS (FH_STRESS ? 1u : 3u)
#define FH_CONTRACTION_ENDS (FH_STRESS ? 64 * FH_KIB : 4 * FH_MIB)

/* A thread's own sum of bytes freed, up to which the others need not know. */
#define FH_CONTRACTION_STEP ((int64_t)(FH_STRESS ? FH_KIB : 256 * FH_KIB))

/* While the heap contracts one other bin is checked every so many flushes. */
#define FH_CONTRACTION_TICK (FH_STRESS ? 1u : 8u)

/* ── Depot (store/depot.c) ───────────────────────────────────────────────────────────────────────────────────────── */

/* The depot of a class and shard holds about this many bytes at most, and up to three times as many if magazines that hold little
 * came before those that hold much. One slot is always used: in a stress build the only one. */
#define FH_DEPOT_BYTES (FH_STRESS ? 0 : FH_MIB)

/* For each 4 magazines that went to other CPUs a thread makes up with one from slabs, up to a MiB of a class and shard:
 * the depot once more. Without a bound, threads whose blocks do not fit into the depot would go through slabs ever after: 1.3
 * times the time. */
#define FH_AWAY_LEAST (FH_STRESS ? 1u : 4u)
#define FH_AWAY_BYTES (FH_STRESS ? FH_KIB : FH_MIB)

/* ── Growth (reclaim/trim.c, reclaim/cold.c) ────────────────────────────────────────────────────────────────────────────────────────── */

/* A heap of less than 16 MiB does not ask how much memory there is, unless it is dense, and one of less than 32 has few holes to look for. */
#define FH_GROWTH_FROM (FH_STRESS ? 1u : 4u)
#define FH_SEARCH_FROM (FH_STRESS ? 1u : 8u)

/* ── Free slots with memory behind them (reclaim/budget.h, reclaim/idle.c) ──────────────────────────────────────────── */

/* How much may keep its memory: a floor, a quarter of the first 16 MiB that are used, a sixteenth of all that is used, and the
 * refault credit. With what the credit adds the heap may be a quarter larger than at its peak. */
#define FH_IDLE_FLOOR_SLOTS ((FH_STRESS ? 256 * FH_KIB : 4 * FH_MIB) / FH_SLOT_SIZE)
#define FH_IDLE_SMALL_SLOTS ((FH_STRESS ? 128 * FH_KIB : 4 * FH_MIB) / FH_SLOT_SIZE)
#define FH_IDLE_SMALL_SHARE 4u
#define FH_IDLE_USED_SHARE (FH_STRESS ? 64u : 16u)
#define FH_IDLE_PEAK_SHARE 4u

/* The peak of what is in use is noted in steps of this, and of a sixty-fourth. */
#define FH_PEAK_STEP_SLOTS ((FH_STRESS ? 256 * FH_KIB : FH_MIB) / FH_SLOT_SIZE)

/* Bytes a second that may be missed without being worth more memory: 16,384 page faults, some 10 ms. */
#define FH_REFAULT_RATE ((FH_STRESS ? 1 : 64) * FH_MIB)

/* In eager mode free slots are purged in batches: whole huge pages when more than 4 MiB are free, pieces of them beyond
 * 8 MiB. One by one each would cost a system call, 1 µs a page instead of 0.08, and its huge page. */
#define FH_EAGER_WHOLE ((FH_STRESS ? 128 * FH_KIB : 4 * FH_MIB) / FH_SLOT_SIZE)
#define FH_EAGER_PIECES ((FH_STRESS ? 256 * FH_KIB : 8 * FH_MIB) / FH_SLOT_SIZE)

/* A safe point goes through this many chunks at most, so that no free takes long. */
#define FH_IDLE_CHUNKS (FH_STRESS ? 2u : 64u)

/* How often a long buffer comes and goes until the policy is asked again whether it may be kept, while there is credit, which fades. */
#define FH_KEEP_ASKED (FH_STRESS ? 2u : 4u)

/* Safe points without a search after one that found nothing to purge. */
#define FH_IDLE_BACK_OFF (FH_STRESS ? 1u : 32u)

/* ── Free pages inside of slabs (reclaim/budget.h, reclaim/trim.c, reclaim/cold.c) ─────────────────────────────────────── */

/* Chunks, and a sixteenth, by which the heap grows between two samples of how much of it is free. Every eighth chunk is
 * weighed: all of them would be noticed where a heap grows for good. */
#define FH_INSIDE_CHUNKS (FH_STRESS ? 1u : 4u)
#define FH_INSIDE_EVERY (FH_STRESS ? 1u : 8u)

/* Slots in a sample of what is free inside slabs; bytes to be flushed between two at least; halves of chunks that one safe
 * point purges, so that no free takes long. */
#define FH_INSIDE_SAMPLE (FH_STRESS ? 8u : 64u)
#define FH_INSIDE_STEP (FH_STRESS ? 4 * FH_KIB : 64 * FH_KIB)
#define FH_INSIDE_HALVES (FH_STRESS ? 1u : 4u)

/* Slabs of a class that a sample for defragmenting looks at, at most; blocks asked about between two, at least. */
#define FH_DEFRAG_SAMPLE (FH_STRESS ? 16u : 1024u)
#define FH_DEFRAG_LEAST (FH_STRESS ? 4u : 64u)

/* A heap that does not grow is searched for cold classes once it has this many bytes, and this many were taken from slabs;
 * the sum of what was taken is made whenever this power of two is passed, once a MiB. */
#define FH_COLD_HEAP_BYTES (FH_STRESS ? 4 * FH_MIB : 32 * FH_MIB)
#define FH_COLD_TAKEN_BYTES (FH_STRESS ? 64 * FH_KIB : 4 * FH_MIB)
#define FH_FLOW_STEP_SHIFT (FH_STRESS ? 14 : 20)

/* Bytes that must come back to a cold class before it is worth another walk, and the longest that one is left alone. */
#define FH_COLD_AGAIN_BYTES (FH_STRESS ? 64 * FH_KIB : FH_MIB)
#define FH_COLD_BACK_OFF (FH_STRESS ? 2u : 32u)

/* Slabs with holes that one call searches: some 30 µs, and no more in a heap of any size (store/holes.c). */
#define FH_HOLES_SLABS (FH_STRESS ? 4u : 512u)

/* ── Huge pages (reclaim/budget.h, store/thp.c) ─────────────────────────────────────────────────────────────────── */

/* The first chunks stay on small pages: a small process pays for what it touches, not for 2 MiB. With four of them a cold
 * start of 200 MB takes 1.15 of the time that it takes with huge pages from the first byte, with two 1.04. But small programs
 * come in numbers: each process of a PostgreSQL server has 2 to 4 MiB less at its peak with four than with two. */
#define FH_YOUNG_CHUNKS (FH_STRESS ? 1u : 4u)

/* From so many chunks on a heap is put on huge pages if three quarters of what it has were touched, and its control group is not small:
 * a program of few sizes, which writes its blocks whole. A cold start of 20 MB takes three quarters of the time. */
#define FH_DENSE_CHUNKS 2u

/* Up to so many chunks a heap that has touched less than half of its slabs stays young: some blocks of a hundred sizes are a
 * slab each. An interpreter that has just started has touched 4 of 14 MiB. A Python server that keeps 300 bodies of 100 KB
 * has 20 MiB of such slabs beside them. */
#define FH_SPARSE_CHUNKS (FH_STRESS ? 2u : 16u)

/* Nanoseconds of CPU time from which on the first touch of a huge page was a slow one; a stress build calls about every
 * second one slow. What follows a slow one, in halves of chunks: at first, and at most (2 GiB). */
#define FH_HUGE_TOUCH_SLOW (FH_STRESS ? UINT64_C(250000) : UINT64_C(1000000))
#define FH_BACK_OFF_FIRST (FH_STRESS ? 1u : 16u)
#define FH_BACK_OFF_MOST (FH_STRESS ? 4u : 1024u)

/* A heap that has grown by so much since it was purged piece by piece grows back: what was split for that is worth huge pages
 * again. */
#define FH_GROWN ((size_t)(FH_STRESS ? 64 * FH_KIB : 4 * FH_MIB))

/* Nanoseconds of CPU time that the 512 small pages in place of a huge one take, and the most that quick huge pages may have saved. */
#define FH_SMALL_PAGES_TOUCH (FH_STRESS ? UINT64_C(125000) : UINT64_C(500000))
#define FH_TOUCH_SAVED_MOST (16 * FH_SMALL_PAGES_TOUCH)

/* While they have saved the most, one first touch in so many is timed. */
#define FH_TOUCH_TIMED_ONE_IN 4u

/* A part with other advice is a mapping of its own, and there may be 65,530, of which we take half at most: see
 * FH_MAPPINGS_MOST. So many chunks may have such parts, which are two more mappings each at most, because neighbours with
 * the same advice are one. */
#define FH_ADVISED_CHUNKS (FH_STRESS ? 2u : 1024u)

/* Chunks that begin with other advice than the one before. From then on all begin with the same. */
#define FH_ADVICE_TURNS (FH_STRESS ? 16u : 2048u)

/* The same for chunks that turned out to be worth huge pages later than when they were brought. */
#define FH_PROVEN_MOST (FH_STRESS ? 16u : 2048u)

/* ── Blocks that move (store/large.c, store/purge.c) ─────────────────────────────────────────────────────────────────── */

/* From this length on a block that moves to fresh memory moves by its pages: 2 MiB. */
#define FH_MOVE_SLOTS (FH_STRESS ? 2u : 32u)

/* From this length on a block that is freed is looked at for whether it was ever touched: 64 MiB. */
#define FH_SPARSE_SLOTS (FH_STRESS ? 40u : 1024u)

/* Moved pages are a mapping of their own. So many chunks may have some, and each that of so many moves: the end of one block
 * and the beginning of the next. */
#define FH_MOVED_CHUNKS (FH_STRESS ? 4u : 4096u)
#define FH_MOVED_PIECES 2u

/* ── Free chunks that are dropped (store/run.c) ─────────────────────────────────────────────────────────────────────────── */

/* A dropped chunk between others is a hole in a mapping. */
#define FH_HOLES_MOST (FH_STRESS ? 16u : 512u)

/* ── Gaps between the slabs of a hardened program (store/gaps.h) ────────────────────────────────────────────────────────── */

/* Where the kernel cannot mark pages, each is two mappings more. */
#define FH_GAPS_MOST (FH_STRESS ? 16u : 480u)

/* All of these at once, each two mappings more; and each region's metadata is one. Half of what the kernel allows by default is
 * for the program: its libraries, threads and files. */
#define FH_MAPPINGS_MOST                                                                                               \
    (2 * (FH_ADVISED_CHUNKS + FH_ADVICE_TURNS + FH_PROVEN_MOST + FH_MOVED_CHUNKS * FH_MOVED_PIECES + FH_HOLES_MOST +   \
          FH_GAPS_MOST) +                                                                                              \
     FH_WINDOW_REGIONS)

/* ── The background thread (reclaim/budget.h) ──────────────────────────────────────────────────────────────────────── */

/* A heap that uses less does not start it. */
#define FH_BACKGROUND_FROM (FH_STRESS ? 256 * FH_KIB : 8 * FH_MIB)

/* Bytes that are worth waking it for, and of which it returns the whole instead of half. */
#define FH_BACKGROUND_SMALL (FH_STRESS ? 64 * FH_KIB : FH_MIB)

/* ── The assertions that the above relies on ─────────────────────────────────────────────────────────────────────── */

_Static_assert(FH_MAPPINGS_MOST <= 65530 / 2, "our mappings");
_Static_assert(FH_IDLE_FLOOR_SLOTS >= 4, "half of the floor, which may stay under pressure, is a slot or more");

#endif
