// SPDX-License-Identifier: MIT OR Apache-2.0
// Many buffers that grow by realloc at the same time, among small blocks that come and go: the connections of a server,
// the columns of a table, the strings of a builder. One picked at random grows by a step and writes what is new. A buffer
// that has its final size is read, freed, and begun again.
//
// "Grow in place at the end of the heap" helps here only by luck, because the next step is almost always another's.
// Arguments: buffers= of a thread, start= bytes, step= bytes added each time (0: by a half), mixed=1 adds a half, 64 bytes
// or 4 KiB by thirds, min= and max= of the final sizes, log=1 makes each doubling of them equally likely, n= steps for all
// threads together, small= small blocks of a thread, between= of them replaced after each step, threads=, seed=.
#include "large.h"

static const struct bench_variant variants[] = {
    {"grow-many", "buffers=300 start=4k step=0 min=64k max=4m n=20000", "quick"},
    {"grow-many-16KiB-steps", "buffers=150 start=16k step=16k min=64k max=4m n=30000", "quick"},
    {"grow-many-mixed", "buffers=400 start=4k mixed=1 min=100000 max=2m n=30000", "full"},
    {"grow-many-8t", "buffers=60 start=4k step=0 min=64k max=4m log=1 n=40000 threads=8", "full"},
    {"grow-few-64MiB", "buffers=4 start=4k step=0 min=64m max=64m n=400", "quick"},
    {"grow-few-64MiB-steps", "buffers=4 start=256k step=256k min=64m max=64m n=3000", "full"},
};

enum { SMALLEST = 16, LARGEST = 1024, FILLER = 0x5a };

// The steps come from numbers of its own, so that they can be walked a second time.
struct buffer {
    uint8_t *bytes;
    size_t size, final;
    struct bench_rng first, steps;
};

static struct {
    struct buffer *buffers;
    struct bench_rng rngs[BENCH_MAX_THREADS];
    bench_slot *small;
    uint32_t count, small_count, between, min, max;
    size_t start, step;
    uint64_t each;
    bool is_log, is_mixed;
} all;

// A buffer ends exactly at its final size.
static size_t next_size(const struct buffer *buffer, size_t size, struct bench_rng *steps) {
    size_t step = all.step != 0 ? all.step : size / 2;
    if (all.is_mixed) {
        uint32_t law = bench_below(steps, 3);
        step = law == 0 ? size / 2 : law == 1 ? 64 : 4096;
    }
    size_t next = size + step;
    return next < buffer->final ? next : buffer->final;
}

static void begin(struct buffer *buffer, struct bench_rng *rng, uint8_t stamp) {
    buffer->size = all.start;
    buffer->final = all.is_log ? large_log_between(rng, all.min, all.max) : bench_between(rng, all.min, all.max);
    buffer->first = bench_rng_make(bench_random(rng), 0);
    buffer->steps = buffer->first;
    buffer->bytes = large_take(all.start, stamp).bytes;
}

// The last byte of each stage is left as a mark, so the old end is known after the move.
static void grow(struct buffer *buffer, uint8_t stamp) {
    size_t old = buffer->size, size = next_size(buffer, old, &buffer->steps);
    uint8_t *bytes = (uint8_t *)realloc(buffer->bytes, size);
    if (bytes == NULL) {
        bench_fail("grow_many: realloc(%zu) failed", size);
    }
    if (bytes[0] != stamp || bytes[old - 1] != (uint8_t)(stamp ^ 0xa5)) {
        bench_fail("grow_many: realloc from %zu to %zu lost bytes", old, size);
    }
    memset(bytes + old, FILLER, size - old);
    bytes[size - 1] = (uint8_t)(stamp ^ 0xa5);
    buffer->bytes = bytes;
    buffer->size = size;
}

// Reads the mark of every stage; their places follow from the sizes alone.
static uint64_t end(struct buffer *buffer, uint8_t stamp) {
    uint64_t sum = 0;
    struct bench_rng steps = buffer->first;
    for (size_t at = all.start; at < buffer->size; at = next_size(buffer, at, &steps)) {
        if (buffer->bytes[at - 1] != (uint8_t)(stamp ^ 0xa5)) {
            bench_fail("grow_many: byte %zu of a buffer of %zu was lost", at - 1, buffer->size);
        }
        sum += at;
    }
    return sum + bench_give(buffer->bytes, buffer->size, stamp);
}

static bench_slot take_small(struct bench_rng *rng) {
    uint32_t size = bench_between(rng, SMALLEST, LARGEST);
    return bench_take_slot(size, (uint8_t)size);
}

static uint64_t give_small(bench_slot slot) {
    return bench_give_slot(slot, (uint8_t)bench_slot_size(slot));
}

static void prepare(void *context, unsigned index) {
    (void)context;
    struct buffer *buffers = all.buffers + (size_t)index * all.count;
    bench_slot *small = all.small + (size_t)index * all.small_count;
    struct bench_rng *rng = &all.rngs[index];
    uint64_t live = 0;
    for (uint32_t i = 0; i < all.small_count; i++) {
        small[i] = take_small(rng);
        live += bench_slot_size(small[i]);
    }
    for (uint32_t i = 0; i < all.count; i++) {
        begin(&buffers[i], rng, (uint8_t)i);
        live += all.start;
    }
    large_live_add(live);
}

static void work(void *context, unsigned index) {
    (void)context;
    struct buffer *buffers = all.buffers + (size_t)index * all.count;
    bench_slot *small = all.small + (size_t)index * all.small_count;
    struct bench_rng rng = all.rngs[index];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < all.each; i++) {
        uint32_t at = bench_below(&rng, all.count);
        struct buffer *buffer = &buffers[at];
        uint64_t live = 0 - (uint64_t)buffer->size;
        if (buffer->size == buffer->final) {
            sum += end(buffer, (uint8_t)at);
            begin(buffer, &rng, (uint8_t)at);
        } else {
            grow(buffer, (uint8_t)at);
        }
        live += buffer->size;
        for (uint32_t j = 0; j < all.between; j++) {
            uint32_t other = bench_below(&rng, all.small_count);
            live -= bench_slot_size(small[other]);
            sum += give_small(small[other]);
            small[other] = take_small(&rng);
            live += bench_slot_size(small[other]);
        }
        large_live_add(live);
    }
    bench_tallies[index].sum = sum;
}

static void clean(void *context, unsigned index) {
    (void)context;
    struct buffer *buffers = all.buffers + (size_t)index * all.count;
    bench_slot *small = all.small + (size_t)index * all.small_count;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < all.count; i++) {
        sum += end(&buffers[i], (uint8_t)i);
    }
    for (uint32_t i = 0; i < all.small_count; i++) {
        sum += give_small(small[i]);
    }
    bench_tallies[index].sum += sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 1);
    all.count = (uint32_t)bench_arg("buffers", 300);
    all.start = bench_arg("start", 4096);
    all.step = bench_arg("step", 0);
    all.is_mixed = bench_arg("mixed", 0) != 0;
    all.is_log = bench_arg("log", 0) != 0;
    all.min = (uint32_t)bench_arg("min", 64 << 10);
    all.max = (uint32_t)bench_arg("max", 4 << 20);
    all.small_count = (uint32_t)bench_arg("small", 4000);
    all.between = (uint32_t)bench_arg("between", 4);
    if (threads == 0 || threads > BENCH_MAX_THREADS || all.count == 0 || all.small_count == 0) {
        bench_fail("grow_many: 1 to %d threads, one buffer and one small block at least", BENCH_MAX_THREADS);
    }
    if (all.start < 2 || all.start > all.min || all.max < all.min) {
        bench_fail("grow_many: start has 2 bytes at least and min at most, and min is at most max");
    }
    all.each = bench_arg("n", 20000) / threads;
    all.buffers = (struct buffer *)bench_map((size_t)all.count * threads * sizeof(struct buffer));
    all.small = (bench_slot *)bench_map((size_t)all.small_count * threads * sizeof(bench_slot));
    for (unsigned i = 0; i < threads; i++) {
        all.rngs[i] = bench_rng_make(bench_arg("seed", 1), i);
    }
    struct bench_plan plan = {.prepare = prepare, .work = work, .clean = clean};
    bench_team_run(threads, &plan, all.each * threads);
    bench_live(large_live.peak);
    return bench_finish(bench_tally_sum(threads));
}
