/* The usable size is at most an eighth above the request, or the request rounded up to a page. Asked of sizes from 129 bytes
 * to 64 MiB: one after another, at random among live blocks, and of blocks that realloc grows in steps. Room that a block
 * keeps for growing may not show in its usable size by more.
 *
 * The C library's allocator hands out a remainder of 16 bytes with a block, and keeps 8 of a header. Both are allowed there. */
#include "../support/alloc.h"
#include "../support/check.h"

enum { LEAST = 129, EVERY = 5000, SMALL = 65536, HELD = 48, RANDOM = 10000, GROWN = 40 };
static const size_t most = (size_t)64 << 20;

static size_t page, judged;
static double worst;
static size_t worst_size;

static size_t bound(size_t size) {
    size_t eighth = size + size / 8, pages = (size + page - 1) / page * page;
    return (eighth > pages ? eighth : pages) + (t_is_freehold() ? 0 : 24);
}

static void judge(void *block, size_t size, const char *how) {
    CHECK(block, "%s of %zu bytes: NULL", how, size);
    size_t usable = t_usable_size(block);
    CHECK(usable >= size, "%s of %zu bytes: only %zu are usable", how, size, usable);
    CHECK(usable <= bound(size), "%s of %zu bytes: %zu are usable, %.1f %% more; %zu are the most", how, size, usable,
          100.0 * (double)usable / (double)size - 100, bound(size));
    double ratio = (double)usable / (double)size;
    if (ratio > worst) {
        worst = ratio;
        worst_size = size;
    }
    judged++;
}

static void say(const char *what) {
    printf("%s: %zu sizes, at most %.2f %% above the request, at %zu bytes\n", what, judged, 100 * worst - 100,
           worst_size);
    CHECK(judged > 0, "nothing was judged");
    judged = 0;
    worst = 0;
}

static void try_size(size_t size) {
    void *block = t_malloc(opaque(size));
    judge(block, size, "malloc");
    t_free(block);
}

static void each_size(size_t from, size_t to) {
    for (size_t size = from; size <= to; size += size < EVERY ? 1 : size / 300 + 1) try_size(size);
    for (size_t power = 128; power <= to; power *= 2) {
        for (size_t edge = power; edge < 2 * power; edge += power / 8) {
            for (size_t size = edge - 1; size <= edge + 1; size++) {
                if (size >= from && size <= to) try_size(size);
            }
        }
    }
    say(from < SMALL ? "one after another, small" : "one after another, large");
}

/* As many sizes between two powers of two as between any two others. */
static size_t random_size(uint64_t *random, size_t from, size_t to) {
    for (;;) {
        size_t power = (size_t)128 << random_below(random, 19), size = power + random_below(random, power);
        if (size >= from && size <= to) return size;
    }
}

static void among_live_blocks(uint64_t *random, size_t from, size_t to) {
    static void *held[HELD];
    for (int i = 0; i < RANDOM; i++) {
        size_t size = random_size(random, from, to), which = random_below(random, HELD);
        t_free(held[which]);
        held[which] = i % 3 ? t_malloc(size) : t_calloc(1, size);
        judge(held[which], size, i % 3 ? "malloc" : "calloc");
    }
    for (int i = 0; i < HELD; i++) {
        t_free(held[i]);
        held[i] = NULL;
    }
    say(from < SMALL ? "at random among live blocks, small" : "at random among live blocks, large");
}

/* Steps by a part of the size, from a fiftieth to a half. Now and then a neighbour is allocated that may be in the way. */
static void growing(uint64_t *random, size_t from, size_t to) {
    for (int i = 0; i < GROWN; i++) {
        size_t size = random_size(random, from, 2 * from), part = random_below(random, 49) + 2;
        char *block = t_malloc(size), *neighbours[200];
        int beside = 0;
        while (size + size / part + 1 <= to) {
            size += size / part + 1;
            block = t_realloc(block, size);
            judge(block, size, "growing realloc");
            block[size - 1] = 1;
            if (beside < 200 && random_below(random, 3) == 0)
                neighbours[beside++] = t_malloc(random_size(random, LEAST, to) / 8);
        }
        t_free(block);
        while (beside > 0) t_free(neighbours[--beside]);
    }
    say(from < SMALL ? "grown by realloc, small" : "grown by realloc, large");
}

/* A size that grows by a page or less, as a buffer does that is read into. */
static void growing_slowly(void) {
    static const size_t from[] = {100000, 1000000, 3000000, 20000000};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        size_t size = from[i];
        char *block = t_malloc(size);
        for (int step = 0; step < 300; step++) {
            size += 3001;
            block = t_realloc(block, size);
            judge(block, size, "slowly growing realloc");
            block[size - 1] = 1;
        }
        t_free(block);
    }
    say("grown slowly");
}

int main(void) {
    uint64_t random = random_seed();
    setvbuf(stdout, NULL, _IONBF, 0);
    page = (size_t)sysconf(_SC_PAGESIZE);
    each_size(LEAST, SMALL - 1);
    /* Small blocks first: a heap of more than 32 MiB may put a block into the hole of a larger size. */
    among_live_blocks(&random, LEAST, SMALL - 1);
    growing(&random, LEAST, SMALL - 1);
    each_size(SMALL, most);
    among_live_blocks(&random, SMALL, most);
    growing(&random, SMALL, most);
    growing_slowly();
    CHECK(t_verify() == 0, "the heap is not whole");
    return 0;
}
