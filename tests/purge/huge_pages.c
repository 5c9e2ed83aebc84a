/* Huge pages by state, under each setting that a system may have (support/kernel.c stands for it):
 *   - a process that does next to nothing, and one with many idle threads, pay for what they touch and not for 2 MiB;
 *   - a heap of which nearly all is written gets them from 8 MiB on, but no other one of that size, and not in a small control group;
 *   - a heap that has grown is on huge pages, and keeps them: holes of 64 KiB are no reason to split one, not even when
 *     there are many; when memory is short they all go;
 *   - a program that touches a third of its blocks gets none, or all of them would be resident; long blocks get them when those
 *     before them were filled;
 *   - a block that has grown gets them, and not what is before it; a limit that is set or lifted late has its say at once;
 *   - where they are slow to come (FREEHOLD_TEST_TOUCH) it grows without, and asks again now and then; large blocks do so too. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/kernel.h"
#include "../support/memory.h"
#include "../support/processes.h"

#include <freehold/freehold.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

enum { THREADS = 256, SMALL = 40, RUN = 128 << 10, RUNS = 4096, EACH = 16, RUN_ALONE = 1200 << 10 };

static size_t private_dirty(void) {
    return smaps_bytes("\nPrivate_Dirty:");
}

static void hello(void) {
    size_t before = private_dirty();
    char *volatile block = t_malloc(100);
    memset(block, 1, 100);
    size_t more = private_dirty() - before;
    printf("hello: %zu KiB of private dirty memory\n", more >> 10);
    CHECK(more <= 250 << 10, "%zu KiB; 250 are the most", more >> 10);
}

static pthread_barrier_t filled, measured;

static void *idle(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    char *blocks[SMALL];
    for (int i = 0; i < SMALL; i++) {
        size_t size = random_below(&random, 500) + 1;
        blocks[i] = t_malloc(size);
        CHECK(blocks[i], "malloc(%zu): NULL", size);
        memset(blocks[i], 1, size);
    }
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&measured);
    for (int i = 0; i < SMALL; i++) t_free(blocks[i]);
    return NULL;
}

static void idle_threads(void) {
    pthread_t ids[THREADS];
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    pthread_barrier_init(&measured, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&ids[i], NULL, idle, (void *)i) == 0, "pthread_create");
    }
    pthread_barrier_wait(&filled);
    size_t dirty = private_dirty();
    pthread_barrier_wait(&measured);
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    printf("%d idle threads: %zu KiB of private dirty memory; huge pages were asked for %zu MiB\n", THREADS,
           dirty >> 10, kernel_advised_bytes() >> 20);
    CHECK(dirty <= 22 << 20, "%zu KiB; 22 MiB are the most", dirty >> 10);
}

/* Half a GiB of runs of 128 KiB, which no slab and no rounding blurs. They are freed by a pattern of sixteen in a row: two
 * MiB, the length of a huge page. */
static char *runs[RUNS];
static bool freed[RUNS];

static void make_holes(int from, int to, int of_each) {
    for (int i = from; i < to; i++) {
        if (i % EACH >= of_each || freed[i]) continue;
        t_free(runs[i]);
        freed[i] = true;
    }
    t_thread_flush();
}

/* Of the freed runs in that part, how many have their memory still, in a hundred. */
static int percent_with_memory(int from, int to) {
    static unsigned char pages[RUN / 4096];
    int with = 0, all = 0;
    for (int i = from; i < to; i++) {
        if (!freed[i]) continue;
        CHECK(mincore(runs[i], RUN, pages) == 0, "mincore");
        with += pages[0] & 1;
        all++;
    }
    return with * 100 / all;
}

static void splitting(void) {
    for (int i = 0; i < RUNS; i++) {
        runs[i] = t_malloc(RUN);
        CHECK(runs[i], "malloc: NULL");
        memset(runs[i], 1, RUN);
    }
    /* In the upper half of the heap 128 KiB of each huge page are free, in the lower half three quarters, together more
     * than twice the budget: in the latter it pays to split them, in the former not. */
    make_holes(RUNS / 2, RUNS, 1);
    long few = kernel_split_purges;
    make_holes(0, RUNS / 2, 12);
    /* A release looks at so many chunks at most; these make it look again. */
    for (int i = 0; i < 100; i++) t_free(t_malloc(RUN_ALONE));
    int light = percent_with_memory(RUNS / 2, RUNS), heavy = percent_with_memory(0, RUNS / 2);
    long many = kernel_split_purges;
    t_malloc_trim(0);
    int light_trimmed = percent_with_memory(RUNS / 2, RUNS), heavy_trimmed = percent_with_memory(0, RUNS / 2);
    printf("calls that split a huge page: %ld with a sixteenth free, %ld with three quarters, %ld after malloc_trim\n",
           few, many, kernel_split_purges);
    printf("free runs with memory: %d %% of the single ones, %d %% of the others; %d %% and %d %% after malloc_trim\n",
           light, heavy, light_trimmed, heavy_trimmed);
    CHECK(few == 0, "%ld huge pages were split for a sixteenth of them", few);
    CHECK(light >= 95, "huge pages were split for one run each: only %d %% are left", light);
    CHECK(heavy <= 60, "%d %% of what pays is there still", heavy);
    CHECK(many > 0 && light_trimmed <= 1 && heavy_trimmed <= 1, "malloc_trim left %d %% and %d %%", light_trimmed,
          heavy_trimmed);
}

/* A heap of small blocks that grows to 512 MiB, each block written to. */
static void slow_and_quick(void) {
    enum { BLOCK = 1024, COUNT = 512 << 10 };
    size_t heap = (size_t)BLOCK * COUNT;
    char **blocks = t_malloc(COUNT * sizeof *blocks);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = t_malloc(BLOCK);
        CHECK(blocks[i], "malloc: NULL");
        memset(blocks[i], 1, BLOCK);
    }
    size_t asked = kernel_advised_bytes();
    bool slow = env_number("FREEHOLD_TEST_TOUCH", 0) > 1000000;
    printf("%s huge pages were asked for %zu of %zu MiB\n", slow ? "slow" : "quick", asked >> 20, heap >> 20);
    /* Six tries, after 0, 16, 32, 64, 128, 256 … pages: each is for a chunk, which is two. */
    if (slow) CHECK(asked >= 4 << 20 && asked <= heap / 8, "a heap that should have learned");
    if (!slow) CHECK(asked >= heap - heap / 16, "a heap that should be on huge pages");
    /* Quick ones have proven so after some two dozen, and from then on a quarter of the 250 is touched within malloc. */
    long timed = kernel_clock_readings / 2;
    printf("of %zu pages %ld were timed\n", asked >> 21, timed);
    if (!slow) CHECK(timed >= 16 && timed <= 110, "%ld pages were timed", timed);
    for (int i = 0; i < COUNT; i++) t_free(blocks[i]);
    t_free(blocks);
}

/* They were quick for long, and are slow from now on: that is noticed although not each is timed. */
static void quick_then_slow(void) {
    enum { BLOCK = 1024, COUNT = 512 << 10 };
    char **blocks = t_malloc(COUNT * sizeof *blocks);
    CHECK(setenv("FREEHOLD_TEST_TOUCH", "150000", 1) == 0, "setenv");
    size_t before = 0;
    for (int i = 0; i < COUNT; i++) {
        if (i == COUNT / 2) {
            before = kernel_advised_bytes();
            CHECK(setenv("FREEHOLD_TEST_TOUCH", "4000000", 1) == 0, "setenv");
        }
        blocks[i] = t_malloc(BLOCK);
        CHECK(blocks[i], "malloc: NULL");
        memset(blocks[i], 1, BLOCK);
    }
    size_t asked = kernel_advised_bytes() - before;
    printf("huge pages turned slow: asked for %zu of 256 MiB more\n", asked >> 20);
    CHECK(before >= 200 << 20, "%zu MiB before: a heap that should be on huge pages", before >> 20);
    CHECK(asked <= 64 << 20, "%zu MiB: a heap that should have learned", asked >> 20);
    for (int i = 0; i < COUNT; i++) t_free(blocks[i]);
    t_free(blocks);
}

enum { MOST_BLOCKS = 4096 };
static char *blocks[MOST_BLOCKS];

/* Takes so many bytes of blocks, and writes each whole or a third of it. Returns how many blocks. */
static size_t take_blocks(size_t bytes, size_t size, bool whole) {
    size_t count = bytes / size;
    CHECK(count <= MOST_BLOCKS, "blocks of %zu bytes are too many", size);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = t_malloc(size);
        CHECK(blocks[i], "malloc: NULL");
        memset(blocks[i], 1, whole ? size : size / 3);
    }
    return count;
}

/* The same, and frees all. Returns for how many MiB huge pages were asked. */
static size_t asked_for_blocks(size_t bytes, size_t size, bool whole) {
    size_t before = kernel_advised_bytes(), count = take_blocks(bytes, size, whole);
    for (size_t i = 0; i < count; i++) t_free(blocks[i]);
    t_thread_flush();
    t_malloc_trim(0); /* which purges chunks whole; those that had memory may get huge pages then */
    return (kernel_advised_bytes() - before) >> 20;
}

/* For how many MiB huge pages were asked while 240 MiB of long blocks were taken, and none was freed. */
static size_t asked_for_long(size_t size, bool whole) {
    size_t before = kernel_advised_bytes();
    take_blocks(240 << 20, size, whole);
    size_t asked = (kernel_advised_bytes() - before) >> 20;
    printf("blocks of %zu MiB, %s touched: huge pages were asked for %zu of 240 MiB\n", size >> 20,
           whole ? "wholly" : "a third of each", asked);
    fflush(stdout);
    return asked;
}

/* The program touches large blocks itself. Chunks that were filled and purged are on huge pages, and the second time the blocks meet
 * them, and slow ones perhaps. */
static void slow_and_quick_large(void) {
    bool slow = env_number("FREEHOLD_TEST_TOUCH", 0) > 1000000;
    CHECK(setenv("FREEHOLD_TEST_TOUCH", "150000", 1) == 0, "setenv");
    size_t asked = asked_for_blocks(160 << 20, 1 << 20, true) << 20;
    if (slow) CHECK(setenv("FREEHOLD_TEST_TOUCH", "4000000", 1) == 0, "setenv");
    asked_for_blocks(160 << 20, 1 << 20, true);
    printf("%s huge pages: large blocks were put on small ones in %zu of %zu MiB\n", slow ? "slow" : "quick",
           kernel_refused_bytes >> 20, asked >> 20);
    fflush(stdout);
    CHECK(asked >= 120 << 20, "what comes next should be on huge pages");
    /* One page each is tried after 0, 16, 32 and 64, or a few quick ones more before the first that is timed. */
    if (slow) CHECK(kernel_refused_bytes >= asked / 2, "blocks that should have learned");
    if (!slow) CHECK(kernel_refused_bytes == 0, "blocks that should be on huge pages");
}

/* Blocks of one size, all of them written, in a control group with a limit: a folder with files. */
static void dense_in_group(const char *limit, size_t least, size_t most) {
    char root[] = "/tmp/freehold-huge-pages-XXXXXX", path[64];
    const char *names[] = {"self.cgroup", "memory.max", "memory.current", "memory.stat"};
    const char *texts[] = {"0::/\n", limit, "20000000\n", "anon 5\nfile 5\nshmem 5\n"};
    CHECK(mkdtemp(root), "mkdtemp");
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", root, names[i]);
        int file = open(path, O_CREAT | O_WRONLY, 0600);
        CHECK(file >= 0 && write(file, texts[i], strlen(texts[i])) == (ssize_t)strlen(texts[i]), "cannot write %s",
              path);
        close(file);
    }
    CHECK(setenv("FREEHOLD_GROUP_ROOT", root, 1) == 0, "setenv");
    take_blocks(7 << 20, 3500, true);
    size_t young = kernel_advised_bytes() >> 20;
    take_blocks(6 << 20, 3500, true);
    size_t asked = kernel_advised_bytes() >> 20;
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", root, names[i]);
        CHECK(unlink(path) == 0, "unlink %s", path);
    }
    CHECK(rmdir(root) == 0, "rmdir %s", root);
    printf("13 MiB in a group of %.*s bytes: huge pages were asked for %zu MiB\n", (int)strcspn(limit, "\n"), limit,
           asked);
    CHECK(young == 0, "%zu MiB for the first seven: a small process pays for what it touches", young);
    CHECK(asked >= least && asked <= most, "%zu MiB; %zu to %zu are right", asked, least, most);
}

static void dense_in_small_group(void) {
    dense_in_group("500000000\n", 0, 0);
}

static void dense_in_large_group(void) {
    dense_in_group("5000000000\n", 4, 8);
}

/* The same, and a third of each block is written. */
static void third_dense(void) {
    take_blocks(13 << 20, 24000, false);
    CHECK(kernel_advised_bytes() == 0, "that would be resident for nothing");
}

static void whole_small(void) {
    size_t asked = asked_for_blocks(60 << 20, 40000, true);
    printf("blocks of 40,000 bytes, written whole: huge pages were asked for %zu MiB\n", asked);
    CHECK(asked >= 32, "a heap that should be on huge pages");
}

static void third_small(void) {
    size_t asked = asked_for_blocks(60 << 20, 40000, false);
    printf("blocks of 40,000 bytes, a third of each touched: huge pages were asked for %zu MiB\n", asked);
    CHECK(asked == 0, "that is resident for nothing");
}

static void whole_large(void) {
    size_t asked = asked_for_blocks(160 << 20, 1 << 20, true);
    printf("blocks of 1 MiB, written whole: huge pages were asked for %zu MiB\n", asked);
    CHECK(asked >= 120, "what comes next should be on huge pages");
}

static void third_large(void) {
    size_t asked = asked_for_blocks(160 << 20, 1 << 20, false);
    printf("blocks of 1 MiB, a third of each touched: huge pages were asked for %zu MiB\n", asked);
    CHECK(asked == 0, "what comes next would be resident for nothing");
}

/* What a program does with long blocks is seen in those that it has already. Where the kernel gives huge pages unasked nothing can be
 * seen, and it has its own choice. */
static void whole_long(void) {
    size_t asked = asked_for_long(10 << 20, true);
    bool unasked = strcmp(getenv("FREEHOLD_TEST_THP"), "always") == 0;
    if (unasked) CHECK(asked == 0, "it gives them anyway");
    if (!unasked) CHECK(asked >= 160, "blocks that should be on huge pages");
}

static void third_long(void) {
    CHECK(asked_for_long(10 << 20, false) == 0, "that is resident for nothing");
}

/* A program that no longer fills its blocks: the chunks that stay on small pages show it. */
static void changed_long(void) {
    asked_for_long(10 << 20, true);
    size_t count = take_blocks(160 << 20, 10 << 20, false), before = kernel_advised_bytes();
    CHECK(count == 16, "16 blocks");
    take_blocks(160 << 20, 10 << 20, false);
    size_t asked = (kernel_advised_bytes() - before) >> 20;
    printf("when they are touched in part, for %zu of 160 MiB\n", asked);
    CHECK(asked == 0, "what was learned should be forgotten");
}

/* A block that grows by realloc is filled, and is on huge pages. What is before it may never be touched. */
static void grown_beside_untouched(void) {
    char *table = t_malloc(256 << 20), *grows = t_malloc(2 << 20);
    CHECK(table && grows, "malloc: NULL");
    memset(grows, 1, 2 << 20);
    size_t before = kernel_advised_bytes();
    for (size_t size = 6 << 20; size <= 18 << 20; size += 4 << 20) {
        grows = t_realloc(grows, size);
        CHECK(grows, "realloc: NULL");
        memset(grows, 1, size);
    }
    size_t asked = (kernel_advised_bytes() - before) >> 20;
    printf("a block of 18 MiB has grown behind 256 MiB: huge pages were asked for %zu MiB\n", asked);
    bool unasked = strcmp(getenv("FREEHOLD_TEST_THP"), "always") == 0;
    CHECK(asked >= 8 || unasked, "the block should be on them");
    CHECK(asked <= 64, "the table would be resident once it is touched");
    t_free(grows);
    t_free(table);
}

/* A small limit does without huge pages, whenever it is set, and what is lifted does so no more. */
static void limit_set_late(void) {
    enum { BLOCK = 24 << 10 };
    take_blocks(32 << 20, BLOCK, true);
    CHECK(fh_limit_set(0, 512 << 20, NULL) == 0, "fh_limit_set");
    size_t before = kernel_advised_bytes();
    take_blocks(80 << 20, BLOCK, true);
    size_t limited = (kernel_advised_bytes() - before) >> 20;
    CHECK(fh_limit_set(0, 0, NULL) == 0, "fh_limit_set");
    before = kernel_advised_bytes();
    take_blocks(80 << 20, BLOCK, true);
    size_t free = (kernel_advised_bytes() - before) >> 20;
    printf("huge pages were asked for %zu of 80 MiB below a limit, and for %zu of 80 without\n", limited, free);
    CHECK(limited == 0, "a limit of 512 MiB is one on what is resident");
    CHECK(free >= 60, "the limit is lifted");
}

/* What is more than four times as long is of another kind, until one of it was filled. */
static void far_longer(void) {
    asked_for_long(10 << 20, true);
    size_t before = kernel_advised_bytes();
    take_blocks(50 << 20, 50 << 20, true);
    CHECK(kernel_advised_bytes() == before, "a block of 50 MiB is not known to be filled");
    take_blocks(50 << 20, 50 << 20, true);
    size_t asked = (kernel_advised_bytes() - before) >> 20;
    bool unasked = strcmp(getenv("FREEHOLD_TEST_THP"), "always") == 0;
    CHECK(asked >= 32 || unasked, "huge pages were asked for %zu of the second 50 MiB", asked);
}

int main(void) {
    if (env_number("FREEHOLD_TEST_TOUCH", 0)) {
        run_apart("slow and quick", slow_and_quick);
        run_apart("slow and quick, large", slow_and_quick_large);
        run_apart("quick, then slow", quick_then_slow);
        return 0;
    }
    run_apart("hello", hello);
    run_apart("idle threads", idle_threads);
    /* Those that follow are about quick ones. Where this machine is slow for a moment, blocks would be on small pages. */
    CHECK(setenv("FREEHOLD_TEST_TOUCH", "150000", 1) == 0, "setenv");
    run_apart("splitting", splitting);
    run_apart("dense, in a small group", dense_in_small_group);
    run_apart("dense, in a large group", dense_in_large_group);
    run_apart("a third, dense", third_dense);
    run_apart("whole, small", whole_small);
    run_apart("a third, small", third_small);
    run_apart("whole, large", whole_large);
    run_apart("a third, large", third_large);
    run_apart("whole, long", whole_long);
    run_apart("a third, long", third_long);
    run_apart("changed, long", changed_long);
    run_apart("far longer", far_longer);
    run_apart("grown beside untouched", grown_beside_untouched);
    run_apart("limit set late", limit_set_late);
    return 0;
}
