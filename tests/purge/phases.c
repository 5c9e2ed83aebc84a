/* A heap that grows and shrinks by half a GiB over and over: purging by budget must not cost much more than never
 * purging. After the first phase the refault credit is as large as what was missed, so that the second purges less and the
 * following ones nothing.
 *
 * No time is compared with a constant: the two modes run in turn, in a process each, and the pairs' median ratio counts.
 * The bytes that were given back say the same without a clock, so they are looked at first. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <sys/resource.h>
#include <sys/wait.h>

enum { SIZE = 512, COUNT = (512 << 20) / SIZE, PHASES = 8, PAIRS = 5, PAUSE = 20000 };

typedef struct {
    double seconds; /* processor time */
    size_t given;   /* bytes back to the system, after the first two phases */
} cost;

static void *blocks[COUNT];

static double processor_seconds(const struct rusage *used) {
    return (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
           (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) / 1e6;
}

static void phase(void) {
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = t_malloc(SIZE);
        CHECK(blocks[i], "malloc: NULL");
        memset(blocks[i], i, SIZE);
    }
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
        CHECK(fh_option_set("purge", mode) == 0, "purge=%s", mode);
        for (int i = 0; i < PHASES; i++) {
            if (i == 2) {
                getrusage(RUSAGE_SELF, &first);
                before = given_back();
            }
            phase();
        }
        getrusage(RUSAGE_SELF, &last);
        cost c = {processor_seconds(&last) - processor_seconds(&first), given_back() - before};
        _exit(write(ends[1], &c, sizeof c) != sizeof c);
    }
    close(ends[1]);
    cost c;
    CHECK(read(ends[0], &c, sizeof c) == sizeof c, "the child with purge=%s died", mode);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return c;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of some pairs. */
static double price(void) {
    double ratio[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        cost lazy = run("lazy"), budget = run("budget");
        ratio[i] = budget.seconds / lazy.seconds;
        printf("lazy %.3f s, budget %.3f s and %zu KiB given back, ratio %.3f\n", lazy.seconds, budget.seconds,
               budget.given >> 10, ratio[i]);
        CHECK(lazy.given == 0, "%zu bytes went back, with purge=lazy", lazy.given);
        /* Six phases of half a GiB, and a hundredth of it. */
        CHECK(budget.given <= (6 * (size_t)512 << 20) / 100, "%zu KiB were given back", budget.given >> 10);
    }
    qsort(ratio, PAIRS, sizeof ratio[0], compare);
    printf("median ratio %.3f, of %d pairs\n", ratio[PAIRS / 2], PAIRS);
    return ratio[PAIRS / 2];
}

int main(void) {
    double found = price();
    /* Again, for a machine that was busy with other things in most pairs: a price that is there is there each time. What
     * gives back in every phase takes 3 to 5 times as long. */
    for (int i = 0; i < 3 && found > 1.15; i++) found = price();
    CHECK(found <= 1.15, "giving back by budget took %.2f of the time", found);
    return 0;
}
