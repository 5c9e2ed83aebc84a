// SPDX-License-Identifier: MIT OR Apache-2.0
// OctAlloc's suite (2007): each thread has a table of 4,096 slots and picks one at random; a full one is
// checked and freed, an empty one filled. Small sizes are likely, large ones rare: the probability halves
// every four of 53 size classes up to 32,752 bytes, and one block in 1,024 has 33 to 256 KiB instead.
//
// Mode A keeps the load of each thread constant, mode B the load of all together.
// Arguments: threads=, each= operations of a thread, or total= of all, slots=, seed=.
#include "bench.h"

#include <math.h>

static const struct bench_variant variants[] = {
    {"oct-a-1t", "threads=1 each=2000000", "quick"},  {"oct-a-2t", "threads=2 each=2000000", "quick"},
    {"oct-a-4t", "threads=4 each=2000000", "full"},   {"oct-a-8t", "threads=8 each=2000000", "full"},
    {"oct-a-16t", "threads=16 each=2000000", "full"}, {"oct-b-1t", "threads=1 total=8000000", "full"},
    {"oct-b-2t", "threads=2 total=8000000", "full"},  {"oct-b-4t", "threads=4 total=8000000", "full"},
    {"oct-b-8t", "threads=8 total=8000000", "full"},  {"oct-b-16t", "threads=16 total=8000000", "full"},
};

enum { CLASSES = 53, LARGEST = 32752, SAMPLES = 1 << 14 };

struct cell {
    void *block;
    uint32_t size, stamp;
};

static struct {
    struct cell *cells;
    uint16_t bounds[CLASSES + 1]; // class k has the sizes above bounds[k], up to bounds[k + 1]
    uint8_t law[SAMPLES];         // a uniform draw from here is a class by the geometric law
    uint32_t slots;
    uint64_t each, seed;
} all;

// The classes: 8-byte steps to 128, then equal ratios to the largest. The originals are not known to the
// byte; their number, their largest, and the law are.
static void lay_out_classes(void) {
    for (int k = 0; k <= 16; k++) {
        all.bounds[k] = (uint16_t)(8 * k);
    }
    for (int k = 17; k <= CLASSES; k++) {
        all.bounds[k] = (uint16_t)(128 * pow(LARGEST / 128.0, (k - 16) / (double)(CLASSES - 16)) + 0.5);
    }
}

// One table look-up a draw: class k fills a share of the samples in proportion to 2^(-k/4).
static void lay_out_law(void) {
    double total = 0, reached = 0;
    for (int k = 0; k < CLASSES; k++) {
        total += exp2(-k / 4.0);
    }
    for (int k = 0, sample = 0; k < CLASSES; k++) {
        reached += exp2(-k / 4.0) / total;
        for (; sample < SAMPLES && (sample < (int)(reached * SAMPLES + 0.5) || k == CLASSES - 1); sample++) {
            all.law[sample] = (uint8_t)k;
        }
    }
}

static uint32_t pick_size(struct bench_rng *rng) {
    if (bench_below(rng, 1024) == 0) {
        return bench_between(rng, 33 << 10, 256 << 10);
    }
    uint32_t class = all.law[bench_below(rng, SAMPLES)];
    return bench_between(rng, all.bounds[class] + 1u, all.bounds[class + 1]);
}

static void work(void *context, unsigned index) {
    (void)context;
    struct cell *cells = all.cells + (size_t)index * all.slots;
    struct bench_rng rng = bench_rng_make(all.seed, index);
    uint64_t sum = 0, live = 0, peak = 0;
    for (uint64_t i = 0; i < all.each; i++) {
        struct cell *cell = &cells[bench_below(&rng, all.slots)];
        if (cell->block != NULL) {
            sum += bench_give(cell->block, cell->size, (uint8_t)cell->stamp);
            live -= cell->size;
            cell->block = NULL;
        } else {
            cell->size = pick_size(&rng);
            cell->stamp = (uint32_t)i;
            cell->block = bench_take(cell->size, (uint8_t)cell->stamp);
            live += cell->size;
            peak = live > peak ? live : peak;
        }
    }
    for (uint32_t i = 0; i < all.slots; i++) {
        if (cells[i].block != NULL) {
            sum += bench_give(cells[i].block, cells[i].size, (uint8_t)cells[i].stamp);
        }
    }
    bench_tallies[index].sum = sum;
    bench_tallies[index].live = peak;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    unsigned threads = (unsigned)bench_arg("threads", 1);
    uint64_t total = bench_arg("total", 0);
    all.slots = (uint32_t)bench_arg("slots", 4096);
    all.each = total != 0 ? total / threads : bench_arg("each", 2000000);
    all.seed = bench_arg("seed", 1);
    all.cells = (struct cell *)bench_map((size_t)threads * all.slots * sizeof(struct cell));
    lay_out_classes();
    lay_out_law();
    struct bench_plan plan = {.work = work};
    bench_team_run(threads, &plan, all.each * threads);
    bench_live(bench_tally_live(threads));
    return bench_finish(bench_tally_sum(threads));
}
