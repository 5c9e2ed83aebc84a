/* In what order a thread gets blocks that another thread has freed. If the two are near different processors, they come
 * without neighbours in a row, so that neither fetches ahead what the other is still writing; if they share one, and if it
 * has freed them itself, they come in a row, as whoever goes through them would have it. Handing over must lose
 * and double none: each block carries a stamp while it is live.
 *
 * Where threads really run is left to nobody: the linker leads the library's question for a processor's number here. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>

enum { BATCH = 1024, ROUNDS = 400, FIRST_COUNTED = 200 };
enum { HERE = 1, ELSEWHERE = 6 }; /* ELSEWHERE has another depot of its own, too */

static __thread unsigned near_now = HERE;

/* Takes the place of the library's own function: see -Wl,--wrap. */
unsigned __wrap_fh_system_cpu_hint(void);
unsigned __wrap_fh_system_cpu_hint(void) {
    return near_now;
}

static sem_t filled, emptied;
static uint64_t *batch[BATCH];

static void drop_all(void) {
    for (int i = 0; i < BATCH; i++) {
        CHECK(*batch[i] == (uintptr_t)batch[i], "block %d has lost its stamp", i);
        *batch[i] = 0;
        t_free(batch[i]);
    }
}

static void *consume(void *number) {
    near_now = *(const unsigned *)number;
    for (int round = 0; round < ROUNDS; round++) {
        sem_wait(&filled);
        drop_all();
        sem_post(&emptied);
    }
    return NULL;
}

/* Fills the batch; returns how many blocks lie beside the one before. */
static unsigned make_all(size_t size) {
    unsigned in_a_row = 0;
    for (int i = 0; i < BATCH; i++) {
        uint64_t *p = t_malloc(size);
        CHECK(p, "malloc: NULL");
        CHECK(*p != (uintptr_t)p, "block %d is handed out twice", i);
        *p = (uintptr_t)p;
        size_t apart = i ? (uintptr_t)p - (uintptr_t)batch[i - 1] : 0;
        in_a_row += apart == size || apart == 0 - size;
        batch[i] = p;
    }
    return in_a_row;
}

/* Per cent of blocks that came beside the one before. They are freed by a thread near that processor, or, with 0, by who
 * has made them. */
static unsigned rows(size_t size, unsigned freed_near) {
    pthread_t consumer;
    unsigned in_a_row = 0;
    if (freed_near) CHECK(pthread_create(&consumer, NULL, consume, &freed_near) == 0, "no thread");
    for (int round = 0; round < ROUNDS; round++) {
        unsigned now = make_all(size);
        if (round >= FIRST_COUNTED) in_a_row += now;
        if (freed_near) {
            sem_post(&filled);
            sem_wait(&emptied);
        } else {
            drop_all();
        }
    }
    if (freed_near) pthread_join(consumer, NULL);
    return in_a_row * 100 / ((ROUNDS - FIRST_COUNTED) * BATCH);
}

int main(void) {
    sem_init(&filled, 0, 0);
    sem_init(&emptied, 0, 0);
    static const size_t sizes[] = {16, 32, 64, 256};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t size = sizes[i];
        unsigned own = rows(size, 0), beside = rows(size, HERE), afar = rows(size, ELSEWHERE);
        printf("%zu bytes: in a row %u %% alone, %u %% freed on the same processor, %u %% on another\n", size, own,
               beside, afar);
        CHECK(own >= 75, "its own blocks of %zu bytes come in a row only %u times in 100", size, own);
        CHECK(beside >= 75, "blocks of %zu bytes freed on the same processor: in a row only %u times in 100", size,
              beside);
        if (size < 32) {
            CHECK(afar >= 75, "blocks of %zu bytes, four to a line, come in a row only %u times in 100", size, afar);
        } else {
            CHECK(afar <= 25, "blocks of %zu bytes from afar come in a row %u times in 100", size, afar);
        }
    }
    return 0;
}
