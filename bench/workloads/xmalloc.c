// SPDX-License-Identifier: MIT OR Apache-2.0
// An xmalloc-like test: as many producers as consumers, and batches of blocks of mixed small sizes that go
// through one common list, so that any consumer may get the blocks of any producer. (After Lever and Boreham,
// "malloc() performance in a multithreaded Linux environment", 2000.)
//
// The list is a ring under a mutex, taken once for 120 blocks; its cost is the same for every allocator.
// queued_most says how many batches waited at once: how many blocks are alive depends on who is faster.
// Arguments: pairs= of producer and consumer, batches= for each producer, seed=.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"xmalloc-1", "pairs=1 batches=40000", "quick"},
    {"xmalloc-2", "pairs=2 batches=25000", "full"},
    {"xmalloc-4", "pairs=4 batches=40000", "full"},
};

enum { BATCH = 120, QUEUE = 256 };

// Batches live in the queue's own memory: copying 960 bytes under the lock costs less than allocating a
// carrier would.
struct batch {
    bench_slot slots[BATCH];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    struct batch *ring;
    uint32_t head, count, most, pairs;
    uint64_t batches, seed;
} all = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .not_empty = PTHREAD_COND_INITIALIZER, .not_full = PTHREAD_COND_INITIALIZER};

static const uint16_t sizes[] = {8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096};

// Small sizes are more likely: the smaller of two draws picks.
static size_t pick_size(struct bench_rng *rng) {
    uint32_t count = sizeof sizes / sizeof *sizes;
    uint32_t one = bench_below(rng, count), two = bench_below(rng, count);
    return sizes[one < two ? one : two];
}

static void produce(unsigned index) {
    struct bench_rng rng = bench_rng_make(all.seed, index);
    for (uint64_t i = 0; i < all.batches; i++) {
        struct batch batch;
        for (uint32_t at = 0; at < BATCH; at++) {
            batch.slots[at] = bench_take_slot(pick_size(&rng), (uint8_t)at);
        }
        pthread_mutex_lock(&all.lock);
        while (all.count == QUEUE) {
            pthread_cond_wait(&all.not_full, &all.lock);
        }
        all.ring[(all.head + all.count++) % QUEUE] = batch;
        if (all.count > all.most) {
            all.most = all.count;
        }
        pthread_cond_signal(&all.not_empty);
        pthread_mutex_unlock(&all.lock);
    }
}

static void consume(unsigned index) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < all.batches; i++) {
        pthread_mutex_lock(&all.lock);
        while (all.count == 0) {
            pthread_cond_wait(&all.not_empty, &all.lock);
        }
        struct batch batch = all.ring[all.head];
        all.head = (all.head + 1) % QUEUE;
        all.count--;
        pthread_cond_signal(&all.not_full);
        pthread_mutex_unlock(&all.lock);
        for (uint32_t at = 0; at < BATCH; at++) {
            sum += bench_slot_size(batch.slots[at]);
            sum += bench_give_slot(batch.slots[at], (uint8_t)at);
        }
    }
    bench_tallies[index].sum = sum;
}

static void work(void *context, unsigned index) {
    (void)context;
    if (index < all.pairs) {
        produce(index);
    } else {
        consume(index);
    }
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    all.pairs = (uint32_t)bench_arg("pairs", 1);
    all.batches = bench_arg("batches", 25000);
    all.seed = bench_arg("seed", 1);
    all.ring = (struct batch *)bench_map(QUEUE * sizeof(struct batch));
    bench_live((uint64_t)QUEUE * BATCH * 300);
    struct bench_plan plan = {.work = work};
    bench_team_run(2 * all.pairs, &plan, all.batches * BATCH * all.pairs);
    bench_print("queued_most %" PRIu32 "\n", all.most);
    return bench_finish(bench_tally_sum(2 * all.pairs));
}
