// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread has notes of the near blocks, and then releases what another one has allocated whose notes have the same places.
#include <pthread.h>
#include <stdlib.h>

enum { NEAR = 64, FAR = 65, BLOCKS = 100 };

static void *volatile far_block[BLOCKS], *volatile near_block[BLOCKS];
static pthread_barrier_t barrier;

static void *other(void *none) {
    for (int i = 0; i < BLOCKS; i++) {
        near_block[i] = malloc(NEAR); // each note is this thread's
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < BLOCKS; i++) {
        free(far_block[i]);
    }
    return none;
}

int main(void) {
    pthread_t thread;
    void *volatile first = malloc(NEAR); // the region is this thread's until the other one comes
    void *volatile one = malloc(FAR);    // so is this one, until the other thread frees there
    if (pthread_barrier_init(&barrier, NULL, 2) != 0 || pthread_create(&thread, NULL, other, NULL) != 0) {
        return 1;
    }
    pthread_barrier_wait(&barrier);
    void *volatile young = malloc(NEAR); // a stamp, which is younger than the other thread's
    for (int i = 0; i < BLOCKS; i++) {
        far_block[i] = malloc(FAR);
    }
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    free(first);
    free(one);
    free(young);
    return 0;
}
