/* The rules of purging and shrinking, asked with numbers alone: no memory is allocated, no time passes. */
#include "cache/shrink.h"
#include "reclaim/budget.h"
#include "store/holes.h"
#include "system/limits.h"

#include "../support/check.h"

/* Slots of 64 KiB in so many MiB. */
static size_t mib(size_t n) {
    return n * FH_MIB / FH_SLOT_SIZE;
}

/* The promise behind "goes home while the program sleeps": whatever was used before, what may stay is a small share. */
static void budget_is_bounded(void) {
    CHECK(fh_idle_budget(0, mib(512), 0, FH_PRESSURE_NONE) == FH_IDLE_FLOOR_SLOTS, "an empty heap keeps its floor");
    size_t before = 0;
    for (size_t used = 0; used <= mib(1 << 20); used = used * 2 + 1) {
        size_t budget = fh_idle_budget(used, 2 * used, 0, FH_PRESSURE_NONE);
        CHECK(budget >= FH_IDLE_FLOOR_SLOTS, "%zu slots used: a budget of %zu is below the floor", used, budget);
        CHECK(budget <= FH_IDLE_FLOOR_SLOTS + FH_IDLE_SMALL_SLOTS + used / FH_IDLE_USED_SHARE,
              "%zu slots used: budget %zu", used, budget);
        CHECK(budget >= before, "more is used, and %zu of %zu may stay", budget, before);
        before = budget;
        size_t target = fh_idle_target(budget);
        CHECK(target < budget, "a purge that stops at the budget itself is for one slot: %zu of %zu", target, budget);
        CHECK(fh_idle_target(budget) >= budget / 2, "a purge that takes more than half: %zu of %zu", target, budget);
    }
    if (FH_STRESS) return; /* its budgets are others */
    CHECK(fh_idle_budget(mib(16), 0, 0, FH_PRESSURE_NONE) == mib(4 + 4 + 1), "16 MiB used: the table of memory.md");
    CHECK(fh_idle_budget(mib(160), 0, 0, FH_PRESSURE_NONE) == mib(4 + 4 + 10), "160 MiB used: the table of memory.md");
    /* 512 MiB that were used once and are free now: at most a tenth may stay. */
    CHECK(fh_idle_budget(0, mib(512), 0, FH_PRESSURE_NONE) * 10 <= mib(512), "more than a tenth of 512 MiB stays");
}

/* What was purged and wanted again raises the budget to cover it: the next phase of the same size purges nothing. */
static void credit_covers_what_was_missed(void) {
    for (size_t missed = 1; missed <= mib(1 << 16); missed *= 3) {
        size_t budget = fh_idle_budget(0, missed, missed, FH_PRESSURE_NONE);
        CHECK(budget >= FH_IDLE_FLOOR_SLOTS + missed, "missed %zu, budget %zu", missed, budget);
    }
}

/* What it adds does not come on top of a peak: at the peak it is a quarter at most, however much was missed. */
static void credit_ends_at_the_peak(void) {
    for (size_t used = mib(1); used <= mib(1 << 16); used *= 3) {
        size_t plain = fh_idle_budget(used, used, 0, FH_PRESSURE_NONE);
        size_t most = fh_idle_budget(used, used, 16 * used, FH_PRESSURE_NONE);
        CHECK(most == plain + used / 4, "%zu used, and the credit adds %zu", used, most - plain);
        most = fh_idle_budget(used, 3 * used, 16 * used, FH_PRESSURE_NONE);
        CHECK(most == plain + 2 * used + used / 4, "%zu used of %zu, and the credit adds %zu", used, 3 * used,
              most - plain);
    }
}

/* What is missed rarely earns nothing; what is missed at once, or all the time, does. */
static void allowance_covers_what_is_rare(void) {
    const size_t most = FH_REFAULT_RATE / 4;
    CHECK(fh_allowance_after(0, UINT64_C(1) << 30) == most, "after a second there is more than the most");
    CHECK(fh_allowance_after(most, UINT64_MAX) == most && fh_allowance_after(most, 0) == most, "the most is exceeded");
    CHECK(fh_allowance_after(0, 0) == 0 && fh_allowance_after(5, 0) == 5, "no time has passed");
    size_t step = fh_allowance_after(0, UINT64_C(1) << 20);
    CHECK(step == FH_REFAULT_RATE >> 10, "in a thousandth of a second %zu bytes, of %zu a second", step,
          (size_t)FH_REFAULT_RATE);
    CHECK(fh_allowance_after(step, UINT64_C(1) << 20) == 2 * step, "what there was is lost");
}

static void credit_fades(void) {
    CHECK(fh_is_refault(0) && fh_is_refault(1), "wanted again within a second, and not missed");
    CHECK(!fh_is_refault(60), "a minute's sleep counts as a miss");
    const size_t all = 512 * FH_MIB;
    size_t credit = all;
    CHECK(fh_credit_after(credit, 0, 0) == credit, "no time has passed");
    CHECK(fh_credit_after(credit, 0, 1) == credit / 2, "it halves in a second");
    CHECK(fh_credit_after(credit, 0, 3) == credit / 8, "and in each further one");
    CHECK(fh_credit_after(credit, 0, 64) == 0 && fh_credit_after(credit, all, UINT64_MAX) == 0, "a long sleep");
    CHECK(fh_credit_after(FH_MIB, FH_REFAULT_RATE, 1) == FH_MIB / 2, "so little is re-used that missing it is cheap");
    /* Phases that go on: what is re-used each second is not forgotten, however long that goes on. */
    for (int second = 0; second < 100; second++) credit = fh_credit_after(credit, all, 1);
    CHECK(credit == all, "still in use, yet the credit fell to %zu", credit);
    /* It never grows by itself, whatever was re-used. */
    CHECK(fh_credit_after(10, all, 1) == 10, "re-use alone raised the credit");
    /* Phases that stop: gone within ten seconds. */
    for (int second = 0; second < 10; second++) credit = fh_credit_after(credit, 0, 1);
    CHECK(credit <= FH_MIB, "%zu bytes are still credited after ten idle seconds", credit);
}

static void pressure_overrides(void) {
    size_t used = mib(4096), credit = mib(1024);
    size_t none = fh_idle_budget(used, 2 * used, credit, FH_PRESSURE_NONE),
           some = fh_idle_budget(used, 2 * used, credit, FH_PRESSURE_SOME);
    CHECK(none > some && some > 0, "some pressure: %zu of %zu", some, none);
    CHECK(fh_idle_budget(used, 2 * used, credit, FH_PRESSURE_HIGH) == 0, "high pressure leaves nothing");
    CHECK(!fh_idle_pieces_too(100, 100, FH_PRESSURE_NONE), "a huge page was split without need");
    CHECK(fh_idle_pieces_too(201, 100, FH_PRESSURE_NONE), "twice the budget, and huge pages still whole");
    CHECK(fh_idle_pieces_too(1, 100, FH_PRESSURE_SOME), "memory is short, and huge pages still whole");
}

/* A search that found nothing is not repeated before something has changed. */
static void searches(void) {
    size_t step = FH_CHUNK_SLOTS / 2;
    CHECK(!fh_idle_has_changed(1000, 1000) && !fh_idle_has_changed(1000 + step - 1, 1000), "nothing has changed");
    CHECK(fh_idle_has_changed(1000 + step, 1000), "2 MiB more are free");
    CHECK(fh_idle_has_changed(1000 - step, 1000) && !fh_idle_has_changed(1001 - step, 1000), "2 MiB fewer are free");
}

static void inside_of_slabs(void) {
    CHECK(fh_inside_is_due(FH_SEARCH_FROM, 0) && !fh_inside_is_due(FH_SEARCH_FROM - 1, 0), "the first time");
    size_t looks = 0, last = 0;
    for (size_t chunks = 0; chunks < 1 << 18; chunks++) {
        if (!fh_inside_is_due(chunks, last)) continue;
        last = chunks;
        looks++;
    }
    CHECK(looks < 220, "%zu looks while a heap grew to 1 TiB", looks);
    CHECK(fh_inside_pays(50, 100) && fh_inside_pays(100, 100) && !fh_inside_pays(49, 100), "half is the line");
}

/* When slabs are sampled, and what of the sample is too much. */
static void samples_inside(void) {
    size_t budget = 8 * FH_MIB;
    CHECK(!fh_inside_is_excess(6 * FH_MIB, 0, budget), "three quarters of the budget");
    CHECK(fh_inside_is_excess(6 * FH_MIB + 1, 0, budget), "more than that");
    CHECK(fh_inside_is_excess(2 * FH_MIB, 5 * FH_MIB, budget), "free slots count too");
    CHECK(!fh_inside_is_excess(FH_MIB, FH_GIB, budget), "an eighth of the budget is not worth a walk");
    CHECK(fh_inside_step(FH_GIB, FH_GIB, budget) == FH_GIB / 8, "an eighth of what is alive");
    CHECK(fh_inside_step(FH_MIB, 0, budget) == budget / 2, "nothing is free: that much first");
    CHECK(fh_inside_step(0, FH_GIB, budget) == FH_INSIDE_STEP, "the least");
    /* A heap that is freed block by block is sampled some dozens of times. */
    size_t looks = 0;
    for (size_t live = FH_GIB; live > FH_MIB; looks++) live -= fh_inside_step(live, FH_GIB - live, budget);
    CHECK(looks >= 30 && looks <= 60, "%zu samples while a GiB was freed", looks);
}

static void cold_classes(void) {
    size_t looks = 0, last = 0;
    for (size_t chunks = 8; chunks < 1 << 18; chunks++) {
        if (!fh_cold_is_due(chunks, last)) continue;
        last = chunks;
        looks++;
    }
    /* One for each chunk at first, then 45 a doubling, so that looks cost a share of what growing costs. */
    CHECK(looks >= 400 && looks <= 700, "%zu looks while a heap grows to a TiB", looks);
    CHECK(!fh_cold_again(FH_COLD_AGAIN_BYTES - 1, 0) && fh_cold_again(FH_COLD_AGAIN_BYTES, 0), "a MiB is the least");
    CHECK(!fh_cold_again(FH_GIB - 1, 32 * FH_GIB) && fh_cold_again(FH_GIB, 32 * FH_GIB), "a thirty-second is the line");
    size_t heap = FH_COLD_HEAP_BYTES, taken = heap / 64 > FH_COLD_TAKEN_BYTES ? heap / 64 : FH_COLD_TAKEN_BYTES;
    CHECK(!fh_cold_is_due_by_flow(heap / 2, FH_GIB), "a small heap is left alone");
    CHECK(!fh_cold_is_due_by_flow(heap, taken - 1) && fh_cold_is_due_by_flow(heap, taken), "4 MiB are the least");
    CHECK(!fh_cold_is_due_by_flow(FH_GIB, 15 * FH_MIB) && fh_cold_is_due_by_flow(FH_GIB, 16 * FH_MIB),
          "a sixty-fourth of the heap is the line");
    /* A guest wastes a quarter of what it is at most. */
    CHECK(fh_guest_fits(160, 192) && fh_guest_fits(160, 200) && !fh_guest_fits(160, 208), "160 bytes on parts of 100");
}

/* Looks at a control group: several on the way to its limit, and none so close to the next that it would be noticed. */
static void readings_of_a_group(void) {
    static const size_t limits[] = {32 * FH_MIB, 64 * FH_MIB, FH_GIB, 64 * FH_GIB};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        size_t used = 0, looks = 0, last_step = 0;
        bool some = false, high = false;
        for (; used < limits[i]; used += last_step, looks++) {
            some = some || fh_limit_judge(used, limits[i]) == FH_PRESSURE_SOME;
            high = high || fh_limit_judge(used, limits[i]) == FH_PRESSURE_HIGH;
            last_step = fh_group_next_read(limits[i], used);
            CHECK(last_step >= FH_MIB && last_step >= limits[i] / 512, "a look after %zu bytes", last_step);
        }
        CHECK(some && high, "on the way to %zu MiB one of the two steps was passed over", limits[i] / FH_MIB);
        CHECK(looks >= 15 && looks <= 60, "%zu looks on the way to %zu MiB", looks, limits[i] / FH_MIB);
    }
    CHECK(fh_group_next_read(FH_GIB, 2 * FH_GIB) == FH_GIB / 512, "beyond the limit");
    CHECK(fh_stall_judge(999) == FH_PRESSURE_NONE && fh_stall_judge(1000) == FH_PRESSURE_SOME, "a tenth of the time");
}

/* What nobody wants goes by halves, and to the last byte; what somebody wanted since the last look stays. */
static void background(void) {
    size_t kept = 512 * FH_MIB;
    unsigned looks = 0;
    for (; kept > 0; looks++) kept = fh_background_keep(kept, kept);
    CHECK(looks == (FH_STRESS ? 14 : 10), "512 MiB that nobody wants are gone after %u looks", looks);
    CHECK(fh_background_keep(FH_GIB, 0) == FH_GIB, "all of it was wanted");
    CHECK(fh_background_keep(FH_GIB, FH_GIB / 2) == FH_GIB - FH_GIB / 4, "half of it was not");
    CHECK(fh_background_keep(FH_BACKGROUND_SMALL, FH_GIB) == 0, "less than there was: somebody else gave it back");
    for (size_t free = 0; free < FH_GIB; free = free * 3 + 1) {
        for (size_t lowest = 0; lowest < FH_GIB; lowest = lowest * 3 + 1) {
            size_t keep = fh_background_keep(free, lowest);
            CHECK(keep <= free && free - keep <= lowest, "%zu of %zu kept, %zu unused", keep, free, lowest);
        }
    }
    CHECK(!fh_background_is_worth(FH_BACKGROUND_SMALL - 1) && fh_background_is_worth(FH_BACKGROUND_SMALL),
          "a MiB is worth a wake-up");
    CHECK(FH_BACKGROUND_PERIOD * FH_BACKGROUND_QUIET_ROUNDS == UINT64_C(1000000000),
          "a second of quiet, as documented");
}

/* Which limit of the system was met, among them those that no test can bring about without disturbing the machine. */
static void refusals(void) {
    const fh_system_limits none = {.address_limit = FH_NO_LIMIT,
                                   .data_limit = FH_NO_LIMIT,
                                   .commit_limit = FH_NO_LIMIT,
                                   .mappings_limit = FH_NO_LIMIT,
                                   .overcommit = 1,
                                   .machine_bytes = FH_GIB};
    fh_system_limits l = none;
    CHECK(fh_refusal_judge(&l, FH_GIB * 8) == FH_REFUSED_UNKNOWN, "no limit is met");
    CHECK(fh_refusal_judge(&l, FH_ADDRESSES) == FH_REFUSED_TOO_LARGE, "half of all addresses");
    l.overcommit = 0;
    CHECK(fh_refusal_judge(&l, FH_GIB + 1) == FH_REFUSED_GUESS, "more than the machine");
    CHECK(fh_refusal_judge(&l, FH_GIB) == FH_REFUSED_UNKNOWN, "as much as the machine");
    l.overcommit = 2;
    l.commit_limit = 3 * FH_GIB;
    l.commit_used = 2 * FH_GIB;
    CHECK(fh_refusal_judge(&l, FH_GIB + 1) == FH_REFUSED_COMMIT, "more than may be promised");
    CHECK(fh_refusal_judge(&l, FH_GIB) == FH_REFUSED_UNKNOWN, "as much as may be promised");
    l.commit_used = 4 * FH_GIB;
    CHECK(fh_refusal_judge(&l, 1) == FH_REFUSED_COMMIT, "already beyond it");
    l.overcommit = 0;
    CHECK(fh_refusal_judge(&l, 1) == FH_REFUSED_UNKNOWN, "the commit limit counts in mode 2 only");
    l = none;
    l.data_limit = 100 * FH_MIB;
    l.data_used = 99 * FH_MIB;
    CHECK(fh_refusal_judge(&l, 2 * FH_MIB) == FH_REFUSED_DATA && fh_refusal_judge(&l, FH_MIB) == FH_REFUSED_UNKNOWN,
          "data");
    l.address_limit = 100 * FH_MIB;
    l.address_used = 99 * FH_MIB;
    CHECK(fh_refusal_judge(&l, 2 * FH_MIB) == FH_REFUSED_ADDRESSES, "addresses are looked at before data");
    l.mappings_limit = 65530;
    l.mappings = 65529;
    CHECK(fh_refusal_judge(&l, 1) == FH_REFUSED_MAPPINGS, "mappings are looked at before bytes");
    l.mappings = 65528;
    CHECK(fh_refusal_judge(&l, 1) == FH_REFUSED_UNKNOWN, "room for two mappings");
}

/* When caches become thin: for a class by what nobody wanted, for the heap by what was given back. */
static void caches_shrink(void) {
    CHECK(fh_shrink_limit(true) < fh_shrink_limit(false),
          "a contraction is not quicker to see that a class is not wanted");
    size_t old = FH_CONTRACTION_SETTLED_SECONDS, large = FH_GIB;
    for (size_t peak = FH_MIB; peak <= 64 * FH_GIB; peak *= 3) {
        CHECK(!fh_contraction_begins(peak / 2 - 1, peak, 0, old), "a contraction before half of %zu was given back",
              peak);
        CHECK(!fh_contraction_begins(FH_CONTRACTION_LEAST_SETTLED - 1, peak, 0, old),
              "a contraction for next to nothing");
        CHECK(!fh_contraction_begins(FH_CONTRACTION_LEAST - 1, peak, 0, 0),
              "a heap that has just grown retreats early");
        bool worth = peak >= FH_CONTRACTION_LEAST_SETTLED;
        CHECK(fh_contraction_begins(peak, peak, 0, old) == worth, "all of %zu was given back", peak);
    }
    /* What was dropped and wanted again at once is not dropped a second time. */
    for (size_t peak = FH_CONTRACTION_LEAST; peak <= 64 * FH_GIB; peak *= 3)
        CHECK(!fh_contraction_begins(peak, peak, peak / 2, 0), "%zu: the credit changes nothing", peak);
    CHECK(!fh_contraction_ends(large, large), "nothing was wanted, yet the contraction ends");
    CHECK(!fh_contraction_ends(large - large / 16, large), "a sixteenth is within the to and fro");
    CHECK(fh_contraction_ends(large - large / 8, large), "an eighth is wanted again, and the contraction goes on");
    CHECK(!fh_contraction_ends(0, FH_CONTRACTION_ENDS - 1), "a small retreat ends for nothing");
    /* Of a class that is flushed, the two magazines of a bin hold a sixteenth at most, in slabs of 64 KiB; or sixteen
     * blocks of 4 KiB together. */
    for (size_t size = FH_MIN_ALIGN; size <= FH_SMALL_MAX; size *= 2) {
        size_t least = 4 * FH_KIB / size, few = FH_STRESS || least < 1 ? 1 : least > 16 ? 16 : least;
        unsigned before = (unsigned)few;
        for (size_t bytes = 0; bytes <= 64 * FH_GIB; bytes = bytes * 2 + FH_MIB / 2) {
            unsigned blocks = fh_contraction_blocks(size, bytes);
            CHECK(blocks >= before && blocks <= FH_SHRUNK_BLOCKS, "%zu flushed: %u blocks a bin", bytes, blocks);
            CHECK(blocks <= few || 2 * blocks * FH_SLOT_SIZE <= bytes / 16, "%zu flushed: bins may hold too much",
                  bytes);
            before = blocks;
        }
        CHECK(fh_contraction_blocks(size, 64 * FH_GIB) == FH_SHRUNK_BLOCKS,
              "a class that is all of a heap is not flushed in batches");
    }
}

/* Huge pages that come at once are asked for each time; slow ones after 16, 32, 64 … that are passed over. */
static void back_off_grows_and_ends(void) {
    const uint64_t none = 100, quick = 200000, slow = 4000000;
    CHECK(fh_back_off_after(0, quick) == 0 && fh_back_off_after(0, none) == 0, "a quick one changed something");
    uint64_t back_off = 0, passed = 0;
    for (unsigned times = 1; times <= 20; times++) {
        back_off = fh_back_off_after(back_off, slow);
        CHECK(back_off > passed || back_off == FH_BACK_OFF_MOST, "%zu are passed over after slow one no. %u",
              (size_t)back_off, times);
        CHECK(times > 1 || back_off == FH_BACK_OFF_FIRST, "%zu after the first slow one", (size_t)back_off);
        passed = back_off;
    }
    CHECK(fh_back_off_after(back_off, none) == back_off, "what was no huge page changed something");
    /* Quick again: soon nothing is left of it. */
    for (int times = 0; times < 10; times++) back_off = fh_back_off_after(back_off, quick);
    CHECK(back_off == 0, "ten quick ones, and slow ones are held against them");
}

/* Of so many huge pages in a thousand, spread evenly, that are slow, how many are not paid. */
static unsigned not_paid(unsigned slow_ones) {
    const uint64_t quick = FH_SMALL_PAGES_TOUCH * 34 / 100, slow = 8 * FH_SMALL_PAGES_TOUCH;
    uint64_t saved = 0;
    unsigned unpaid = 0;
    for (unsigned i = 0; i < 1000; i++) {
        bool is_slow = (i + 1) * slow_ones / 1000 != i * slow_ones / 1000;
        uint64_t took = is_slow ? slow : quick;
        unpaid += is_slow && !fh_touch_is_paid(saved, took);
        saved = fh_touch_saved_after(saved, took);
        CHECK(saved <= FH_TOUCH_SAVED_MOST, "%zu ns are saved", (size_t)saved);
    }
    return unpaid;
}

/* A few slow huge pages cost less than quick ones save. */
static void few_slow_ones_are_paid(void) {
    CHECK(not_paid(50) == 0 && not_paid(85) == 0, "a slow one in twelve, and %u of 85 are not paid", not_paid(85));
    CHECK(not_paid(200) > 50, "one in five is slow, which is more than is saved, and only %u are not paid",
          not_paid(200));
    CHECK(not_paid(1000) == 1000, "all are slow, and %u are paid", 1000 - not_paid(1000));
    /* However many were quick, a few slow ones in a row are enough. */
    uint64_t saved = FH_TOUCH_SAVED_MOST;
    unsigned row = 0;
    for (const uint64_t slow = 8 * FH_SMALL_PAGES_TOUCH; fh_touch_is_paid(saved, slow); row++)
        saved = fh_touch_saved_after(saved, slow);
    CHECK(row <= 2, "%u slow ones in a row were paid", row);
    /* Not each is timed while they have saved the most; one slow one, and each is. */
    CHECK(fh_touch_timed_one_in(0) == 1 && fh_touch_timed_one_in(FH_TOUCH_SAVED_MOST) == FH_TOUCH_TIMED_ONE_IN,
          "what is timed does not depend on what was saved");
    saved = fh_touch_saved_after(FH_TOUCH_SAVED_MOST, FH_HUGE_TOUCH_SLOW);
    CHECK(fh_touch_timed_one_in(saved) == 1, "a slow one, and not each is timed");
}

int main(void) {
    caches_shrink();
    readings_of_a_group();
    background();
    refusals();
    cold_classes();
    inside_of_slabs();
    samples_inside();
    budget_is_bounded();
    credit_covers_what_was_missed();
    credit_ends_at_the_peak();
    allowance_covers_what_is_rare();
    credit_fades();
    pressure_overrides();
    back_off_grows_and_ends();
    few_slow_ones_are_paid();
    searches();
    printf("the rules for giving back hold\n");
    return 0;
}
