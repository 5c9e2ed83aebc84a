/* Memory from calloc is zero, and costs nothing until it is written.
 *
 *     untouched   a fresh process has written and freed some blocks. It keeps 200 MB of calloc'ed blocks and writes none.
 *                 Less than 5 % of them may become resident, and every byte reads as zero. Once for each of five sizes.
 *                 The C library's allocator writes some of them, so there only the content is asserted.
 *     dirty       two threads replace blocks of random sizes, which they write whole, by calloc'ed ones, which must be zero. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/pattern.h"
#include "../support/processes.h"

#include <pthread.h>

#if defined(T_SANITIZED)
enum { ROUNDS = 100 };
#else
enum { ROUNDS = 400 };
#endif

enum { HELD = 12 };
static const size_t payload = 200000000, most = (size_t)40 << 20;

/* ── Untouched ───────────────────────────────────────────────────────────────────────────────────────────────────── */

struct result {
    size_t warm, growth, blocks;
};

static void *dirty(size_t size) {
    void *block = t_malloc(size);
    CHECK(block, "malloc(%zu): NULL", size);
    return memset(block, 0xff, size);
}

/* Leaves 2,000 small blocks, and freed ones of several sizes that were written. */
static void warm_up(void) {
    static const size_t sizes[] = {50000, 100000, 200000, 300000, 1500000, 3000000, 9000000};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    static void *small[2000], *large[SIZES];
    for (size_t i = 0; i < 2000; i++) small[i] = dirty(100 + i);
    for (int i = 0; i < SIZES; i++) large[i] = dirty(sizes[i]);
    for (int i = 0; i < SIZES; i++) t_free(large[i]);
    for (int i = 0; i < 2000; i += 2) t_free(small[i]);
}

/* In the fresh process. */
static void keep_untouched(size_t size) {
    static char *blocks[4096];
    struct result result = {.blocks = payload / size};
    memset(blocks, 0, sizeof blocks);
    size_t cold = private_bytes();
    warm_up();
    size_t before = private_bytes();
    for (size_t i = 0; i < result.blocks; i++) {
        blocks[i] = t_calloc(i % 2 ? size : 1, i % 2 ? 1 : size);
        CHECK(blocks[i], "calloc of %zu bytes: NULL", size);
    }
    size_t after = private_bytes();
    result.warm = before - cold;
    result.growth = after > before ? after - before : 0;
    for (size_t i = 0; i < result.blocks; i++) {
        long wrong = first_not_zero(blocks[i], size);
        CHECK(wrong < 0, "block %zu of %zu bytes: byte %ld is not zero", i, size, wrong);
    }
    give_result(&result, sizeof result);
}

static void untouched(void) {
    static const size_t sizes[] = {100000, 300000, 1500000, 3000000, 30000000};
    int beyond = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct result r;
        run_part("keep", sizes[i], &r, sizeof r);
        double share = (double)r.growth / (double)(r.blocks * sizes[i]);
        beyond += t_is_freehold() && share >= 0.05;
        printf("%5zu blocks of %8zu bytes: %6zu KiB became resident, %.2f %%; %zu KiB were before%s\n", r.blocks,
               sizes[i], r.growth >> 10, 100 * share, r.warm >> 10, share >= 0.05 ? "  beyond 5 %" : "");
    }
    CHECK(beyond == 0, "5 %% or more became resident at %d sizes", beyond);
}

/* ── Dirty ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* As many sizes between two powers of two as between any two others. */
static size_t random_size(uint64_t *random) {
    for (;;) {
        size_t power = (size_t)128 << random_below(random, 19), size = power + random_below(random, power);
        if (size <= most) return size;
    }
}

static void *replace(void *argument) {
    uint64_t random = *(uint64_t *)argument;
    char *held[HELD] = {0};
    size_t bytes = 0;
    for (int i = 0; i < ROUNDS; i++) {
        size_t which = random_below(&random, HELD), size = random_size(&random);
        t_free(held[which]);
        held[which] = t_calloc(1, size);
        CHECK(held[which], "calloc of %zu bytes: NULL", size);
        size_t usable = t_usable_size(held[which]);
        long wrong = first_not_zero(held[which], size);
        CHECK(wrong < 0, "round %d: byte %ld of %zu is not zero", i, wrong, size);
        memset(held[which], 0xff, usable);
        bytes += size;
        if (random_below(&random, 4) == 0) {
            /* A part of it is freed, so that a run may begin or end inside of what was written. */
            size_t less = size - random_below(&random, size / 2 + 1);
            held[which] = t_realloc(held[which], less);
            CHECK(held[which], "realloc from %zu to %zu bytes: NULL", size, less);
        }
    }
    for (int i = 0; i < HELD; i++) t_free(held[i]);
    *(uint64_t *)argument = bytes;
    return NULL;
}

static void replaced(void) {
    uint64_t random = random_seed(), arguments[2] = {random, random + 1};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, replace, &arguments[0]) == 0, "pthread_create");
    replace(&arguments[1]);
    pthread_join(thread, NULL);
    printf("%d blocks, %llu MB of zeros\n", 2 * ROUNDS, (unsigned long long)(arguments[0] + arguments[1]) / 1000000);
    CHECK(t_verify() == 0, "the heap is not whole");
}

int main(int count, char **arguments) {
    const char *part = count > 1 ? arguments[1] : "untouched";
    if (strcmp(part, "keep") == 0) {
        keep_untouched(strtoull(arguments[2], NULL, 10));
        return 0;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    strcmp(part, "dirty") == 0 ? replaced() : untouched();
    return 0;
}
