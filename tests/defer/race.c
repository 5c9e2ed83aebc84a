/* Readers race writers: each reads through shared pointers without a lock, and must never see a block that was freed. Writers replace
 * the blocks, defer the old ones, and write poison over blocks of the same size, so that one that was freed early is
 * overwritten at once. Threads come and go, some readers are offline now and then, and one calls its point rarely.
 * FREEHOLD_TEST_READS: so many blocks are looked at by readers at least, however long that takes (default 0). */
#include <freehold/defer.h>

#include "../support/check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PLACES = 16, WORDS = 6, READERS = 3, WRITERS = 2, FILLER = 24 };
#define ALIVE UINT64_C(0xA11FEA11FEA11FE0)
#define POISON UINT64_C(0xDEADDEADDEADDEAD)

static uint64_t *_Atomic place[PLACES];
static atomic_int over;
static atomic_ullong reads, deferred, refused;

static uint64_t *make(void) {
    uint64_t *p = fh_malloc(WORDS * sizeof *p);
    CHECK(p != NULL, "no memory");
    for (int i = 0; i < WORDS; i++) __atomic_store_n(&p[i], ALIVE, __ATOMIC_RELAXED);
    return p;
}

/* The words are atomic, because a block that was freed early would be written meanwhile. */
static void look(uint64_t *p) {
    for (int i = 0; i < WORDS; i++) {
        uint64_t word = __atomic_load_n(&p[i], __ATOMIC_RELAXED);
        CHECK(word == ALIVE, "a reader saw %llx: its block was freed", (unsigned long long)word);
    }
}

static void *read_on(void *number) {
    uint64_t seed = (uintptr_t)number, n = 0;
    CHECK(fh_reader_register("reader") == 1, "not registered");
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        /* Held from just after one point until just before the next one. */
        uint64_t *held = atomic_load_explicit(&place[random_below(&seed, PLACES)], memory_order_acquire);
        uint64_t turns = random_below(&seed, (uintptr_t)number == 1 ? 20000 : 50);
        for (uint64_t i = 0; i < turns; i++)
            look(atomic_load_explicit(&place[random_below(&seed, PLACES)], memory_order_acquire));
        look(held);
        n += turns + 1;
        fh_quiescent();
        if (random_below(&seed, 500) == 0) {
            fh_reader_offline();
            fh_reader_online();
        }
    }
    atomic_fetch_add(&reads, n);
    return NULL; /* the end of the thread unregisters it */
}

static void *write_on(void *number) {
    uint64_t seed = (uintptr_t)number + 100, n = 0, waits = 0;
    void *filler[FILLER];
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        uint64_t *old = atomic_exchange(&place[random_below(&seed, PLACES)], make());
        while (fh_defer_free(old) == 0) {
            waits++;
            if (atomic_load(&over)) {
                old = NULL; /* lost: the readers may be gone, and it is the end */
            }
        }
        n++;
        if (random_below(&seed, 4)) continue;
        if (random_below(&seed, 8) == 0) fh_defer_barrier();
        for (int i = 0; i < FILLER; i++) {
            uint64_t *p = filler[i] = fh_malloc(WORDS * sizeof *p);
            for (int k = 0; k < WORDS; k++) __atomic_store_n(&p[k], POISON, __ATOMIC_RELAXED);
        }
        fh_free_batch(filler, FILLER);
    }
    atomic_fetch_add(&deferred, n);
    atomic_fetch_add(&refused, waits);
    return NULL;
}

int main(void) {
    pthread_t thread[READERS + WRITERS];
    uint64_t wanted = env_number("FREEHOLD_TEST_READS", 0);
    double end = seconds_now() + test_seconds(2);
    CHECK(fh_option_set("defer", "4m") == 0, "no such option");
    for (int i = 0; i < PLACES; i++) atomic_store(&place[i], make());
    while (seconds_now() < end || atomic_load(&reads) < wanted) { /* threads come and go */
        atomic_store(&over, 0);
        for (uintptr_t i = 0; i < READERS + WRITERS; i++) {
            CHECK(pthread_create(&thread[i], NULL, i < READERS ? read_on : write_on, (void *)(i + 1)) == 0,
                  "no thread");
        }
        usleep(200000);
        CHECK(fh_defer_backlog() <= 4 << 20, "%zu bytes wait", fh_defer_backlog());
        atomic_store(&over, 1);
        for (int i = 0; i < READERS + WRITERS; i++) pthread_join(thread[i], NULL);
    }
    size_t left = fh_defer_barrier();
    CHECK(left == 0, "%zu bytes wait for nobody", left);
    CHECK(fh_verify() == 0, "the heap is damaged");
    CHECK(atomic_load(&reads) >= wanted, "%llu reads", (unsigned long long)atomic_load(&reads));
    printf("%llu reads, none of a freed block, %llu blocks deferred, %llu refusals\n",
           (unsigned long long)atomic_load(&reads), (unsigned long long)atomic_load(&deferred),
           (unsigned long long)atomic_load(&refused));
    return 0;
}
