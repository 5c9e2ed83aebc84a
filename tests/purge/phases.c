/* A heap that grows and shrinks by half a GiB over and over: purging by budget must not cost much more than never
 * purging. After the first phase the refault credit is as large as what was missed, so that the second purges less and the
 * following ones nothing.
 *
 * The two modes run in turn, in a process each, and the pairs' median ratio counts. The bytes that were given back say the
 * same without a clock, so they are looked at first. But the credit halves every second and is gone after two (budget.h),
 * and on a machine that is busy with other things a phase takes as long: such a run says nothing about the bytes. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { SIZE = 512, COUNT = (512 << 20) / SIZE, PHASES = 8, PAIRS = 5, PAUSE = 20000 };

#define CREDIT_LASTS 0.5 /* seconds a phase: two of them are well within what the credit lasts */

typedef struct {
    double seconds; /* processor time */
    double longest; /* seconds by the clock, of all phases */
    size_t given;   /* bytes back to the system, after the first two phases */
} cost;

static void *blocks[COUNT];

static double processor_seconds(const struct rusage *used) {
    return (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
           (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) / 1e6;
}

static double clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fill(void) {
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = t_malloc(SIZE);
        CHECK(blocks[i], "malloc: NULL");
        memset(blocks[i], i, SIZE);
    }
}

static void phase(void) {
    fill();
    usleep(PAUSE);
    for (int i = 0; i < COUNT; i++) t_free(blocks[i]);
    usleep(PAUSE);
}

/* Bytes that have been given back so far. */
static size_t given_back(void) {
    static char text[256 << 10];
    const char key[] = "\"purged_total_bytes\":";
    CHECK(fh_stats_json(text, sizeof text) < sizeof text, "the statistics are longer than %zu bytes", sizeof text);
    const char *found = strstr(text, key);
    CHECK(found, "no %s in the statistics", key);
    return strtoul(found + sizeof key - 1, NULL, 10);
}

/* Runs all phases in a child with that mode. */
static cost run(const char *mode) {
    int ends[2];
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        struct rusage first, last;
        size_t before = 0;
        double longest = 0;
        CHECK(fh_option_set("purge", mode) == 0, "purge=%s", mode);
        for (int i = 0; i < PHASES; i++) {
            if (i == 2) {
                getrusage(RUSAGE_SELF, &first);
                before = given_back();
            }
            double began = clock_seconds();
            phase();
            double took = clock_seconds() - began;
            if (took > longest) longest = took;
        }
        getrusage(RUSAGE_SELF, &last);
        cost c = {processor_seconds(&last) - processor_seconds(&first), longest, given_back() - before};
        _exit(write(ends[1], &c, sizeof c) != sizeof c);
    }
    close(ends[1]);
    cost c;
    CHECK(read(ends[0], &c, sizeof c) == sizeof c, "the child with purge=%s died", mode);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return c;
}

/* The allocator counts seconds of 2^30 nanoseconds. */
static double allocator_seconds(void) {
    return clock_seconds() * 1e9 / (double)(1 << 30);
}

/* Waits for that moment. False: it was long ago. */
static bool wait_for(double moment) {
    double late = allocator_seconds() - moment;
    for (; late < 0; late = allocator_seconds() - moment) usleep(1000);
    return late < 0.05;
}

/* Half of the blocks are freed just before the allocator's clock changes its second, the other half just after it. All of
 * them were used again in the second before that: the credit must not fade for a second of which a tenth has passed.
 * Returns the bytes that were given back. Sets *in_time to false: the machine was too busy for that. */
static size_t given_at_a_tick(bool *in_time) {
    double began = (double)(long)(allocator_seconds() + 1);
    *in_time = wait_for(began);
    for (int i = 0; i < 3; i++) phase();
    *in_time &= wait_for(began + 1.8);
    fill();
    size_t before = given_back();
    *in_time &= wait_for(began + 2.9);
    for (int i = 0; i < COUNT / 2; i++) t_free(blocks[i]);
    *in_time &= wait_for(began + 3.01);
    for (int i = COUNT / 2; i < COUNT; i++) t_free(blocks[i]);
    size_t given = given_back() - before;
    printf("%zu KiB given back at a tick%s\n", given >> 10, *in_time ? "" : ", too late");
    *in_time &= allocator_seconds() < began + 3.5;
    return given;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of some pairs. Adds to *judged how many were quick enough to say something about bytes. */
static double price(int *judged) {
    double ratio[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        cost lazy = run("lazy"), budget = run("budget");
        ratio[i] = budget.seconds / lazy.seconds;
        printf("lazy %.3f s, budget %.3f s and %zu KiB given back, ratio %.3f; longest phase %.3f s\n", lazy.seconds,
               budget.seconds, budget.given >> 10, ratio[i], budget.longest);
        CHECK(lazy.given == 0, "%zu bytes went back, with purge=lazy", lazy.given);
        if (budget.longest > CREDIT_LASTS) continue;
        *judged += 1;
        /* Six phases of half a GiB, and a hundredth of it. */
        CHECK(budget.given <= (6 * (size_t)512 << 20) / 100, "%zu KiB were given back", budget.given >> 10);
    }
    qsort(ratio, PAIRS, sizeof ratio[0], compare);
    printf("median ratio %.3f, of %d pairs\n", ratio[PAIRS / 2], PAIRS);
    return ratio[PAIRS / 2];
}

int main(void) {
    /* Some times, because a busy machine makes the credit fade before: a tick that costs something costs it each time. */
    size_t given = SIZE_MAX;
    bool ticked = false;
    for (int i = 0; i < 4 && given != 0; i++) {
        bool in_time;
        given = given_at_a_tick(&in_time);
        ticked |= in_time;
    }
    CHECK(given == 0 || !ticked, "%zu KiB were given back at a tick", given >> 10);
    int judged = 0;
    double found = price(&judged);
    /* Again, for a machine that was busy with other things in most pairs: a price that is there is there each time. What
     * gives back in every phase takes 3 to 5 times as long. */
    for (int i = 0; i < 3 && (found > 1.15 || judged == 0); i++) found = price(&judged);
    CHECK(found <= 1.15, "giving back by budget took %.2f of the time", found);
    if (judged == 0)
        skip_part("the machine was too busy for a phase within half a second: the bytes were not looked at");
    return 0;
}
