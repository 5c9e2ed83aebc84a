/* Many threads that do little: 256 of them with 40 small blocks each, all alive and idle, may cost 22 MiB in all. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <pthread.h>

enum { THREADS = 256, BLOCKS = 40 };

static pthread_barrier_t filled, measured;

static void *idle(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = random_below(&random, 500) + 1;
        blocks[i] = t_malloc(size);
        CHECK(blocks[i], "malloc(%zu): NULL", size);
        memset(blocks[i], 1, size);
    }
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&measured);
    for (int i = 0; i < BLOCKS; i++) {
        t_free(blocks[i]);
    }
    return NULL;
}

int main(void) {
    pthread_t ids[THREADS];
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    pthread_barrier_init(&measured, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&ids[i], NULL, idle, (void *)i) == 0, "pthread_create");
    }
    pthread_barrier_wait(&filled);
    size_t resident = resident_bytes();
    pthread_barrier_wait(&measured);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    printf("%d idle threads with %d blocks each: resident %.1f MiB\n", THREADS, BLOCKS, (double)resident / 1048576);
    CHECK(resident <= (size_t)22 << 20, "%zu KiB; 22 MiB are the most", resident >> 10);
    return 0;
}
