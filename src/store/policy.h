/* When memory goes back: pure arithmetic, with no memory, clock or thread in sight, so that each rule can be tested by
 * giving it numbers. purge.c and huge.c have the counters and do what is decided here.
 *
 * The idea is a budget and not a delay. A delay that is looked at only when somebody allocates never ends in a program
 * that has gone to sleep; a budget holds at each moment, so what a sleeping program keeps is bounded without a helper
 * thread: whoever frees beyond it gives back.
 *
 * Thread-safety and progress: functions of their arguments, wait-free. */
#ifndef FH_STORE_POLICY_H
#define FH_STORE_POLICY_H

#include "base/types.h"

/* How short memory is, as limit.h judges it. */
typedef enum {
    FH_PRESSURE_NONE,
    FH_PRESSURE_SOME, /* nine tenths of a limit are used: caches shrink */
    FH_PRESSURE_HIGH, /* there is next to nothing left: whatever is free goes back */
} fh_pressure;

/* ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* How close a use is to its limit. */
static inline fh_pressure fh_limit_judge(size_t used, size_t limit) {
    if (used >= limit - limit / 32) return FH_PRESSURE_HIGH;
    return used >= limit - limit / 10 ? FH_PRESSURE_SOME : FH_PRESSURE_NONE;
}

/* The bytes that may get memory before a control group is looked at again: an eighth of what is left, so that there are
 * several looks on the way to the limit, but not so few that the looks, of some 60 µs each and more when memory is short,
 * would be noticed beside the page faults. */
static inline size_t fh_group_next_look(size_t limit, size_t used) {
    size_t room = limit > used ? limit - used : 0, share = room / 8, least = limit / 512;
    if (least < FH_MIB) least = FH_MIB;
    return share > least ? share : least;
}

/* The kernel says in how much of the last ten seconds some thread of the group waited for memory; here in hundredths of a
 * percent. From a tenth on the group is short, whatever its figures say. */
#define FH_STALL_SHORT 1000u
static inline fh_pressure fh_stall_judge(unsigned hundredths) {
    return hundredths >= FH_STALL_SHORT ? FH_PRESSURE_SOME : FH_PRESSURE_NONE;
}

/* What is held back of a hard limit until the first refusal, for the small blocks that dealing with a refusal takes: a
 * message, an exception, a request that is answered with an error. A slot for each of some dozens of classes, as at that
 * moment no empty slab is kept any more. */
static inline size_t fh_limit_reserve(size_t hard) {
    size_t share = hard / 16;
    return share < 2 * FH_SLOT_SIZE ? 2 * FH_SLOT_SIZE : share > 4 * FH_MIB ? 4 * FH_MIB : share;
}

/* ── Free slots with memory behind them ──────────────────────────────────────────────────────────────────────────── */

#define FH_PURGE_FLOOR_SLOTS ((size_t)(8 * FH_MIB / FH_SLOT_SIZE))

/* In eager mode free slots go back in batches: whole huge pages when more than 4 MiB are free, pieces of them beyond 8 MiB.
 * One by one each would cost a call of the system, 1 µs a page instead of 0.08, and its huge page. */
#define FH_PURGE_EAGER_WHOLE ((size_t)(4 * FH_MIB / FH_SLOT_SIZE))
#define FH_PURGE_EAGER_PIECES ((size_t)(8 * FH_MIB / FH_SLOT_SIZE))

/* How many free slots may keep their memory: a floor, a share of what is used, and what was given back before and wanted
 * again (the regret), with a quarter on top because a program seldom grows to exactly the same size twice. */
static inline size_t fh_purge_budget(size_t used, size_t regret, fh_pressure pressure) {
    if (pressure == FH_PRESSURE_HIGH) return 0;
    if (pressure == FH_PRESSURE_SOME) return FH_PURGE_FLOOR_SLOTS / 4;
    return FH_PURGE_FLOOR_SLOTS + used / 8 + regret + regret / 4;
}

/* Where a purge stops that began because `dirty` exceeded the budget: a quarter below it, so that the next calls of the
 * system are not for one slot each. */
static inline size_t fh_purge_target(size_t budget) {
    return budget - budget / 4;
}

/* A free slot on a huge page has memory as soon as a neighbour has, and no book shows it. A heap with a small limit of its
 * own, which gains least by huge pages, goes without them, so that its limit is one on what is resident too. */
static inline bool fh_purge_huge_pages_fit(size_t limit) {
    return limit == 0 || limit >= FH_GIB;
}

/* Whole huge pages go first; pieces of them only when there is twice the budget, as each costs its huge page. */
static inline bool fh_purge_pieces_too(size_t dirty, size_t budget, fh_pressure pressure) {
    return pressure != FH_PRESSURE_NONE || dirty > 2 * budget;
}

/* A slot that was purged is missed if it is wanted again within a second or two of the last purge. A program that comes
 * back to its size after a minute has slept without that memory, which is what giving back is for. */
static inline bool fh_purge_is_missed(uint64_t seconds_since_purge) {
    return seconds_since_purge <= 1;
}

/* What the regret has become after so many seconds in the last of which `reused` dirty slots were claimed again: it halves
 * every second, but not below what is being re-used, which would be missed again if it were given back. */
static inline size_t fh_purge_regret(size_t regret, size_t reused, uint64_t seconds) {
    if (seconds > 63) return 0;
    size_t halved = regret >> seconds;
    size_t needed = seconds > 1 ? 0 : reused < regret ? reused : regret;
    return halved > needed ? halved : needed;
}

/* ── Free pages inside of slabs ──────────────────────────────────────────────────────────────────────────────────── */

/* A heap that grows although half of what it has is free is full of holes that nobody fits in: sizes have drifted, or one
 * block in a hundred has stayed. Growing by a sixteenth since the last look is the occasion to see whether that is so, so
 * a heap of any size is looked at some eleven times a doubling. */
static inline bool fh_inside_is_due(size_t chunks, size_t last) {
    return chunks >= last + last / 16 + 4;
}

static inline bool fh_inside_pays(size_t free, size_t used) {
    return free >= used - used / 2;
}

/* Classes that nobody wants any more (idle.h) are looked for after every thirty-second of growth. */
static inline bool fh_idle_is_due(size_t chunks, size_t last) {
    return chunks >= last + last / 32 + 1;
}

/* And after so many bytes were taken from slabs: a heap whose holes are filled grows seldom. */
static inline bool fh_idle_is_due_by_flow(size_t heap, uint64_t taken) {
    return heap >= 32 * FH_MIB && taken >= 4 * FH_MIB && taken >= heap / 32;
}

/* An idle class is gone through again when as much was given back since as makes it worth the walk: a sixteenth of what
 * was free in it, and a MiB at least. */
static inline bool fh_idle_again(size_t given, size_t free_then) {
    return given >= FH_MIB && given >= free_then / 16;
}

/* ── Slabs that are let to other sizes ───────────────────────────────────────────────────────────────────────────── */

/* What a lodger (sublet.h) may take of the units that it lies on: a block of 100 bytes on two of 96 would waste as much as it
 * saves. */
#define FH_LODGER_UNITS 32u
static inline bool fh_lodger_fits(size_t size, size_t on) {
    return on <= size + size / 4;
}

/* Pages inside of slabs that lie on a huge page cost that huge page, and the kernel gets the memory only when it splits it.
 * It pays from a quarter of it on. */
#define FH_HUGE_PAGE (2 * FH_MIB)
static inline bool fh_split_pays(size_t free) {
    return free >= FH_HUGE_PAGE / 4;
}

/* ── Huge pages ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The kernel clears a huge page that it has at hand in 0.1 to 0.4 ms; 512 small pages cost 0.3 to 0.8. But when it has to
 * move other pages out of the way first, or a virtual machine's host has to find the memory, it took 2 to 6 ms. So the
 * first touch is timed, and after a slow one the next are passed over: sixteen, and twice as many each time that it is slow
 * again. A quick one halves that. With all of them slow, three of the hundred of a heap of 200 MB are
 * asked for, which makes its first touch an eighth longer than without any.
 *
 *     halves of chunks that are still to be passed over, and in the upper half of the word how many it were last time */
#define FH_HUGE_TOUCH_SLOW UINT64_C(1000000) /* nanoseconds of processor time */
#define FH_HUGE_TOUCH_LEAST UINT64_C(20000)  /* less, and it was no huge page that came */
#define FH_PATIENCE_FIRST 16u
#define FH_PATIENCE_MOST 1024u /* 2 GiB */

static inline bool fh_patience_passes_over(uint64_t patience) {
    return (uint32_t)patience != 0;
}

/* So many halves were passed over. */
static inline uint64_t fh_patience_passed(uint64_t patience, unsigned halves) {
    uint32_t left = (uint32_t)patience;
    return patience - (left < halves ? left : halves);
}

/* The first touch of a huge page took so long. */
static inline uint64_t fh_patience_after(uint64_t patience, uint64_t nanoseconds) {
    uint64_t last = patience >> 32;
    if (nanoseconds < FH_HUGE_TOUCH_LEAST) return patience;
    if (nanoseconds < FH_HUGE_TOUCH_SLOW) return last / 2 < FH_PATIENCE_FIRST ? 0 : last / 2 << 32;
    uint64_t next = last * 2 < FH_PATIENCE_FIRST ? FH_PATIENCE_FIRST : last * 2;
    if (next > FH_PATIENCE_MOST) next = FH_PATIENCE_MOST;
    return next << 32 | next;
}

/* ── The background thread ───────────────────────────────────────────────────────────────────────────────────────── */

#define FH_BACKGROUND_PERIOD UINT64_C(250000000) /* nanoseconds between two looks while it is awake */
#define FH_BACKGROUND_QUIET_LOOKS 4u             /* in a row, after which caches are looked into: a second */
#define FH_BACKGROUND_SMALL FH_MIB

/* Of `free` bytes, how many to keep when at no moment since the last look there were fewer than `lowest`: those were not
 * wanted for that long, and half of them go. What is small goes whole, so that it comes to an end. 512 MiB that nobody
 * wants are gone after ten looks. */
static inline size_t fh_background_keep(size_t free, size_t lowest) {
    size_t unused = lowest < free ? lowest : free;
    return free - (unused <= FH_BACKGROUND_SMALL ? unused : unused / 2);
}

/* Is so much worth waking it? */
static inline bool fh_background_is_worth(size_t bytes) {
    return bytes >= FH_BACKGROUND_SMALL;
}

/* ── What the caches keep ────────────────────────────────────────────────────────────────────────────────────────────── */

/* Bytes of a class that nobody has wanted since, from which on it ebbs (cache/ebb.h): what found its depot full, or in a
 * retreat of the whole heap whatever was flushed. */
static inline size_t fh_ebb_limit(bool retreat) {
    return retreat ? 64 * FH_KIB : 4 * FH_MIB;
}

/* Blocks that each magazine of an ebbing class may hold, if it is that class alone. */
#define FH_EBB_BLOCKS 30u

/* Half of what threads had in hand when it was most was given back, and so much that it is worth the trouble: 64 MiB, as
 * many a program drops as much in order to make it anew at once; 16 MiB once it has not grown for some seconds. */
#define FH_RETREAT_LEAST (64 * FH_MIB)
#define FH_RETREAT_LEAST_SETTLED (16 * FH_MIB)
#define FH_RETREAT_SETTLED_SECONDS 3u
static inline bool fh_retreat_begins(size_t given, size_t peak, size_t regret, uint64_t seconds_since_growth) {
    size_t share = peak / 2;
    size_t least = seconds_since_growth < FH_RETREAT_SETTLED_SECONDS ? FH_RETREAT_LEAST : FH_RETREAT_LEAST_SETTLED;
    return given >= (share > least ? share : least) + regret + regret / 4;
}

/* A sixteenth of what was given back has been taken again: the program grows. */
static inline bool fh_retreat_ends(size_t given, size_t deepest) {
    return given + 4 * FH_MIB + deepest / 16 <= deepest;
}

/* In a retreat each block that a bin holds may hold a slab: of some hundred classes, one block for every thousand slabs
 * keeps a tenth of the heap at most. */
static inline unsigned fh_retreat_blocks(size_t used) {
    size_t blocks = used / FH_SLOT_SIZE / 1024;
    return blocks < 1 ? 1 : blocks > FH_EBB_BLOCKS ? FH_EBB_BLOCKS : (unsigned)blocks;
}

/* ── Freed huge blocks that are kept ─────────────────────────────────────────────────────────────────────────────── */

#define FH_HUGE_CACHE_FLOOR (16 * FH_MIB)
#define FH_HUGE_CACHE_MOST (512 * FH_MIB)
#define FH_HUGE_CACHE_SECONDS 2u

/* The allowance is what the cache may hold beyond its floor. It is raised to what was unmapped and wanted again within a
 * second or so, and goes when nothing was missed for as long: a program that makes and drops 64 MiB again and again
 * keeps them, one that did so once does not.
 *
 * A block of `wanted` bytes was not in the cache, and one of `gone` bytes was turned away `seconds` ago. */
static inline size_t fh_huge_allowance(size_t allowance, size_t wanted, size_t gone, uint64_t seconds) {
    bool missed = gone >= wanted && seconds <= 1 && gone <= FH_HUGE_CACHE_MOST;
    return missed && gone > allowance ? gone : allowance;
}

/* True if the allowance has had its time: nothing was missed for so many seconds. */
static inline bool fh_huge_allowance_over(uint64_t seconds) {
    return seconds > FH_HUGE_CACHE_SECONDS;
}

static inline size_t fh_huge_cache_limit(size_t allowance, fh_pressure pressure) {
    return pressure == FH_PRESSURE_NONE ? FH_HUGE_CACHE_FLOOR + allowance : 0;
}

#endif
