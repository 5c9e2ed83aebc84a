// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread has lines of the near blocks, and then releases what another one has allocated in lines that have the same places.
#include <pthread.h>
#include <stdlib.h>

enum { NEAR = 64, FAR = 65, LINES = 100 };

static void *volatile far_block[LINES], *volatile near_block[LINES];
static pthread_barrier_t barrier;

static void *other(void *none) {
    for (int i = 0; i < LINES; i++) {
        near_block[i] = malloc(NEAR); // each line is this thread's, with a stamp
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < LINES; i++) {
        free(far_block[i]);
    }
    return none;
}

int main(void) {
    pthread_t thread;
    void *volatile first = malloc(NEAR); // the region is this thread's until the other one comes
    void *volatile one = malloc(FAR);    // the lines of the two regions are side by side from here on
    if (pthread_barrier_init(&barrier, NULL, 2) != 0 || pthread_create(&thread, NULL, other, NULL) != 0) {
        return 1;
    }
    pthread_barrier_wait(&barrier);
    void *volatile young = malloc(NEAR); // a stamp, which is younger than the other thread's
    for (int i = 0; i < LINES; i++) {
        far_block[i] = malloc(FAR);
    }
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    free(first);
    free(one);
    free(young);
    return 0;
}
