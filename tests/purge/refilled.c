/* A heap that was given back and grows again is on huge pages again, though not one of their places was ever all free: blocks
 * that stay in use, and those in the thread's cache, are everywhere. Before the heap looked for that, it stayed on small pages for
 * ever, with a page fault for each 4 KiB.
 *
 *     test-purge-refilled again|never    never: the option, or the kernel's setting, forbids huge pages */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/pattern.h"

#include <sys/mman.h>
#include <sys/resource.h>

enum { MOST = 1024, ALIVE = 4096, ZEROED = 1000, ZEROED_SIZE = 70000, HUGE_PAGE = 2 << 20 };
#define VOLUME ((size_t)128 << 20)
#define COUNT (VOLUME / (MOST / 2))

static unsigned char *blocks[COUNT];
static uint32_t order[COUNT], sizes[COUNT];

static size_t faults(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (size_t)used.ru_minflt;
}

static bool is_zero(const unsigned char *p, size_t n) {
    return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* Returns the page faults that it took. */
static size_t fill(uint64_t *random) {
    size_t before = faults();
    for (size_t i = 0; i < COUNT; i++) {
        if (blocks[i]) continue;
        bool zeroed = i % ZEROED == 3;
        sizes[i] = zeroed ? ZEROED_SIZE : 16 + (uint32_t)random_below(random, MOST - 16);
        blocks[i] = zeroed ? t_calloc(1, sizes[i]) : t_malloc(sizes[i]);
        CHECK(blocks[i], "no block of %u bytes", sizes[i]);
        CHECK(!zeroed || is_zero(blocks[i], sizes[i]), "calloc: a byte is not zero");
        pattern_fill(blocks[i], sizes[i], (uintptr_t)i);
    }
    return faults() - before;
}

/* In random order, so that the places of huge pages become free piece by piece. */
static void empty(uint64_t *random) {
    for (size_t i = 0; i < COUNT; i++) {
        size_t j = random_below(random, i + 1);
        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
    for (size_t k = 0; k < COUNT; k++) {
        size_t i = order[k];
        long wrong = pattern_wrong(blocks[i], sizes[i], (uintptr_t)i);
        CHECK(wrong < 0, "byte %ld of a block changed", wrong);
        if (i % ALIVE == 7) continue;
        t_free(blocks[i]);
        blocks[i] = NULL;
    }
}

static bool kernel_gathers(void) {
    char *own = mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED, "mmap");
    char *start = (char *)(((uintptr_t)own + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    madvise(start, HUGE_PAGE, MADV_HUGEPAGE);
    *(volatile char *)start = 1;
    bool yes = madvise(start, HUGE_PAGE, 25 /* MADV_COLLAPSE */) == 0;
    munmap(own, 2 * HUGE_PAGE);
    return yes;
}

int main(int argc, char **argv) {
    CHECK(argc == 2, "again or never");
    bool again = strcmp(argv[1], "again") == 0;
    uint64_t random = random_seed();
    if (again && !kernel_gathers()) skip_test("this kernel gathers no pages when it is asked to");
    memset(sizes, 1, sizeof sizes);
    memset(order, 1, sizeof order);
    size_t pages = VOLUME / 4096, first = fill(&random), most = resident_bytes();
    if (again && first > pages / 4) skip_test("the kernel has no huge pages at hand");
    for (int round = 0; round < 3; round++) {
        empty(&random);
        size_t left = resident_bytes(), second = fill(&random), huge = smaps_bytes("\nAnonHugePages:");
        printf("%zu MiB at most, %zu left, %zu again with %zu huge; page faults %zu and %zu\n", most >> 20, left >> 20,
               resident_bytes() >> 20, huge >> 20, first, second);
        CHECK(resident_bytes() <= most + most / 8, "%zu MiB are resident, and %zu were", resident_bytes() >> 20,
              most >> 20);
        CHECK(!again || second <= pages * 5 / 8, "%zu page faults to fill the heap again, %zu at first", second, first);
        CHECK(again || huge == 0, "%zu MiB of huge pages that were not wanted", huge >> 20);
    }
    return 0;
}
