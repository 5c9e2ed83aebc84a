/* Threads ask for more than a limit leaves, as fast as they can, and are refused, rightly. Whoever asks meanwhile for what there
 * is room for gets it, each time: a refusal holds nothing, not even for a moment. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <freehold/freehold.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MIB = 1 << 20, LIMIT = 256, HELD = 100, TOO_MUCH = 200, WANTED = 40, PIECE = 32000, ROUNDS = 20, THREADS = 2 };

static atomic_bool stop;
static atomic_ulong refusals;

static void *ask(void *argument) {
    while (!atomic_load(&stop)) {
        void *p = t_malloc((size_t)TOO_MUCH * MIB);
        CHECK(!p, "%d MiB although %d of %d are in use", TOO_MUCH, HELD, LIMIT);
        atomic_fetch_add(&refusals, 1);
    }
    return argument;
}

int main(void) {
    enum { PIECES = WANTED * MIB / PIECE };
    static void *pieces[PIECES];
    pthread_t ids[THREADS];
    CHECK(fh_limit_set(0, (size_t)LIMIT * MIB, NULL) == 0, "fh_limit_set");
    void *held = t_malloc((size_t)HELD * MIB);
    CHECK(held, "no memory for %d MiB", HELD);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&ids[i], NULL, ask, NULL) == 0, "pthread_create");
    while (atomic_load(&refusals) == 0) sched_yield();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PIECES; i++) {
            pieces[i] = t_malloc(PIECE);
            CHECK(pieces[i], "round %d, piece %d: NULL with %d MiB of room", round, i, LIMIT - HELD - WANTED);
        }
        for (int i = 0; i < PIECES; i++) t_free(pieces[i]);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    printf("%lu refusals, and none of them in the way\n", atomic_load(&refusals));
    t_free(held);
    CHECK(t_verify() == 0, "the heap is not whole");
    return 0;
}
