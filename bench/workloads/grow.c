// SPDX-License-Identifier: MIT OR Apache-2.0
// Growing realloc: a buffer that is read into, a vector that doubles, a string that is appended to. Each step
// writes the part that is new, as a program would, and the old ends are checked, so a copy that loses bytes
// does not pass.
//
// Arguments: start= bytes, step= bytes added each time (0: doubling), limit= bytes, n= rounds, neighbours=
// blocks allocated beside it in each step, which keeps "grow in place at the end of the heap" from being the
// whole story.
#include "bench.h"

static const struct bench_variant variants[] = {
    {"grow-64KiB-steps", "start=64k step=64k limit=64m n=10", "quick"},
    {"grow-doubling", "start=16 step=0 limit=64m n=40", "quick"},
    {"grow-16B-steps", "start=16 step=16 limit=1m n=20", "quick"},
    {"grow-64KiB-steps-beside", "start=64k step=64k limit=64m n=10 neighbours=1", "full"},
    {"grow-doubling-small", "start=16 step=0 limit=64k n=100000", "full"},
};

struct job {
    size_t start, step, limit;
    uint64_t rounds;
    bool neighbours;
};

enum { MAX_NEIGHBOURS = 1 << 17 };

// One buffer from start to limit. The last byte of each stage is left as a mark, and all marks are read in
// the end: their places are a function of the sizes alone.
static uint64_t grow(const struct job *job, void **beside, uint64_t *steps) {
    size_t size = job->start, count = 0;
    uint64_t sum = 0;
    uint8_t *buffer = (uint8_t *)bench_take(size, 1);
    while (size < job->limit) {
        size_t next = job->step != 0 ? size + job->step : size * 2;
        buffer = (uint8_t *)realloc(buffer, next);
        if (buffer == NULL) {
            bench_fail("grow: realloc(%zu) failed", next);
        }
        if (buffer[0] != 1 || buffer[size - 1] != (uint8_t)(1 ^ 0xa5)) {
            bench_fail("grow: realloc to %zu lost bytes", next);
        }
        memset(buffer + size, 0x5a, next - size);
        buffer[next - 1] = (uint8_t)(1 ^ 0xa5);
        size = next;
        if (beside != NULL && count < MAX_NEIGHBOURS) {
            beside[count] = bench_take(100, (uint8_t)count);
            count++;
        }
        ++*steps;
    }
    for (size_t at = job->start; at <= size; at = job->step != 0 ? at + job->step : at * 2) {
        sum += buffer[at - 1];
    }
    sum += bench_give(buffer, size, 1);
    for (size_t i = 0; i < count; i++) {
        sum += bench_give(beside[i], 100, (uint8_t)i);
    }
    return sum;
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    struct job job = {bench_arg("start", 16), bench_arg("step", 0), bench_arg("limit", 64 << 20), bench_arg("n", 1),
                      bench_arg("neighbours", 0) != 0};
    void **beside = job.neighbours ? (void **)bench_map(MAX_NEIGHBOURS * sizeof(void *)) : NULL;
    bench_live(job.limit);
    uint64_t check = 0, steps = 0;
    bench_clock_start();
    for (uint64_t i = 0; i < job.rounds; i++) {
        check += grow(&job, beside, &steps);
    }
    bench_clock_stop(steps);
    return bench_finish(check);
}
