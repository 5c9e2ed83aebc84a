/* Alignments from 4 KiB to 1 GiB, of blocks from a byte to 5 MiB: aligned, large enough, written at both ends, and nobody
 * else's. All blocks of an alignment are held at once, then blocks of random alignments and sizes are held and replaced.
 * A byte aligned to 1 GiB costs address space and no memory. What cannot be had is NULL and ENOMEM. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/pattern.h"

#include <errno.h>

static const size_t sizes[] = {1,      100,     4095,    4096,    4097,    40000,   65536,   65537,  100000,
                               300001, 1048576, 1500000, 2097152, 2097153, 3000000, 4194304, 5242880};
enum { SIZES = sizeof sizes / sizeof *sizes, LEAST_SHIFT = 12, MOST_SHIFT = 30, HELD = 40, ROUNDS = 4000, END = 64 };

struct held {
    char *block;
    size_t size, alignment;
    uint64_t key;
};

static uint64_t counter;

static void take(struct held *h, size_t alignment, size_t size) {
    char *block = t_aligned_alloc(alignment, opaque(size));
    CHECK(block, "%zu bytes aligned to %zu: NULL, errno %d", size, alignment, errno);
    CHECK((uintptr_t)block % alignment == 0, "%zu bytes aligned to %zu: %p", size, alignment, (void *)block);
    size_t usable = t_usable_size(block);
    CHECK(usable >= size, "%zu bytes aligned to %zu: %zu are usable", size, alignment, usable);
    *h = (struct held){block, size, alignment, ++counter * 0x5851f42d4c957f2du};
    size_t end = size < END ? size : END;
    pattern_fill(block, end, h->key);
    pattern_fill(block + size - end, end, ~h->key);
}

static void check(const struct held *h) {
    size_t end = h->size < END ? h->size : END;
    /* The ends of a block of less than two of them lie on each other; the second was written later. */
    if (h->size >= 2 * END) {
        long wrong = pattern_wrong(h->block, end, h->key);
        CHECK(wrong < 0, "%zu bytes aligned to %zu: byte %ld has changed", h->size, h->alignment, wrong);
    }
    long wrong = pattern_wrong(h->block + h->size - end, end, ~h->key);
    CHECK(wrong < 0, "%zu bytes aligned to %zu: byte %ld of the end has changed", h->size, h->alignment, wrong);
}

static void give(struct held *h) {
    if (!h->block) return;
    check(h);
    t_free(h->block);
    h->block = NULL;
}

static void distinct(const struct held *held, int count) {
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++) {
            const char *a = held[i].block, *b = held[j].block;
            if (!a || !b) continue;
            CHECK(a + held[i].size <= b || b + held[j].size <= a, "%p of %zu bytes and %p of %zu overlap",
                  (const void *)a, held[i].size, (const void *)b, held[j].size);
        }
    }
}

/* All sizes of each alignment, twice each, so that the second is beside the first. */
static void each_alignment(void) {
    static struct held held[2 * SIZES];
    size_t bytes = 0, before = resident_bytes();
    for (int shift = LEAST_SHIFT; shift <= MOST_SHIFT; shift++) {
        for (int i = 0; i < 2 * SIZES; i++) {
            take(&held[i], (size_t)1 << shift, sizes[i % SIZES]);
            bytes += sizes[i % SIZES];
        }
        distinct(held, 2 * SIZES);
        for (int i = 0; i < 2 * SIZES; i++) check(&held[i]);
        size_t now = resident_bytes(), growth = now > before ? now - before : 0;
        CHECK(growth <= (size_t)128 << 20, "two pages written of each block aligned to %zu: %zu MiB resident",
              (size_t)1 << shift, growth >> 20);
        /* The ones in the middle first, so that there are holes. */
        for (int i = 0; i < 2 * SIZES; i++) give(&held[(i * 7 + shift) % (2 * SIZES)]);
    }
    printf("%llu blocks of %zu MiB held in turn, %zu KiB more resident\n", (unsigned long long)counter, bytes >> 20,
           (resident_bytes() - before) >> 10);
}

static void at_random(uint64_t *random) {
    static struct held held[HELD];
    for (int round = 0; round < ROUNDS; round++) {
        struct held *h = &held[random_below(random, HELD)];
        give(h);
        size_t size = sizes[random_below(random, SIZES)];
        size_t shift = LEAST_SHIFT + random_below(random, MOST_SHIFT - LEAST_SHIFT + 1);
        take(h, (size_t)1 << shift, random_below(random, 2) ? size : random_below(random, size) + 1);
        if (round % 64 == 0) distinct(held, HELD);
    }
    for (int i = 0; i < HELD; i++) give(&held[i]);
}

static void impossible(void) {
    const size_t one = 1;
    const struct {
        size_t alignment, size;
    } requests[] = {{4096, PTRDIFF_MAX - 65536},
                    {one << 30, PTRDIFF_MAX - 65536},
                    {one << 30, one << 60},
                    {one << 21, one << 50},
                    {one << 62, 1},
                    {one << 48, 4096},
                    {one << 47, one << 47},
                    {65536, SIZE_MAX - 4096},
                    {one << 30, SIZE_MAX - 1},
                    {one << 62, PTRDIFF_MAX / 2},
                    {2 * 4096, (size_t)PTRDIFF_MAX + 1}};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        size_t alignment = requests[i].alignment, size = requests[i].size;
        errno = 0;
        void *block = t_aligned_alloc(alignment, opaque(size));
        CHECK(!block && errno == ENOMEM, "%zu bytes aligned to %zu: %p, errno %d", size, alignment, block, errno);
    }
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    uint64_t random = random_seed();
    each_alignment();
    impossible();
    at_random(&random);
    impossible();
    CHECK(t_verify() == 0, "the heap is not whole");
    return 0;
}
