/* When memory returns to the OS: pure arithmetic, with no memory, clock or thread in sight, so that each rule can be tested by
 * giving it numbers. The other files of this directory have the counters and do what is decided here.
 *
 * The idea is a budget and not a delay. A delay that is checked only when some thread allocates never ends in a program
 * that has gone idle. A budget holds at each moment, so what an idle program keeps is bounded without a helper thread: a free
 * that exceeds the budget purges a bounded amount. Only the credit, a part of the budget, fades with time: that is seen at the
 * next slow paths, and a program that has gone quite idle just after its heap came back keeps what it got by the credit.
 *
 * Thread-safety and progress: functions of their arguments, wait-free. */
#ifndef FH_RECLAIM_BUDGET_H
#define FH_RECLAIM_BUDGET_H

#include "base/tuning.h"
#include "store/events.h"

/* ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* How close a use is to its limit. */
static inline fh_pressure fh_limit_judge(size_t used, size_t limit) {
    if (used >= limit - limit / 32) return FH_PRESSURE_HIGH;
    return used >= limit - limit / 10 ? FH_PRESSURE_SOME : FH_PRESSURE_NONE;
}

/* The bytes that may get memory before the control group is read again: an eighth of what is left, so that it is read several
 * times on the way to the limit. But not so often that it is noticed beside the page faults: reading takes some 60 µs,
 * and more when memory is short. */
static inline size_t fh_group_next_read(size_t limit, size_t used) {
    size_t left = limit > used ? limit - used : 0, share = left / 8, least = limit / 512;
    if (least < FH_MIB) least = FH_MIB;
    return share > least ? share : least;
}

/* The kernel says in how much of the last ten seconds some thread of the group waited for memory; here in hundredths of a
 * percent. From a tenth on the group is short, even if its figures say otherwise. */
#define FH_STALL_SHORT 1000u
static inline fh_pressure fh_stall_judge(unsigned hundredths) {
    return hundredths >= FH_STALL_SHORT ? FH_PRESSURE_SOME : FH_PRESSURE_NONE;
}

/* ── Refault credit ──────────────────────────────────────────────────────────────────────────────────────────────── */

/* Refaults cost time, and what is kept to avoid them costs memory. FH_REFAULT_RATE bytes a second are not worth any: they
 * take a hundredth of the time. So refaults are first paid from an allowance, which grows at that rate, up to a quarter of
 * a second's worth. What it does not cover is credit.
 *
 * The allowance after so many nanoseconds. */
static inline size_t fh_allowance_after(size_t allowance, uint64_t nanoseconds) {
    uint64_t most = FH_REFAULT_RATE / 4,
             more = nanoseconds < UINT64_C(1) << 30 ? nanoseconds * (FH_REFAULT_RATE >> 20) >> 10 : most;
    return more < most - allowance ? allowance + (size_t)more : (size_t)most;
}

/* What the credit has become after so many seconds, in the last of which `reused` bytes of what was kept were in use again:
 * it halves every second, but not below what is being re-used, which would be missed again if it were purged. So little that
 * the allowance would cover it does not count. */
static inline size_t fh_credit_after(size_t credit, size_t reused, uint64_t seconds) {
    if (seconds > 63) return 0;
    size_t halved = credit >> seconds, missed = reused > FH_REFAULT_RATE ? reused : 0;
    size_t needed = seconds > 1 ? 0 : missed < credit ? missed : credit;
    return halved > needed ? halved : needed;
}

/* A quarter on top, because a program rarely grows to exactly the same size twice. */
static inline size_t fh_credit_worth(size_t credit) {
    return credit + credit / 4;
}

/* ── Free slots with memory behind them ──────────────────────────────────────────────────────────────────────────── */

/* How many free slots may keep their memory: a floor, a share of what is used that is larger for a small heap, and the
 * credit. The credit is for a program that returns to its size, so what it adds is at most what the peak was above what is
 * used now, and a quarter. Else what is kept from one phase would come on top of the next phase's peak. All in slots. */
static inline size_t fh_idle_budget(size_t used, size_t peak, size_t credit, fh_pressure pressure) {
    if (pressure == FH_PRESSURE_HIGH) return 0;
    if (pressure == FH_PRESSURE_SOME) return FH_IDLE_FLOOR_SLOTS / 2;
    size_t small = used / FH_IDLE_SMALL_SHARE, most = (peak > used ? peak - used : 0) + used / FH_IDLE_PEAK_SHARE;
    if (small > FH_IDLE_SMALL_SLOTS) small = FH_IDLE_SMALL_SLOTS;
    size_t again = fh_credit_worth(credit);
    return FH_IDLE_FLOOR_SLOTS + small + used / FH_IDLE_USED_SHARE + (again < most ? again : most);
}

/* Where a purge stops that began because `dirty` exceeded the budget: a quarter below it, so that the next system calls are
 * not for one slot each. */
static inline size_t fh_idle_target(size_t budget) {
    return budget - budget / 4;
}

/* Whole huge pages first; pieces of them only when there is twice the budget, because each costs its huge page. */
static inline bool fh_idle_pieces_too(size_t dirty, size_t budget, fh_pressure pressure) {
    return pressure != FH_PRESSURE_NONE || dirty > 2 * budget;
}

/* What is free may be so scattered that no huge page is worth splitting. Then there is little sense in searching again for
 * each slab that is released: the next FH_IDLE_BACK_OFF safe points do not, unless the figure has changed by 2 MiB. */
static inline bool fh_idle_has_changed(size_t dirty, size_t dirty_then) {
    size_t step = FH_CHUNK_SLOTS / 2;
    return dirty >= dirty_then + step || dirty + step <= dirty_then;
}

/* ── Free pages inside of slabs, and holes ───────────────────────────────────────────────────────────────────────── */

/* A heap that grows although half of what it has is free is full of holes into which no size fits: sizes have drifted, or one
 * block in a hundred has stayed. Growth by a sixteenth since the last time is the occasion to see whether that is so: a
 * heap of any size is weighed some eleven times a doubling. */
static inline bool fh_inside_is_due(size_t chunks, size_t last) {
    return chunks >= FH_SEARCH_FROM && chunks >= last + last / 16 + FH_INSIDE_CHUNKS;
}

static inline bool fh_inside_pays(size_t free, size_t used) {
    return free >= used - used / 2;
}

/* Free pages inside slabs are a part of what is kept. They are purged when they exceed three quarters of the budget, together
 * with the free slots: until the next sample more will be free. Less than an eighth of it is not worth a walk of the heap. */
static inline bool fh_inside_is_excess(size_t inside, size_t dirty, size_t budget) {
    return inside > budget / 8 && inside + dirty > fh_idle_target(budget);
}

/* The bytes to be flushed until the next sample: an eighth of what is alive, because a few blocks decide about each page.
 * Not before all that is free could exceed the budget. */
static inline size_t fh_inside_step(size_t live, size_t free, size_t budget) {
    size_t room = free < budget / 2 ? budget / 2 - free : 0, step = live / 8;
    if (step < FH_INSIDE_STEP) step = FH_INSIDE_STEP;
    return step > room ? step : room;
}

/* Cold classes are looked for after every sixty-fourth of growth. What they free lies idle until then: at every thirty-second Redis
 * had 2 MiB of 215 more at its peak. */
static inline bool fh_cold_is_due(size_t chunks, size_t last) {
    return chunks >= FH_SEARCH_FROM && chunks >= last + last / 64 + 1;
}

/* And after a sixty-fourth of the heap was taken from slabs: a heap whose holes are filled rarely grows. */
static inline bool fh_cold_is_due_by_flow(size_t heap, uint64_t taken) {
    return heap >= FH_COLD_HEAP_BYTES && taken >= FH_COLD_TAKEN_BYTES && taken >= heap / 64;
}

/* A cold class is walked again when enough was given to its slabs since: a thirty-second of what was free in it, and a MiB
 * at least. */
static inline bool fh_cold_again(size_t given, size_t free_then) {
    return given >= FH_COLD_AGAIN_BYTES && given >= free_then / 32;
}

/* A slab of a cold class is opened to other sizes when five eighths of it are free. In one of which half is free most holes are one
 * or two blocks long, so few guests fit; and each of its own blocks takes the slow half of free from then on. */
static inline bool fh_opening_pays(size_t free) {
    return free >= FH_SLOT_SIZE / 8 * 5;
}

/* ── Huge pages ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A free slot on a huge page has memory as soon as a neighbour has, and no book shows it. A heap with a small limit of its
 * own, which gains least by huge pages, does without them, so that its limit is one on what is resident too. */
static inline bool fh_huge_pages_fit(size_t limit) {
    return limit == 0 || limit >= FH_GIB;
}

/* The kernel clears a huge page that it has ready in 0.1 to 0.4 ms; 512 small pages cost 0.3 to 0.8. But when it has to move
 * other pages out of the way first, or a virtual machine's hypervisor has to find the memory, it took 2 to 6 ms. So the first
 * touch is timed, and after a slow one the next are passed over: sixteen, and twice as many each time that it is slow again
 * (a back-off). A quick one halves that. With all of them slow, three of the hundred of a heap of 200 MB are asked for,
 * which makes its first touch an eighth longer than without any.
 *
 * `last`: how many were passed over last time. Returns how many now. */
#define FH_HUGE_TOUCH_LEAST UINT64_C(20000) /* nanoseconds; less, and it was no huge page that came */

static inline uint64_t fh_back_off_after(uint64_t last, uint64_t nanoseconds) {
    if (nanoseconds < FH_HUGE_TOUCH_LEAST) return last;
    if (nanoseconds < FH_HUGE_TOUCH_SLOW) return last / 2 < FH_BACK_OFF_FIRST ? 0 : last / 2;
    uint64_t next = last * 2 < FH_BACK_OFF_FIRST ? FH_BACK_OFF_FIRST : last * 2;
    return next > FH_BACK_OFF_MOST ? FH_BACK_OFF_MOST : next;
}

/* One slow huge page among many quick ones is no reason to do without. So quick ones save up what small pages would have taken longer,
 * and a slow one is paid from that. Only one that is not paid starts the back-off. With a twelfth of them at 4 ms and the others at 0.17
 * all are paid, and huge pages are still the cheaper ones; with a fifth they are not.
 *
 * What is saved after a touch of so many nanoseconds. */
static inline uint64_t fh_touch_saved_after(uint64_t saved, uint64_t nanoseconds) {
    if (nanoseconds < FH_HUGE_TOUCH_LEAST) return saved;
    if (nanoseconds > FH_SMALL_PAGES_TOUCH) {
        uint64_t loss = nanoseconds - FH_SMALL_PAGES_TOUCH;
        return saved > loss ? saved - loss : 0;
    }
    saved += FH_SMALL_PAGES_TOUCH - nanoseconds;
    return saved < FH_TOUCH_SAVED_MOST ? saved : FH_TOUCH_SAVED_MOST;
}

/* True if `saved` covers what this touch took longer than small pages. */
static inline bool fh_touch_is_paid(uint64_t saved, uint64_t nanoseconds) {
    return nanoseconds <= FH_SMALL_PAGES_TOUCH || saved >= nanoseconds - FH_SMALL_PAGES_TOUCH;
}

/* One first touch in so many is timed then: each, until huge pages have proven quick. To touch the page is what takes long, and it is the
 * program's to do. When they turn slow a few more come before that is noticed. */
static inline uint64_t fh_touch_timed_one_in(uint64_t saved) {
    return saved < FH_TOUCH_SAVED_MOST ? 1 : FH_TOUCH_TIMED_ONE_IN;
}

/* ── The background thread ───────────────────────────────────────────────────────────────────────────────────────── */

#define FH_BACKGROUND_PERIOD UINT64_C(250000000) /* nanoseconds between two rounds while it is awake */
#define FH_BACKGROUND_QUIET_ROUNDS 4u            /* in a row, after which caches are flushed: a second */

/* Of `free` bytes, how many to keep when there were never fewer than `lowest` since the last round: there was no demand for
 * those, and half of them are purged. What is small goes whole, so that it comes to an end. 512 MiB without demand are gone
 * after ten rounds. */
static inline size_t fh_background_keep(size_t free, size_t lowest) {
    size_t unused = lowest < free ? lowest : free;
    return free - (unused <= FH_BACKGROUND_SMALL ? unused : unused / 2);
}

/* Is so much worth waking it? */
static inline bool fh_background_is_worth(size_t bytes) {
    return bytes >= FH_BACKGROUND_SMALL;
}

#endif
