// SPDX-License-Identifier: MIT OR Apache-2.0
// A server that keeps bodies: some hundred large blocks of mixed sizes in a table that all threads share. Each request
// writes a body whole, puts it into a random place, and frees what was there, which another thread may have allocated. A
// small block describes each body.
//
// rss_over_live@end is what is resident, without the workload's own memory, for each byte that is kept.
// Arguments: threads=, bodies= in the table, requests= of all threads together, min= and max= bytes, each doubling equally
// likely, seed=.
#include "large.h"

static const struct bench_variant variants[] = {
    {"bodies-8t", "threads=8 bodies=300 requests=8000", "quick"},
    {"bodies-2t", "threads=2 bodies=300 requests=20000", "full"},
    {"bodies-8t-large", "threads=8 bodies=300 requests=8000 min=256k max=4m", "full"},
};

struct body {
    struct large block;
    uint64_t number;
};

static struct {
    _Atomic(struct body *) *table;
    uint64_t each, seed;
    uint32_t bodies, min, max;
} all;

static struct body *take_body(struct bench_rng *rng, uint64_t number) {
    struct body *body = (struct body *)latency_malloc(sizeof(struct body));
    if (body == NULL) {
        bench_fail("bodies: malloc(%zu) failed", sizeof(struct body));
    }
    body->block = large_take(large_log_between(rng, all.min, all.max), (uint8_t)number);
    body->number = number;
    large_live_add(body->block.size);
    return body;
}

static uint64_t give_body(struct body *body) {
    large_live_add(0 - (uint64_t)body->block.size);
    uint64_t sum = body->number + large_give(body->block, (uint8_t)body->number);
    latency_free(body);
    return sum;
}

static void work(void *context, unsigned index) {
    (void)context;
    struct bench_rng rng = bench_rng_make(all.seed, index);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < all.each; i++) {
        struct body *body = take_body(&rng, index * all.each + i);
        _Atomic(struct body *) *place = &all.table[bench_below(&rng, all.bodies)];
        struct body *old = atomic_exchange_explicit(place, body, memory_order_acq_rel);
        sum += old != NULL ? give_body(old) : 0;
    }
    bench_tallies[index].sum = sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 8);
    if (threads == 0 || threads > BENCH_MAX_THREADS) {
        bench_fail("bodies: 1 to %d threads", BENCH_MAX_THREADS);
    }
    all.bodies = (uint32_t)bench_arg("bodies", 300);
    all.min = (uint32_t)bench_arg("min", 40 << 10);
    all.max = (uint32_t)bench_arg("max", 2 << 20);
    all.each = bench_arg("requests", 8000) / threads;
    all.seed = bench_arg("seed", 1);
    if (all.bodies == 0 || all.min == 0 || all.max < all.min) {
        bench_fail("bodies: one body at least, and min is at most max");
    }
    all.table = (_Atomic(struct body *) *)bench_map(all.bodies * sizeof *all.table);
    struct bench_plan plan = {.work = work};
    bench_team_run(threads, &plan, all.each * threads);
    uint64_t check = bench_tally_sum(threads), live = atomic_load(&large_live.now), rss = bench_rss();
    bench_print("live@end %" PRIu64 "\nrss_over_live@end %.4f\n", live,
                live != 0 ? (double)(rss - bench_own_bytes) / (double)live : 0.0);
    for (uint32_t i = 0; i < all.bodies; i++) {
        struct body *body = atomic_load(&all.table[i]);
        check += body != NULL ? give_body(body) : 0;
    }
    bench_live(large_live.peak);
    bench_calls(2 * all.each * threads, 2 * all.each * threads);
    return bench_finish(check);
}
