/* A young program that goes up and down by a little more than the budget keeps: it has its memory back after the first turns,
 * however young it is. The allowance for refaults (src/reclaim/credit.c) grows with time, from the first purge on. Here the
 * library's clock stands still, so there is none, whatever the machine's load. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <sys/resource.h>
#include <time.h>

enum { BLOCKS = 600, SIZE = 8192, TURNS = 100 };

/* The memory itself, the table, the loader; and what is purged before there is credit for it. */
enum { MOST_FAULTS = BLOCKS * SIZE / 4096 + 2000 };

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now) {
    (void)id;
    *now = (struct timespec){.tv_sec = 1000};
    return 0;
}

static long faults(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_minflt;
}

static void *blocks[BLOCKS];

int main(void) {
    long before = faults();
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < BLOCKS; i++) {
            unsigned char *p = blocks[i] = t_malloc(SIZE);
            CHECK(p, "malloc: NULL");
            p[0] = p[SIZE / 2] = 1;
        }
        for (int i = BLOCKS; i-- > 0;) t_free(blocks[i]);
    }
    long more = faults() - before;
    printf("%d turns of %d KiB: %ld page faults\n", TURNS, BLOCKS * SIZE / 1024, more);
    CHECK(sysconf(_SC_PAGESIZE) != 4096 || more <= MOST_FAULTS, "%ld page faults, more than %d", more, MOST_FAULTS);
    return 0;
}
