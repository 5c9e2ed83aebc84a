/* The quarantine of checked blocks by itself: threads put and, at its bound, take, so that the end runs close behind the beginning.
 * At rest a drain must find every block that is still in it. */
#include "../support/check.h"

#include "base/settings.h"
#include "misuse/quarantine.h"

#include <pthread.h>

#define THREADS 4
#define PUTS 60000u /* of each; fewer than the places of the ring, so that a lap hides nothing */

static unsigned left;

static void leave(fh_checked *h) {
    CHECK(h->size == 16, "not a block");
    __atomic_fetch_add(&left, 1, __ATOMIC_RELAXED);
}

static void *puts_many(void *blocks) {
    fh_checked *h = blocks;
    for (unsigned i = 0; i < PUTS / THREADS; i++) {
        h[i].size = 16;
        fh_quarantine_put(&h[i], leave);
        if (i % 1000 == 0) fh_quarantine_drain(leave);
    }
    return NULL;
}

static fh_checked block[THREADS][PUTS / THREADS] __attribute__((aligned(16)));

int main(void) {
    CHECK(fh_quarantine_start(), "no memory");
    fh_store(&fh_settings.quarantine, 100);
    double until = seconds_now() + test_seconds(0);
    for (unsigned turn = 1; turn <= 2 || seconds_now() < until; turn++) {
        pthread_t thread[THREADS];
        for (unsigned i = 0; i < THREADS; i++)
            CHECK(!pthread_create(&thread[i], NULL, puts_many, block[i]), "no thread");
        for (unsigned i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
        fh_quarantine_drain(leave);
        unsigned put = turn * (PUTS / THREADS) * THREADS;
        CHECK(left == put, "%u blocks were put, and %u have left", put, left);
    }
    return 0;
}
