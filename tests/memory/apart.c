/* Two threads on two CPUs allocate and free in turns. What one has freed is near its CPU, and the other one's next blocks should not
 * be those: each would be a cache miss, in both, for ever (store/depot.h, fh_depot_lacks).
 *
 *     in turns   as many as the depot holds: after some rounds no block is in both threads' hands
 *     too many   more than it holds: the thread makes up for what went away a few times, and no more
 *     one way    a thread that only allocates gets what the other one freed near either CPU, and nothing is made up for
 *     no memory  where slabs have nothing in that moment, what is in the other depot is got after all
 *
 * The CPU is what the test says it is, and only one thread runs at a time. */
#include "base/classes.h"
#include "base/tuning.h"
#include "store/depot.h"
#include "../support/alloc.h"
#include "../support/check.h"

#include <pthread.h>
#include <semaphore.h>

enum { MOST = 40000 };

static __thread unsigned cpu;
static size_t made_up; /* bytes for which the answer was that it is better to go to the slabs */

static bool refuse,
    waits; /* slabs have nothing at the next such answer; they had nothing, and the depots were not looked at */
static unsigned refused, got_after_all;

unsigned __wrap_fh_system_cpu_hint(void);
unsigned __wrap_fh_system_cpu_hint(void) {
    return cpu;
}

bool __real_fh_depot_lacks(unsigned c, unsigned near, unsigned n);
bool __wrap_fh_depot_lacks(unsigned c, unsigned near, unsigned n);
bool __wrap_fh_depot_lacks(unsigned c, unsigned near, unsigned n) {
    bool is = __real_fh_depot_lacks(c, near, n);
    if (is) made_up += n * fh_class_size(c);
    if (is && refuse) refused = c;
    return is;
}

unsigned __real_fh_slab_take(unsigned c, unsigned want, void **out);
unsigned __wrap_fh_slab_take(unsigned c, unsigned want, void **out);
unsigned __wrap_fh_slab_take(unsigned c, unsigned want, void **out) {
    if (refused == 0 || c != refused) return __real_fh_slab_take(c, want, out);
    refused = 0;
    waits = true;
    return 0;
}

fh_magazine *__real_fh_depot_get(unsigned c, unsigned near, fh_magazine *empty);
fh_magazine *__wrap_fh_depot_get(unsigned c, unsigned near, fh_magazine *empty);
fh_magazine *__wrap_fh_depot_get(unsigned c, unsigned near, fh_magazine *empty) {
    got_after_all += waits;
    waits = false;
    return __real_fh_depot_get(c, near, empty);
}

/* The thread has got no block from slabs and goes on the way of a refused malloc. */
void __real_fh_depot_empty(unsigned c);
void __wrap_fh_depot_empty(unsigned c);
void __wrap_fh_depot_empty(unsigned c) {
    CHECK(!waits, "depots are emptied for a refused malloc, although there is something in them");
    __real_fh_depot_empty(c);
}

static void *block[2][MOST];
static sem_t turn[2];
static size_t size, blocks;
static int rounds;
static bool one_way;

static void round_of(unsigned me) {
    void **own = one_way ? block[0] : block[me];
    if (!one_way || me == 0) {
        for (size_t i = 0; i < blocks; i++) CHECK(own[i] = t_malloc(size), "malloc: NULL");
    }
    if (!one_way || me == 1) {
        for (size_t i = 0; i < blocks; i++) t_free(own[i]);
    }
}

static void *run(void *argument) {
    unsigned me = cpu = (unsigned)(uintptr_t)argument;
    for (int i = 0; i < rounds; i++) {
        sem_wait(&turn[me]);
        if (one_way) cpu = (unsigned)(me ? i : i / 2) % 2;
        round_of(me);
        sem_post(&turn[!me]);
    }
    return NULL;
}

static void run_both(size_t of_size, size_t n, int times, bool is_one_way) {
    pthread_t thread[2];
    size = of_size, blocks = n, rounds = times, one_way = is_one_way, made_up = 0;
    sem_init(&turn[0], 0, 1);
    sem_init(&turn[1], 0, 0);
    for (uintptr_t i = 0; i < 2; i++) CHECK(pthread_create(&thread[i], NULL, run, (void *)i) == 0, "no thread");
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
}

static int compare(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;
    return (x > y) - (x < y);
}

/* Of the last round of each. */
static size_t in_both(void) {
    size_t n = 0, k = 0;
    for (int i = 0; i < 2; i++) qsort(block[i], blocks, sizeof(void *), compare);
    for (size_t i = 0; i < blocks; i++) {
        while (k < blocks && (uintptr_t)block[1][k] < (uintptr_t)block[0][i]) k++;
        n += k < blocks && block[1][k] == block[0][i];
    }
    return n;
}

/* Of both shards. The last magazine may go beyond the bound. */
static void check_made_up(const char *how) {
    const size_t most = 2 * (FH_AWAY_BYTES + FH_MAGAZINE_BYTES);
    printf("%s, %zu bytes: made up for %zu KiB\n", how, size, made_up / FH_KIB);
    CHECK(made_up > 0 && made_up <= most, "made up for %zu bytes, at most %zu", made_up, most);
}

int main(void) {
    static const size_t sizes[] = {64, 640, 1024, 4096};
    for (int i = 0; i < 4; i++) {
        run_both(sizes[i], 900 * FH_KIB / sizes[i], 400, false);
        check_made_up("in turns");
        size_t both = in_both();
        CHECK(both == 0, "%zu of %zu blocks of %zu bytes go from CPU to CPU", both, blocks, size);
    }
    run_both(128, MOST, 50, false);
    check_made_up("too many");
    run_both(256, 3000, 100, true);
    CHECK(made_up == 0, "%zu bytes for a thread that only allocates", made_up);
    refuse = true;
    run_both(2048, 450, 100, false);
    printf("no memory: %u times\n", got_after_all);
    CHECK(got_after_all > 0, "slabs never had nothing");
    return 0;
}
