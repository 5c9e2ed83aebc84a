/* A bit of everything, and the check of the heap after each part: threads that pass blocks of all sizes on and end, caches
 * that are taken over, refusals, huge blocks that are kept and used again, holes that guests come and go in.
 *
 * The program is also linked with twins of the library that have one small fault each (CMakeLists.txt). There it must fail,
 * and the check must name the equation that is broken. */
#include "../support/whole.h"

#include "base/classes.h"
#include "store/events.h"
#include "store/holes.h"
#include "store/window.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = 3, THREADS = 6, HELD = 400, POST = 64, STEPS = 6000 };

static _Atomic(void *) post[POST];
static pthread_barrier_t all; /* of the crowd: they have their caches, and then they end, together */

static size_t random_size(uint64_t *random) {
    static const size_t most[] = {64, 64, 256, 1024, 1024, 8192, 70000, 400000};
    return 1 + random_below(random, most[random_below(random, sizeof most / sizeof most[0])]);
}

/* Every third block that goes is left for another thread to free. */
static void drop(uint64_t *random, void *block) {
    if (random_below(random, 3) == 0) block = atomic_exchange(&post[random_below(random, POST)], block);
    fh_free(block);
}

static void *work(void *number) {
    uint64_t random = (uintptr_t)number;
    void *held[HELD] = {NULL};
    fh_free(fh_malloc(1));
    pthread_barrier_wait(&all);
    for (int i = 0; i < STEPS; i++) {
        void **one = &held[random_below(&random, HELD)];
        if (*one) {
            drop(&random, *one);
            *one = NULL;
        } else {
            *one = fh_malloc(random_size(&random));
            CHECK(*one, "no memory");
        }
        if (i % 2000 == 1999) fh_thread_flush();
    }
    for (int i = 0; i < HELD; i++) fh_free(held[i]);
    pthread_barrier_wait(&all);
    return NULL;
}

static void run_crowd(unsigned round) {
    pthread_t thread[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(round * THREADS + i + 1)) == 0, "no thread");
    }
    for (unsigned i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < POST; i++) fh_free(atomic_exchange(&post[i], NULL));
    check_whole_and_empty();
}

/* A thread that takes over the cache of one that has ended. Nobody else runs. */
static void *look_around(void *unused) {
    (void)unused;
    fh_free(fh_malloc(48));
    check_whole_and_empty();
    return NULL;
}

static void run_heir(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, look_around, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    check_whole_and_empty();
}

/* Runs and huge blocks until the limit refuses one of either. */
static void meet_limit(void) {
    static void *held[256];
    unsigned n = 0, refused = 0;
    CHECK(fh_limit_set(0, 64 * FH_MIB, NULL) == 0, "the limit is not set");
    for (unsigned i = 0; i < 2; i++) {
        while (n < 256 && (held[n] = fh_malloc(i ? FH_MIB : 3 * FH_MIB)) != NULL) n++;
        refused += n < 256;
    }
    CHECK(refused == 2, "a limit of 64 MiB refused %u sizes of 2, after %u blocks", refused, n);
    while (n > 0) fh_free(held[--n]);
    CHECK(fh_limit_set(0, 0, NULL) == 0, "the limit stays");
    check_whole_and_empty();
}

/* Huge blocks out of the cache, and not only the most recent one. */
static void reuse_huge(void) {
    void *held[3];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) held[i] = fh_malloc(4 * FH_MIB + (size_t)i * 4096);
        for (int i = 0; i < 3; i++) fh_free(held[i]);
        check_whole_and_empty();
    }
}

/* The long block that was freed last is kept for the next one of its length, and for no other. */
static void reuse_last(void) {
    char *first = fh_malloc(3 * FH_MIB);
    CHECK(first && fh_verify() == 0, "the heap is not whole with a long block");
    fh_free(first);
    CHECK(fh_kept_slots() == 48 && fh_verify() == 0, "%zu slots of 48 are kept, or the heap is not whole",
          fh_kept_slots());
    char *again = fh_malloc(3 * FH_MIB - 4096), *other = fh_malloc(3 * FH_MIB);
    CHECK(again == first && other && other != first, "3 MiB at %p again, and %p beside them", (void *)again,
          (void *)other);
    CHECK(fh_verify() == 0, "the heap is not whole");
    fh_free(other);
    fh_free(again);
    check_whole_and_empty();
    fh_free(fh_malloc(2 * FH_MIB));
    check_whole_and_empty();
}

enum { OWNERS = 4000, GUESTS = 200 };

/* One block in eight stays in the slabs of 96 bytes; guests of three and more of them come and go. */
static void fill_holes(void) {
    static void *owner[OWNERS], *guest[GUESTS];
    unsigned c = fh_class_of(96), opened = 0;
    for (int i = 0; i < OWNERS; i++) owner[i] = fh_malloc(96);
    for (int i = 0; i < OWNERS; i++) {
        if (i % 8) fh_free(owner[i]);
    }
    fh_thread_flush();
    uint64_t state;
    for (size_t slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE; slot++) {
        if (fh_state_kind(state) == c) opened += fh_holes_open(slot, c);
    }
    fh_add_relaxed(&fh_order.cold_rounds, 1); /* the order to look for holes once more */
    unsigned n = fh_holes_take(fh_class_of(272), GUESTS, guest);
    CHECK(opened && n, "%u slabs are open to %u guests", opened, n);
    CHECK(fh_verify() == 0, "the heap is not whole");
    while (n > 0) fh_free(guest[--n]);
    CHECK(fh_verify() == 0, "the heap is not whole");
    for (int i = 0; i < OWNERS; i += 8) fh_free(owner[i]);
    check_whole_and_empty();
}

/* What is due is done at the end of a slow path, once. */
static void do_what_is_due(void) {
    fh_set_due(FH_DUE_REFAULT);
    fh_free(fh_malloc(2 * FH_MIB));
    CHECK(!(fh_load(&fh_due) & FH_DUE_REFAULT), "what is due stays due: %#llx", (unsigned long long)fh_load(&fh_due));
}

int main(void) {
    pthread_barrier_init(&all, NULL, THREADS);
    fh_free(fh_malloc(1));
    fill_holes(); /* while there is nothing else: later, blocks of its sizes may come out of holes themselves */
    for (unsigned round = 0; round < ROUNDS; round++) {
        run_crowd(round);
        run_heir();
        reuse_huge();
        reuse_last();
        meet_limit();
        do_what_is_due();
        fh_malloc_trim(0);
        check_whole_and_empty();
    }
    printf("%u rounds, and the heap is whole\n", ROUNDS);
    return 0;
}
