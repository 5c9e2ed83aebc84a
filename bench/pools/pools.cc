// SPDX-License-Identifier: MIT OR Apache-2.0
// Cells of one size, of a pool or of malloc. `freehold bench pools` runs it.
//
// With api=pool the cells are of Freehold's pools, one for each size and thread. An allocator without them serves the same
// cells by malloc. api=malloc is malloc under each. With api=pmr each thread has an unsynchronized_pool_resource.
//
// frames: a stack of 8 to 64 live cells of 8 to 760 bytes, pushed and popped at random, as in bench/workloads/frames.c.
// hot-bin: cells of 64 bytes, made and dropped 32 at a time. cells: 8 bytes, 50,000 made and then all freed, as in threadtest.
//
// "cell_bytes" is what a pool has taken for each live cell, at the most. 0: the cells are of no pool of ours.
// Arguments: api=, work=, n= cells of all threads, threads=, seed=.
#pragma weak fh_pool_new
#pragma weak fh_pool_more
#pragma weak fh_pool_free_slow
#pragma weak fh_pool_destroy
#pragma weak fh_pool_bytes
#pragma weak fh_pool_live
#include <freehold/pool.h>

#include "../workloads/bench.h"

#include <memory_resource>

namespace {

enum { LARGEST = 760, STEP = 8, SIZES = LARGEST / STEP + 1, LOW = 8, HIGH = 64, BURST = 32, MANY = 50000 };

struct {
    uint64_t each, seed;
    void **blocks;
} all;

double most_cell_bytes;

// A source of cells has: take and give. Each belongs to one thread.

class Pools {
  public:
    ~Pools() {
        for (fh_pool *pool : pools_) {
            fh_pool_destroy(pool);
        }
    }
    void *take(size_t size) {
        fh_pool *&pool = pools_[size / STEP];
        if (__builtin_expect(pool == nullptr, 0)) {
            pool = fh_pool_new(size, STEP, nullptr);
            if (pool == nullptr) {
                bench_fail("bench: fh_pool_new failed");
            }
        }
        return fh_pool_alloc(pool);
    }
    void give(void *cell, size_t size) {
        fh_pool_free(pools_[size / STEP], cell);
    }
    double cell_bytes(size_t size) {
        fh_pool *pool = pools_[size / STEP];
        return pool != nullptr ? static_cast<double>(fh_pool_bytes(pool)) / static_cast<double>(fh_pool_live(pool)) : 0;
    }

  private:
    fh_pool *pools_[SIZES] = {};
};

class Malloc {
  public:
    void *take(size_t size) {
        return malloc(size);
    }
    void give(void *cell, size_t) {
        free(cell);
    }
    double cell_bytes(size_t) {
        return 0;
    }
};

class Pmr {
  public:
    void *take(size_t size) {
        return resource_.allocate(size, STEP);
    }
    void give(void *cell, size_t size) {
        resource_.deallocate(cell, size, STEP);
    }
    double cell_bytes(size_t) {
        return 0;
    }

  private:
    std::pmr::unsynchronized_pool_resource resource_;
};

template <typename Source> inline void *take(Source &source, size_t size, uint8_t stamp) {
    void *cell = source.take(size);
    if (__builtin_expect(cell == nullptr, 0)) {
        bench_fail("bench: no memory for a cell of %zu", size);
    }
    bench_stamp(cell, size, stamp);
    return cell;
}

template <typename Source> inline uint64_t give(Source &source, void *cell, size_t size, uint8_t stamp) {
    uint64_t seen = bench_verify(cell, size, stamp);
    source.give(cell, size);
    return seen;
}

uint32_t pick_size(bench_rng *rng) {
    uint64_t draw = bench_random(rng);
    uint32_t x = static_cast<uint32_t>((draw >> 32 & 0xffff) * 96 >> 16),
             y = static_cast<uint32_t>((draw >> 48) * 96 >> 16);
    return STEP * (1 + x * y / 96);
}

template <typename Source> void frames(void *, unsigned index) {
    Source source;
    bench_rng rng = bench_rng_make(all.seed, index);
    bench_slot stack[HIGH];
    uint32_t depth = 0;
    uint64_t sum = 0, turns = 0;
    for (uint64_t i = 0; i < all.each || depth > 0; i++) {
        if ((i & 63) == 0) {
            turns = bench_random(&rng);
        }
        bool push = i < all.each && (depth < LOW || (depth < HIGH && (turns & 1) != 0));
        turns >>= 1;
        if (push) {
            uint32_t size = pick_size(&rng);
            stack[depth] = bench_pack(take(source, size, static_cast<uint8_t>(depth)), size);
            depth++;
        } else {
            depth--;
            size_t size = bench_slot_size(stack[depth]);
            sum += size + give(source, bench_slot_block(stack[depth]), size, static_cast<uint8_t>(depth));
        }
    }
    bench_tallies[index].sum = sum;
}

template <typename Source> void hot_bin(void *, unsigned index) {
    Source source;
    void *cells[BURST];
    uint64_t sum = 0;
    for (uint64_t round = 0; round < all.each / BURST; round++) {
        for (uint32_t i = 0; i < BURST; i++) {
            cells[i] = take(source, 64, static_cast<uint8_t>(i ^ round));
        }
        for (uint32_t i = 0; i < BURST; i++) {
            sum += give(source, cells[i], 64, static_cast<uint8_t>(i ^ round));
        }
    }
    bench_tallies[index].sum = sum;
}

template <typename Source> void cells(void *, unsigned index) {
    Source source;
    void **blocks = all.blocks + static_cast<size_t>(index) * MANY;
    uint64_t sum = 0;
    for (uint64_t round = 0; round < all.each / MANY; round++) {
        for (uint32_t i = 0; i < MANY; i++) {
            blocks[i] = take(source, 8, static_cast<uint8_t>(i + round));
        }
        if (round == 0 && index == 0) {
            most_cell_bytes = source.cell_bytes(8);
        }
        for (uint32_t i = 0; i < MANY; i++) {
            sum += give(source, blocks[i], 8, static_cast<uint8_t>(i + round));
        }
    }
    bench_tallies[index].sum = sum;
}

template <typename Source> void run(const char *work, unsigned threads) {
    bench_plan plan = {};
    plan.work = strcmp(work, "frames") == 0    ? frames<Source>
                : strcmp(work, "hot-bin") == 0 ? hot_bin<Source>
                                               : cells<Source>;
    bench_team_run(threads, &plan, all.each * threads);
}

} // namespace

int main(int argc, char **argv) {
    static const bench_variant variants[] = {
        {"pool-frames", "api=pool work=frames n=20000000", "quick"},
        {"malloc-frames", "api=malloc work=frames n=20000000", "quick"},
        {"pmr-frames", "api=pmr work=frames n=20000000", "quick"},
        {"pool-hot-bin", "api=pool work=hot-bin n=60000000", "quick"},
        {"malloc-hot-bin", "api=malloc work=hot-bin n=60000000", "quick"},
        {"pmr-hot-bin", "api=pmr work=hot-bin n=60000000", "quick"},
        {"pool-cells-8B-2t", "api=pool work=cells threads=2 n=40000000", "quick"},
        {"malloc-cells-8B-2t", "api=malloc work=cells threads=2 n=40000000", "quick"},
        {"pmr-cells-8B-2t", "api=pmr work=cells threads=2 n=40000000", "quick"},
    };
    BENCH_START(argc, argv, variants);
    unsigned threads = static_cast<unsigned>(bench_arg("threads", 1));
    all.each = bench_arg("n", 20000000) / threads;
    all.seed = bench_arg("seed", 1);
    const char *api = bench_arg_text("api", "pool"), *work = bench_arg_text("work", "frames");
    bool is_cells = strcmp(work, "cells") == 0;
    if (!is_cells && strcmp(work, "frames") != 0 && strcmp(work, "hot-bin") != 0) {
        bench_fail("bench: there is no work %s", work);
    }
    if (is_cells) {
        all.blocks = static_cast<void **>(bench_map(size_t{MANY} * threads * sizeof(void *)));
    }
    bench_live(is_cells ? uint64_t{MANY} * threads * 8 : uint64_t{HIGH} * threads * 200);
    if (strcmp(api, "pmr") == 0) {
        run<Pmr>(work, threads);
    } else if (strcmp(api, "pool") == 0 && fh_pool_new != nullptr) {
        run<Pools>(work, threads);
    } else if (strcmp(api, "pool") == 0 || strcmp(api, "malloc") == 0) {
        run<Malloc>(work, threads);
    } else {
        bench_fail("bench: there is no api %s", api);
    }
    bench_print("cell_bytes %.3f\n", most_cell_bytes);
    return bench_finish(bench_tally_sum(threads));
}
