/* Sizes that drift: over 60 phases blocks grow from 32…128 bytes to 8…64 KiB, each phase allocates 16 MiB, and one block in
 * twenty stays for good. What is resident beside what is alive, and why it cannot be less, in five figures:
 *
 *     live       bytes that the program asked for and has
 *     most       the most that it ever had at once
 *     floor      the pages on which one of these lies at least: what is left when everything else has gone, for blocks that
 *                lie where this allocator has put them, as nothing can be moved
 *     resident   what the allocator has, at the end of the last phase
 *     trimmed    the same after malloc_trim(0)
 *
 * The program built over the system's allocator (test-purge.drift-system) gives the floors of others, by LD_PRELOAD.
 * Allocators that keep sizes apart have a floor of 2.2 to 2.4 times what is alive: a size's slabs are as many as its first
 * phase needs, one block in twenty of each phase stays in them, and no later size may use the holes. One that cuts all sizes
 * out of the same memory, as glibc does, has 1.4. Freehold opens the holes of cold classes to other
 * sizes (store/holes.h), and has 1.84. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { PHASES = 60, VOLUME = 16 << 20, STAYS = 20 };

typedef struct {
    char *start;
    size_t size;
} block;

typedef struct {
    size_t live, most, floor, resident, trimmed;
} figures;

static block *blocks, *stayed;
static uintptr_t *pages;
static size_t stayed_count;
static uintptr_t page_size;

/* The tables are mapped and touched ahead, so that they are no part of what is measured. */
static void *table(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED, "mmap of %zu bytes", bytes);
    memset(p, 1, bytes);
    return p;
}

/* Sizes grow by equal ratios: the smallest by 16 in each half of the phases, the largest by 16 and then by 32. */
static void range_of(int phase, size_t *smallest, size_t *largest) {
    double low = 32, high = 128;
    const double low_step = 1.0985, high_step[2] = {1.0985, 1.1247}; /* 16^(2/59), 32^(2/59) */
    for (int i = 0; i < phase; i++) {
        low *= low_step;
        high *= high_step[i >= PHASES / 2];
    }
    *smallest = (size_t)low;
    *largest = (size_t)high;
}

static size_t run_phase(int phase, uint64_t *random) {
    size_t smallest, largest, count = 0, kept = 0;
    range_of(phase, &smallest, &largest);
    for (size_t made = 0; made < VOLUME; made += blocks[count++].size) {
        size_t size = smallest + random_below(random, largest - smallest + 1);
        char *p = t_malloc(size);
        CHECK(p, "malloc(%zu): NULL", size);
        memset(p, 1, size);
        blocks[count] = (block){p, size};
    }
    for (size_t i = 0; i < count; i++) {
        if (random_below(random, STAYS) == 0) {
            stayed[stayed_count++] = blocks[i];
            kept += blocks[i].size;
        } else {
            t_free(blocks[i].start);
        }
    }
    return kept;
}

static int compare(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

static size_t bytes_of_live_pages(void) {
    size_t count = 0, different = 0;
    for (size_t i = 0; i < stayed_count; i++) {
        uintptr_t first = (uintptr_t)stayed[i].start, last = first + stayed[i].size - 1;
        for (uintptr_t page = first / page_size; page <= last / page_size; page++) pages[count++] = page;
    }
    qsort(pages, count, sizeof pages[0], compare);
    for (size_t i = 0; i < count; i++) different += i == 0 || pages[i] != pages[i - 1];
    return different * page_size;
}

static figures drift(void) {
    figures f = {0};
    uint64_t random = 1; /* the same for all, so that their figures can be compared */
    t_free(t_malloc(1));
    size_t before = resident_bytes();
    for (int i = 0; i < PHASES; i++) {
        if (f.live + VOLUME > f.most) f.most = f.live + VOLUME;
        f.live += run_phase(i, &random);
    }
    f.resident = resident_bytes() - before;
    f.floor = bytes_of_live_pages();
    t_malloc_trim(0);
    f.trimmed = resident_bytes() - before;
    return f;
}

static double ratio(size_t bytes, size_t live) {
    return (double)bytes / (double)live;
}

/* In a process of its own, with that mode. */
static figures run(const char *mode) {
    int ends[2];
    figures f;
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
#ifdef T_EMBED
        CHECK(fh_option_set("purge", mode) == 0, "purge=%s", mode);
#endif
        f = drift();
        _exit(write(ends[1], &f, sizeof f) != sizeof f);
    }
    close(ends[1]);
    CHECK(read(ends[0], &f, sizeof f) == sizeof f, "the child with purge=%s died", mode);
    close(ends[0]);
    waitpid(child, NULL, 0);
    printf("%-7s live %zu MiB, most %zu; of it: resident %.2f (of the most: %.2f), trimmed %.2f, floor %.2f\n", mode,
           f.live >> 20, f.most >> 20, ratio(f.resident, f.live), ratio(f.resident, f.most), ratio(f.trimmed, f.live),
           ratio(f.floor, f.live));
    fflush(stdout);
    return f;
}

int main(void) {
    size_t most = VOLUME / 32 + 1, most_stayed = 1 << 20;
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    blocks = table(most * sizeof *blocks);
    stayed = table(most_stayed * sizeof *stayed);
    pages = table(2 * most_stayed * sizeof *pages);
    if (!t_is_freehold()) {
        run("system");
        return 0;
    }
    figures lazy = run("lazy"), budget = run("budget");
    CHECK(budget.live == lazy.live && budget.live > 40 << 20, "%zu and %zu bytes alive", budget.live, lazy.live);
    /* What the classes hold that nobody asks for any more goes back; without that a quarter more stays. On larger pages
     * there is less that could go, on the largest next to nothing. */
    size_t share = page_size == 4096 ? 6 : page_size == 16384 ? 16 : 256;
    CHECK(budget.resident + lazy.resident / share <= lazy.resident, "%zu MiB resident, %zu when nothing is given back",
          budget.resident >> 20, lazy.resident >> 20);
    /* Later sizes lie in the holes of earlier ones, which nothing else than the floor shows. On larger pages it is another. */
    if (page_size == 4096) {
        CHECK(budget.floor + budget.floor / 10 <= lazy.floor, "the floor is %zu MiB, %zu where nothing is let",
              budget.floor >> 20, lazy.floor >> 20);
    }
    /* Above the floor there are the last phase's blocks, of sizes that are still wanted, free pages of what is let, and the
     * budget. */
    CHECK(budget.resident <= budget.floor + budget.floor / 4 + VOLUME + (8 << 20), "%zu MiB resident, the floor is %zu",
          budget.resident >> 20, budget.floor >> 20);
    CHECK(t_verify() == 0, "the heap is not whole");
    CHECK(budget.trimmed <= budget.floor + budget.floor / 8, "%zu MiB after malloc_trim, the floor is %zu",
          budget.trimmed >> 20, budget.floor >> 20);
    return 0;
}
