/* What went back must not come back while the program sleeps. The kernel gathers small pages into huge ones (khugepaged)
 * where these were asked for, as soon as there is one page in 2 MiB: a heap that has given back all but some blocks here
 * and there would be as large as before after a while. This program does at once what the kernel does in minutes: it asks
 * for each such 2 MiB to be gathered. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/pattern.h"

#include <sys/mman.h>

enum { COUNT = 100000, ALIVE = 3000, HUGE_PAGE = 2 << 20, PAGES = HUGE_PAGE / 4096, REST = 2 << 20 };

#if !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25
#endif

static unsigned char *blocks[COUNT];
static size_t sizes[COUNT];

static bool has_memory(char *start) {
    unsigned char pages[PAGES];
    if (mincore(start, HUGE_PAGE, pages) != 0) return false;
    for (int i = 0; i < PAGES; i++) {
        if (pages[i] & 1) return true;
    }
    return false;
}

static bool gather(char *start) {
    return madvise(start, HUGE_PAGE, MADV_COLLAPSE) == 0;
}

/* Two MiB of the test's own with one page written to: can this kernel do it at all? */
static void need_gathering(void) {
    char *own = mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED, "mmap");
    char *start = (char *)(((uintptr_t)own + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    madvise(start, HUGE_PAGE, MADV_NOHUGEPAGE); /* no huge page from the first touch on */
    *(volatile char *)start = 1;
    madvise(start, HUGE_PAGE, MADV_HUGEPAGE);
    size_t before = resident_bytes();
    if (!gather(start)) skip_test("this kernel gathers no pages when it is asked to");
    CHECK(resident_bytes() > before + HUGE_PAGE / 2, "gathered, and no more is resident");
    munmap(own, 2 * HUGE_PAGE);
}

typedef struct {
    uintptr_t start, end;
} range;

/* The mappings for which huge pages were asked for: those with "hg" among their flags. */
static int advised(range *list, int most) {
    static char line[4096];
    FILE *smaps = fopen("/proc/self/smaps", "r");
    CHECK(smaps, "/proc/self/smaps");
    int count = 0;
    range now = {0, 0};
    while (fgets(line, sizeof line, smaps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) now = (range){start, end};
        if (strncmp(line, "VmFlags:", 8) != 0 || !strstr(line, " hg")) continue;
        CHECK(count < most, "more mappings than this test has room for");
        list[count++] = now;
    }
    fclose(smaps);
    return count;
}

/* One round of the kernel's gatherer over the whole program. Returns how many huge pages it made. */
static int gather_all(void) {
    static range list[4096];
    int made = 0, count = advised(list, 4096);
    for (int i = 0; i < count; i++) {
        uintptr_t start = (list[i].start + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
        for (; start + HUGE_PAGE <= list[i].end; start += HUGE_PAGE)
            made += has_memory((char *)start) && gather((char *)start);
    }
    return made;
}

static void fill(uint64_t *random) {
    for (int i = 0; i < COUNT; i++) {
        if (blocks[i]) continue;
        sizes[i] = 1 + random_below(random, i % 100 == 0 ? 300000 : 3000);
        blocks[i] = t_malloc(sizes[i]);
        CHECK(blocks[i], "malloc: NULL");
        pattern_fill(blocks[i], sizes[i], (uintptr_t)i);
    }
}

static void empty(int alive) {
    for (int i = 0; i < COUNT; i++) {
        if (!blocks[i] || (alive && i % alive == 7)) continue;
        long wrong = pattern_wrong(blocks[i], sizes[i], (uintptr_t)i);
        CHECK(wrong < 0, "byte %ld of a block changed", wrong);
        t_free(blocks[i]);
        blocks[i] = NULL;
    }
    t_thread_flush();
    t_malloc_trim(0);
}

int main(void) {
    uint64_t random = random_seed();
    need_gathering();
    memset(sizes, 1, sizeof sizes);
    t_free(t_malloc(1));
    gather_all(); /* stdio has its buffers from now on */
    size_t before = resident_bytes();
    for (int round = 0; round < 3; round++) {
        fill(&random);
        size_t most = resident_bytes() - before;
        empty(ALIVE);
        size_t left = resident_bytes() - before;
        int made = gather_all();
        size_t later = resident_bytes() - before;
        printf("%.1f MiB at most, %.1f given back to, %.1f after %d huge pages were gathered\n", (double)most / 1048576,
               (double)left / 1048576, (double)later / 1048576, made);
        CHECK(later <= left + REST, "%zu KiB came back", (later - left) >> 10);
    }
    /* What was whole again is on huge pages again: a heap that has grown anew is not on small pages for ever. */
    empty(0);
    fill(&random);
    size_t huge = smaps_bytes("\nAnonHugePages:"), all = resident_bytes() - before;
    printf("grown again, %zu of %zu MiB are huge pages\n", huge >> 20, all >> 20);
    range list[64];
    int parts = advised(list, 64);
    printf("%d mappings with huge pages\n", parts);
    CHECK(parts <= 64, "%d mappings", parts);
    empty(0);
    return 0;
}
