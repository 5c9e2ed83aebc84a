// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads that come and go: each allocates a few hundred cells, frees the half of them itself, and leaves the
// other half in a mailbox, from which it takes what another thread, long gone perhaps, has left, and frees
// that. What a thread had in its cache when it ended, and blocks whose owner is dead, must not be lost.
//
// With alone=1 one thread does the same work without creating any: the measure for memory.
// Arguments: threads= over the whole run, lanes= alive at once, cells= of each, alone=1, seed=.
#include "bench.h"

#include <stdatomic.h>

static const struct bench_variant variants[] = {
    {"churn-10k", "threads=10000 lanes=4", "quick"},
    {"churn-alone", "threads=10000 lanes=1 alone=1", "full"},
    {"churn-100k", "threads=100000 lanes=4", "full"},
    {"churn-wide", "threads=20000 lanes=64", "full"},
};

enum { MAX_CELLS = 1000, MAX_LANES = 256 };

// What one thread leaves for another. Carriers are the harness's own memory and travel through the mailboxes
// by exchange; there is one for each lane and one for each mailbox, so somebody always has an empty one.
struct carrier {
    bench_slot cells[MAX_CELLS];
    uint32_t count;
};

struct lane {
    struct carrier *carrier;
    struct bench_rng rng;
    uint64_t sum, bytes;
    pthread_t current;
    uint64_t runs;
};

static struct {
    _Atomic(struct carrier *) mailboxes[MAX_LANES];
    struct lane lanes[MAX_LANES];
    uint32_t lane_count, cells;
    bool alone;
} all;

static uint64_t empty_carrier(struct carrier *carrier) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < carrier->count; i++) {
        sum += bench_slot_size(carrier->cells[i]);
        sum += bench_give_slot(carrier->cells[i], (uint8_t)bench_slot_size(carrier->cells[i]));
    }
    carrier->count = 0;
    return sum;
}

// The life of one short thread. Every odd cell goes to the mailbox of a random lane.
static void *live(void *argument) {
    struct lane *lane = (struct lane *)argument;
    struct carrier *carrier = lane->carrier;
    bench_slot own[MAX_CELLS];
    for (uint32_t i = 0; i < all.cells; i++) {
        uint32_t size = bench_between(&lane->rng, 16, 512);
        own[i] = bench_take_slot(size, (uint8_t)size);
    }
    for (uint32_t i = 0; i < all.cells; i++) {
        if (i % 2 != 0) {
            carrier->cells[carrier->count++] = own[i];
        } else {
            size_t size = bench_slot_size(own[i]);
            lane->sum += size + bench_give_slot(own[i], (uint8_t)size);
        }
    }
    carrier = atomic_exchange(&all.mailboxes[bench_below(&lane->rng, all.lane_count)], carrier);
    lane->sum += empty_carrier(carrier);
    lane->carrier = carrier;
    return NULL;
}

// One thread after another; the keeper of a lane is a thread of the team and allocates nothing itself.
static void work(void *context, unsigned index) {
    (void)context;
    struct lane *lane = &all.lanes[index];
    for (uint64_t run = 0; run < lane->runs; run++) {
        if (all.alone) {
            live(lane);
            continue;
        }
        if (pthread_create(&lane->current, NULL, live, lane) != 0) {
            bench_fail("churn: cannot create a thread");
        }
        pthread_join(lane->current, NULL);
    }
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    uint64_t threads = bench_arg("threads", 10000);
    all.lane_count = (uint32_t)bench_arg("lanes", 4);
    all.cells = (uint32_t)bench_arg("cells", 200);
    all.alone = bench_arg("alone", 0) != 0;
    if (all.lane_count == 0 || all.lane_count > MAX_LANES || all.cells > MAX_CELLS) {
        bench_fail("churn: 1 to %d lanes, at most %d cells", MAX_LANES, MAX_CELLS);
    }
    struct carrier *carriers = (struct carrier *)bench_map(2 * all.lane_count * sizeof(struct carrier));
    for (uint32_t i = 0; i < all.lane_count; i++) {
        all.lanes[i].carrier = &carriers[2 * i];
        all.lanes[i].rng = bench_rng_make(bench_arg("seed", 1), i);
        all.lanes[i].runs = threads / all.lane_count;
        atomic_store(&all.mailboxes[i], &carriers[2 * i + 1]);
    }
    struct bench_plan plan = {.work = work};
    bench_team_run(all.lane_count, &plan, threads / all.lane_count * all.lane_count * all.cells);
    uint64_t check = 0;
    for (uint32_t i = 0; i < all.lane_count; i++) {
        check += all.lanes[i].sum + empty_carrier(atomic_load(&all.mailboxes[i]));
    }
    bench_live((uint64_t)all.lane_count * all.cells * 264 * 3 / 2);
    return bench_finish(check);
}
