// SPDX-License-Identifier: MIT OR Apache-2.0
// Some threads allocate, others free: pipelines, message queues, asynchronous writers. Blocks travel through
// bounded rings of 4,096, one from each producer to each consumer, so the harness itself has no contended
// word; both ends are published in batches, which leaves the allocator as the only thing that may cost.
//
// A side that has to wait sleeps in the kernel instead of spinning: spinning would count as processor time of
// whichever allocator happens to be faster on one of the two sides. With hold= the consumer lets that many
// blocks of each ring live and only ever frees the oldest: "retire", a thread that frees what all others
// made. Live memory is then constant, and RSS should be.
// Arguments: from= producers, to= consumers, size= (or min= and max=), n= blocks, queue= entries, hold=,
// seed=, sample=1 for RSS over time.
#include "bench.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static const struct bench_variant variants[] = {
    {"handover-1-1", "from=1 to=1 size=64 n=20000000", "quick"},
    {"handover-1-3", "from=1 to=3 size=64 n=20000000", "full"},
    {"handover-3-1", "from=3 to=1 size=64 n=20000000", "full"},
    {"handover-1-1-50m", "from=1 to=1 size=64 n=50000000 sample=1", "full"},
    {"handover-1-3-50m", "from=1 to=3 size=64 n=50000000 sample=1", "full"},
    {"handover-3-1-50m", "from=3 to=1 size=64 n=50000000 sample=1", "full"},
    {"retire", "from=3 to=1 min=64 max=1024 queue=262144 hold=237500 n=20000000 sample=1", "full"},
    {"retire-small", "from=3 to=1 min=64 max=1024 queue=65536 hold=59000 n=3000000 sample=1", "quick"},
};

enum { BATCH = 32, MAX_SIDE = 16 };

// Single producer, single consumer. head and tail only grow; each side keeps a copy of the other's counter
// and reloads it only when the copy says full or empty.
struct ring {
    _Alignas(BENCH_LINE) _Atomic(uint32_t) tail; // written by the producer
    uint32_t written, head_seen;
    _Alignas(BENCH_LINE) _Atomic(uint32_t) head; // written by the consumer
    uint32_t taken, tail_seen;
    _Alignas(BENCH_LINE) bench_slot *cells;
    struct bench_rng rng; // the producer's, for sizes
};

// A thread sleeps on its own word; the partners set it to 0 and wake it.
struct sleeper {
    _Alignas(BENCH_LINE) _Atomic(uint32_t) asleep;
};

static struct {
    struct ring rings[MAX_SIDE][MAX_SIDE];
    struct sleeper sleepers[2 * MAX_SIDE];
    uint32_t from, to, mask, hold, min, max;
    uint64_t per_ring;
    bool sample;
    _Alignas(BENCH_LINE) _Atomic(uint32_t) running;
} all;

static void wake(uint32_t who) {
    struct sleeper *sleeper = &all.sleepers[who];
    if (atomic_load(&sleeper->asleep) != 0 && atomic_exchange(&sleeper->asleep, 0) != 0) {
        syscall(SYS_futex, &sleeper->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

// Sleeps unless ready() holds after the word was set: the partner publishes first and looks at the word
// afterwards, both in one total order, so one of the two sees the other. The time limit is a safety net only.
static void sleep_unless(uint32_t who, bool (*ready)(uint32_t), uint32_t index) {
    struct sleeper *sleeper = &all.sleepers[who];
    for (int spin = 0; spin < 64; spin++) {
        if (ready(index)) {
            return;
        }
        sched_yield();
    }
    atomic_store(&sleeper->asleep, 1);
    if (!ready(index)) {
        struct timespec limit = {0, 20000000};
        syscall(SYS_futex, &sleeper->asleep, FUTEX_WAIT_PRIVATE, 1, &limit, NULL, 0);
    }
    atomic_store(&sleeper->asleep, 0);
}

// A sleeper is worth waking when half a ring is waiting for it; ends of a stream wake without looking.
static bool room_somewhere(uint32_t producer) {
    for (uint32_t to = 0; to < all.to; to++) {
        struct ring *ring = &all.rings[producer][to];
        if (ring->written < all.per_ring && ring->written - atomic_load(&ring->head) <= all.mask - BATCH) {
            return true;
        }
    }
    return false;
}

// How many blocks of a ring may be freed: all above the hold, and all of them once the producer is through.
static uint32_t available(const struct ring *ring, uint32_t tail) {
    uint32_t there = tail - ring->taken;
    if (tail == all.per_ring) {
        return there;
    }
    return there > all.hold ? there - all.hold : 0;
}

static bool blocks_somewhere(uint32_t consumer) {
    for (uint32_t from = 0; from < all.from; from++) {
        struct ring *ring = &all.rings[from][consumer];
        if (available(ring, atomic_load(&ring->tail)) != 0) {
            return true;
        }
    }
    return false;
}

// Allocates a batch into one ring; returns how many blocks went in.
static uint32_t put_batch(struct ring *ring, uint32_t stream, uint32_t consumer) {
    if (ring->written - ring->head_seen > all.mask - BATCH) {
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (ring->written - ring->head_seen > all.mask - BATCH) {
            return 0;
        }
    }
    uint64_t left = all.per_ring - ring->written;
    uint32_t count = left < BATCH ? (uint32_t)left : BATCH;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = ring->written++;
        size_t size = all.min == all.max ? all.min : bench_between(&ring->rng, all.min, all.max);
        ring->cells[number & all.mask] = bench_take_slot(size, (uint8_t)(number + stream));
    }
    atomic_store(&ring->tail, ring->written);
    if (ring->written - ring->head_seen > all.hold + (all.mask - all.hold) / 2 || ring->written == all.per_ring) {
        wake(all.from + consumer);
    }
    return count;
}

static void produce(uint32_t producer) {
    uint64_t left = all.per_ring * all.to;
    while (left > 0) {
        uint32_t done = 0;
        for (uint32_t to = 0; to < all.to; to++) {
            struct ring *ring = &all.rings[producer][to];
            if (ring->written < all.per_ring) {
                done += put_batch(ring, producer, to);
            }
        }
        left -= done;
        if (done == 0) {
            sleep_unless(producer, room_somewhere, producer);
        }
    }
}

static uint32_t take_batch(struct ring *ring, uint32_t stream, uint64_t *sum) {
    uint32_t there = available(ring, ring->tail_seen);
    if (there == 0) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        there = available(ring, ring->tail_seen);
    }
    uint32_t count = there < BATCH ? there : BATCH;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = ring->taken++;
        *sum += bench_give_slot(ring->cells[number & all.mask], (uint8_t)(number + stream));
    }
    if (count != 0) {
        atomic_store(&ring->head, ring->taken);
        if (ring->tail_seen - ring->taken < all.hold + (all.mask - all.hold) / 2) {
            wake(stream);
        }
    }
    return count;
}

static void consume(uint32_t consumer) {
    uint64_t left = all.per_ring * all.from, sum = 0;
    while (left > 0) {
        uint32_t done = 0;
        for (uint32_t from = 0; from < all.from; from++) {
            done += take_batch(&all.rings[from][consumer], from, &sum);
        }
        left -= done;
        if (done == 0) {
            sleep_unless(all.from + consumer, blocks_somewhere, consumer);
        }
    }
    bench_tallies[consumer].sum = sum;
}

static void work(void *context, unsigned index) {
    (void)context;
    if (index < all.from) {
        produce(index);
    } else {
        consume(index - all.from);
    }
    atomic_fetch_sub(&all.running, 1);
}

// RSS every 20 ms: a queue of 4,096 blocks must not grow the process.
static void watch(void *context) {
    (void)context;
    while (atomic_load(&all.running) != 0) {
        bench_series_point();
        bench_sleep(0.02);
    }
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    all.from = (uint32_t)bench_arg("from", 1);
    all.to = (uint32_t)bench_arg("to", 1);
    all.min = (uint32_t)bench_arg("min", bench_arg("size", 64));
    all.max = (uint32_t)bench_arg("max", all.min);
    all.hold = (uint32_t)bench_arg("hold", 0);
    all.mask = (uint32_t)bench_arg("queue", 4096) - 1;
    all.sample = bench_arg("sample", 0) != 0;
    if (all.from == 0 || all.to == 0 || all.from > MAX_SIDE || all.to > MAX_SIDE || (all.mask & (all.mask + 1)) != 0 ||
        all.hold + 4 * BATCH > all.mask) {
        bench_fail("handover: 1 to %d threads on a side, a power of two for the queue, a smaller hold", MAX_SIDE);
    }
    all.per_ring = bench_arg("n", 6000000) / (all.from * all.to);
    for (uint32_t from = 0; from < all.from; from++) {
        for (uint32_t to = 0; to < all.to; to++) {
            all.rings[from][to].cells = (bench_slot *)bench_map((all.mask + 1) * sizeof(bench_slot));
            all.rings[from][to].rng = bench_rng_make(bench_arg("seed", 1), from * MAX_SIDE + to);
        }
    }
    uint64_t blocks = all.per_ring * all.from * all.to;
    bench_live((uint64_t)(all.mask + 1) * (all.min + all.max) / 2 * all.from * all.to);
    atomic_store(&all.running, all.from + all.to);
    struct bench_plan plan = {.work = work, .during = all.sample ? watch : NULL};
    bench_team_run(all.from + all.to, &plan, blocks);
    if (all.sample) {
        bench_series_print("rss");
    }
    return bench_finish(bench_tally_sum(all.to));
}
