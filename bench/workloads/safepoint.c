// SPDX-License-Identifier: MIT OR Apache-2.0
// MoarVM's free at safepoint: readers walk a table without any lock while one writer replaces its rows by
// larger or smaller ones. An old row may still be read, so it is not freed but put on a list; each millisecond
// all threads meet, and what is on the list is poisoned and freed. A reader that met a poisoned row would end
// the run: the number of poisoned reads must be 0.
//
// The list is the program's own, an array outside of malloc, so that this runs on every allocator. What is
// measured is what such a program asks of malloc: long backlogs freed at once by a thread that has just
// allocated as many.
// Arguments: readers=, rows=, n= replacements, walks= of the whole table by each reader, pause_us= between two
// safepoints, min=, max= bytes of a row, seed=.
#include "bench.h"

#include <stdatomic.h>

static const struct bench_variant variants[] = {
    {"safepoint-2", "readers=2 walks=600 n=4000000", "quick"},
    {"safepoint-8", "readers=8 walks=1000 n=20000000", "full"},
};

enum { BACKLOG = 1 << 20, STRIDE = 256 };

static struct {
    unsigned readers;
    uint32_t rows, min, max;
    uint64_t n, walks, pause_ns, seed;
    _Atomic(bench_slot) *table;
    bench_slot *deferred; // replaced since the last safepoint, and the row each one was
    uint32_t *deferred_row;
    uint32_t count;
    uint64_t longest, safepoints;
    atomic_bool wanted; // a safepoint: everybody comes to `arrive`, and goes on after `leave`
    atomic_bool over;   // the writer has replaced all that it will
    pthread_barrier_t arrive, leave;
} all;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void attend(void) {
    pthread_barrier_wait(&all.arrive);
    pthread_barrier_wait(&all.leave);
}

// While the readers stand still nobody can be looking at a replaced row.
static uint64_t free_deferred(void) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < all.count; i++) {
        bench_slot row = all.deferred[i];
        sum += bench_verify(bench_slot_block(row), bench_slot_size(row), (uint8_t)all.deferred_row[i]);
        memset(bench_slot_block(row), 0xde, bench_slot_size(row));
        free(bench_slot_block(row));
    }
    all.longest = all.count > all.longest ? all.count : all.longest;
    all.count = 0;
    return sum;
}

static uint64_t safepoint(bool last) {
    atomic_store(&all.wanted, true);
    pthread_barrier_wait(&all.arrive);
    uint64_t sum = free_deferred();
    all.safepoints++;
    atomic_store(&all.over, last);
    atomic_store(&all.wanted, false);
    pthread_barrier_wait(&all.leave);
    return sum;
}

// The deferred realloc: a new block with the contents of the old one, which lives on until the safepoint.
static void replace(uint32_t row, uint32_t size) {
    bench_slot old = atomic_load_explicit(&all.table[row], memory_order_relaxed);
    size_t had = bench_slot_size(old), kept = had < size ? had : size;
    void *block = malloc(size);
    if (block == NULL) {
        bench_fail("safepoint: malloc(%u) failed", size);
    }
    memcpy(block, bench_slot_block(old), kept);
    bench_stamp(block, size, (uint8_t)row);
    atomic_store_explicit(&all.table[row], bench_pack(block, size), memory_order_release);
    all.deferred[all.count] = old;
    all.deferred_row[all.count++] = row;
}

static uint64_t write_rows(void) {
    struct bench_rng rng = bench_rng_make(all.seed, 0);
    uint64_t sum = 0, next = now_ns() + all.pause_ns;
    for (uint64_t i = 0; i < all.n; i++) {
        uint32_t row = bench_below(&rng, all.rows);
        replace(row, bench_between(&rng, all.min, all.max));
        if (all.count == BACKLOG || ((i & 63) == 0 && now_ns() >= next)) {
            sum += safepoint(false);
            next = now_ns() + all.pause_ns;
        }
    }
    return sum + safepoint(true);
}

static uint64_t read_rows(void) {
    uint64_t sum = 0;
    bool over = false;
    for (uint64_t walk = 0; walk < all.walks; walk++) {
        for (uint32_t row = 0; row < all.rows; row++) {
            if (row % STRIDE == 0 && !over && atomic_load_explicit(&all.wanted, memory_order_relaxed)) {
                attend();
                over = atomic_load(&all.over);
            }
            bench_slot slot = atomic_load_explicit(&all.table[row], memory_order_acquire);
            sum += bench_verify(bench_slot_block(slot), bench_slot_size(slot), (uint8_t)row);
        }
    }
    // Done before the writer: it still counts on everybody at its safepoints.
    while (!over) {
        attend();
        over = atomic_load(&all.over);
    }
    return sum;
}

static void work(void *context, unsigned index) {
    (void)context;
    bench_tallies[index].sum = index == 0 ? write_rows() : read_rows();
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    all.readers = (unsigned)bench_arg("readers", 8);
    all.rows = (uint32_t)bench_arg("rows", 20000);
    all.n = bench_arg("n", 1000000);
    all.walks = bench_arg("walks", 100);
    all.pause_ns = bench_arg("pause_us", 1000) * 1000;
    all.min = (uint32_t)bench_arg("min", 32);
    all.max = (uint32_t)bench_arg("max", 1024);
    all.seed = bench_arg("seed", 1);
    if (all.readers == 0 || all.rows == 0 || all.min < 2 || all.max > 65535 || all.min > all.max) {
        bench_fail("safepoint: needs a reader, a row, and rows of 2 to 65,535 bytes");
    }
    all.table = (_Atomic(bench_slot) *)bench_map(all.rows * sizeof *all.table);
    all.deferred = (bench_slot *)bench_map((size_t)BACKLOG * sizeof *all.deferred);
    all.deferred_row = (uint32_t *)bench_map((size_t)BACKLOG * sizeof *all.deferred_row);
    pthread_barrier_init(&all.arrive, NULL, all.readers + 1);
    pthread_barrier_init(&all.leave, NULL, all.readers + 1);
    struct bench_rng rng = bench_rng_make(all.seed, 1);
    for (uint32_t row = 0; row < all.rows; row++) {
        atomic_init(&all.table[row], bench_take_slot(bench_between(&rng, all.min, all.max), (uint8_t)row));
    }
    struct bench_plan plan = {.work = work};
    bench_team_run(all.readers + 1, &plan, all.n);
    uint64_t sum = bench_tally_sum(all.readers + 1);
    for (uint32_t row = 0; row < all.rows; row++) {
        sum += bench_give_slot(atomic_load(&all.table[row]), (uint8_t)row);
    }
    bench_live((uint64_t)all.rows * (all.min + all.max) / 2);
    bench_print("backlog_longest %" PRIu64 "\nsafepoints %" PRIu64 "\n", all.longest, all.safepoints);
    return bench_finish(sum);
}
