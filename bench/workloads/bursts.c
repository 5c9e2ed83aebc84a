// SPDX-License-Identifier: MIT OR Apache-2.0
// Bursts: each thread makes a batch of 8 to 600 blocks of skewed sizes and frees it again. Half of the batches are freed
// last in, first out, and half first in, first out. A sixteenth of the blocks is kept for long; an eighth is handed to
// another thread, which frees them between two batches. A parser, a request handler, a query planner.
//
// A cache that suits one size and one depth is refilled and emptied all the time here.
// Arguments: threads=, batches= of each thread, min= and max= blocks of a batch, keep= blocks of a thread that live long,
// seed=.
#include "skewed.h"

#include <stdatomic.h>

static const struct bench_variant variants[] = {
    {"bursts-1t", "threads=1 batches=24000", "full"},
    {"bursts-2t", "threads=2 batches=12000", "quick"},
    {"bursts-8t", "threads=8 batches=3000", "quick"},
    {"bursts-8t-long", "threads=8 batches=12000", "full"},
};

enum { MOST = 4096, INBOX = 4096 };

// Blocks on their way from one thread to the next. One thread puts in and one takes out, so two counters suffice.
struct inbox {
    _Atomic(uint32_t) put __attribute__((aligned(BENCH_LINE)));
    _Atomic(uint32_t) taken __attribute__((aligned(BENCH_LINE)));
    bench_slot slots[INBOX];
};

static struct {
    struct inbox *inboxes;
    bench_slot *kept;
    uint64_t seed;
    uint32_t threads, batches, min, max, keep;
} all;

static bool hand_on(struct inbox *inbox, bench_slot slot) {
    uint32_t put = atomic_load_explicit(&inbox->put, memory_order_relaxed);
    if (put - atomic_load_explicit(&inbox->taken, memory_order_acquire) == INBOX) {
        return false;
    }
    inbox->slots[put % INBOX] = slot;
    atomic_store_explicit(&inbox->put, put + 1, memory_order_release);
    return true;
}

static uint64_t empty_inbox(struct inbox *inbox) {
    uint32_t taken = atomic_load_explicit(&inbox->taken, memory_order_relaxed);
    uint32_t put = atomic_load_explicit(&inbox->put, memory_order_acquire);
    uint64_t sum = 0;
    for (; taken != put; taken++) {
        sum += skewed_give(inbox->slots[taken % INBOX]);
    }
    atomic_store_explicit(&inbox->taken, taken, memory_order_release);
    return sum;
}

// Sixteen blocks: one is exchanged for one that was kept before, two go to the next thread, the rest stays in the batch.
// With one thread the next is the same one.
static uint64_t part_with(bench_slot *batch, uint32_t count, bench_slot *kept, struct inbox *next,
                          struct bench_rng *rng) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t fate = i % 16;
        if (fate == 3) {
            bench_slot *place = &kept[bench_below(rng, all.keep)];
            bench_slot old = *place;
            *place = batch[i];
            batch[i] = old;
        } else if (fate == 7 || fate == 13) {
            // Where the other one does not keep up, the block is freed at once.
            if (!hand_on(next, batch[i])) {
                sum += skewed_give(batch[i]);
            }
            batch[i] = 0;
        }
    }
    return sum;
}

static void work(void *context, unsigned index) {
    (void)context;
    struct bench_rng rng = bench_rng_make(all.seed, index);
    struct inbox *own = &all.inboxes[index], *next = &all.inboxes[(index + 1) % all.threads];
    bench_slot *kept = all.kept + (size_t)index * all.keep;
    bench_slot batch[MOST];
    uint64_t sum = 0, made = 0;
    for (uint32_t round = 0; round < all.batches; round++) {
        uint32_t count = bench_between(&rng, all.min, all.max);
        for (uint32_t i = 0; i < count; i++) {
            batch[i] = skewed_take(&rng);
        }
        made += count;
        sum += part_with(batch, count, kept, next, &rng);
        bool backwards = round % 2 == 0;
        for (uint32_t i = 0; i < count; i++) {
            bench_slot slot = batch[backwards ? count - 1 - i : i];
            sum += slot != 0 ? skewed_give(slot) : 0;
        }
        sum += empty_inbox(own);
    }
    bench_tallies[index].sum = sum;
    bench_tallies[index].ops = made;
}

// After all have met: nobody hands anything on any more.
static void clean(void *context, unsigned index) {
    (void)context;
    bench_slot *kept = all.kept + (size_t)index * all.keep;
    uint64_t sum = 0, live = 0;
    for (uint32_t i = 0; i < all.keep; i++) {
        if (kept[i] != 0) {
            live += bench_slot_size(kept[i]);
            sum += skewed_give(kept[i]);
        }
    }
    bench_tallies[index].live = live;
    bench_tallies[index].sum += sum + empty_inbox(&all.inboxes[index]);
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    all.threads = (uint32_t)bench_arg("threads", 2);
    all.batches = (uint32_t)bench_arg("batches", 12000);
    all.min = (uint32_t)bench_arg("min", 8);
    all.max = (uint32_t)bench_arg("max", 600);
    all.keep = (uint32_t)bench_arg("keep", 4096);
    all.seed = bench_arg("seed", 1);
    if (all.threads == 0 || all.threads > BENCH_MAX_THREADS || all.min == 0 || all.max < all.min || all.max > MOST ||
        all.keep == 0) {
        bench_fail("bursts: 1 to %d threads, a batch of 1 to %d blocks, min at most max, one kept at least",
                   BENCH_MAX_THREADS, MOST);
    }
    all.inboxes = (struct inbox *)bench_map(all.threads * sizeof(struct inbox));
    all.kept = (bench_slot *)bench_map((size_t)all.threads * all.keep * sizeof(bench_slot));
    struct bench_plan plan = {.work = work, .clean = clean};
    bench_team_run(all.threads, &plan, 0);
    uint64_t made = 0;
    for (uint32_t i = 0; i < all.threads; i++) {
        made += bench_tallies[i].ops;
    }
    bench_clock.ops = made;
    // What is kept, and a batch of middling length for each thread.
    bench_live(bench_tally_live(all.threads) + (uint64_t)all.threads * (all.min + all.max) / 2 * SKEWED_MEAN);
    bench_calls(made, made);
    return bench_finish(bench_tally_sum(all.threads));
}
