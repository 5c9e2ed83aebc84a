/* Options and limits that change while threads allocate. Each change takes effect at once for all threads, and a decision
 * reads a word once: under the thread sanitizer there is no race. A limit that is lifted refuses nothing from then on, also
 * if another thread changes another option at that moment. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 3, ROUNDS = 120, HELD = 24, STEPS = 60 };
static const size_t limit = (size_t)8 << 20;

/* Odd while a limit holds, or is being set or lifted. */
static atomic_uint phase;
static atomic_bool stop;
static atomic_ulong refusals, allocations;

static void *allocate(void *number) {
    uint64_t random = (uintptr_t)number + 1;
    void *held[HELD] = {NULL};
    while (!atomic_load(&stop)) {
        unsigned i = (unsigned)random_below(&random, HELD), before = atomic_load(&phase);
        size_t size = 1 + random_below(&random, random_below(&random, 4) ? 4000 : 1500000);
        t_free(held[i]);
        held[i] = t_malloc(size);
        atomic_fetch_add(&allocations, 1);
        if (held[i]) {
            memset(held[i], 1, size < 64 ? size : 64);
            continue;
        }
        atomic_fetch_add(&refusals, 1);
        CHECK(before % 2 == 1 || before != atomic_load(&phase), "%zu bytes are refused, and no limit is set", size);
    }
    for (unsigned i = 0; i < HELD; i++) t_free(held[i]);
    return NULL;
}

static void set(const char *key, const char *value) {
    CHECK(fh_option_set(key, value) == 0, "%s=%s", key, value);
}

static void *change_options(void *none) {
    static const char *const purge[] = {"eager", "lazy", "budget", "background"};
    static const char *const thp[] = {"never", "always", "auto"};
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        set("purge", purge[i % 4]);
        set("thp", thp[i % 3]);
        set("on_error", i % 2 ? "report" : "abort");
        set("sample", i % 2 ? "64k" : "512k");
        set("verbose", i % 2 ? "1" : "0");
    }
    set("purge", "budget");
    set("thp", "auto");
    set("on_error", "abort");
    set("verbose", "0");
    return none;
}

static void met(size_t in_use, size_t which) {
    (void)in_use, (void)which;
}

/* By the call, with a soft one and without, and by the option. */
static void set_limit(unsigned round) {
    if (round % 3 == 2) {
        set("limit", "8m");
    } else {
        CHECK(fh_limit_set(round % 3 ? limit / 2 : 0, limit, round % 3 ? met : NULL) == 0, "the limit is not set");
    }
}

static void lift_limit(unsigned round) {
    if (round % 2) {
        set("limit", "0");
    } else {
        CHECK(fh_limit_set(0, 0, NULL) == 0, "the limit is not lifted");
    }
}

static void wait_for(unsigned long more) {
    for (unsigned long end = atomic_load(&allocations) + more; atomic_load(&allocations) < end;) sched_yield();
}

int main(void) {
    pthread_t thread[THREADS], changer;
    set("on_oom", "silent");
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, allocate, (void *)i) == 0, "no thread");
    CHECK(pthread_create(&changer, NULL, change_options, NULL) == 0, "no thread");
    for (unsigned round = 0; round < ROUNDS; round++) {
        atomic_fetch_add(&phase, 1);
        set_limit(round);
        wait_for(STEPS);
        lift_limit(round);
        atomic_fetch_add(&phase, 1);
        wait_for(STEPS);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    pthread_join(changer, NULL);
    printf("%d limits set and lifted, %lu of %lu blocks refused\n", ROUNDS, atomic_load(&refusals),
           atomic_load(&allocations));
    CHECK(atomic_load(&refusals) > 0, "the limit has refused nothing");
    CHECK(t_verify() == 0, "the heap is not whole");
    return 0;
}
