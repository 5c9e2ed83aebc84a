/* Any allocator in the simulation of caches: threads that free and allocate one block each in turn, under a tool that records
 * loads and stores. Such a tool does not say which thread they are of, so each thread stores to a byte of its own before it
 * calls the allocator, and to another one after: recorded.py, which runs this, tells them apart by these marks.
 *
 *     recorded THREADS TURNS
 *
 * Compiled without Freehold; the allocator comes by LD_PRELOAD. */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 64, LIVE = 200 };

typedef struct {
    sem_t turn, done;
    uint64_t seed;
    unsigned number;
    void *block[LIVE];
} worker;

static worker workers[MOST];
static unsigned threads, turns;
/* A store to mark[i]: what follows is thread i's. To mark[MOST]: nobody's. */
static volatile char mark[4096] __attribute__((aligned(4096)));

static uint64_t below(uint64_t *state, uint64_t n) {
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (*state >> 33) % n;
}

static void *work(void *argument) {
    worker *w = argument;
    for (unsigned i = 0; i < turns; i++) {
        sem_wait(&w->turn);
        void **place = &w->block[below(&w->seed, LIVE)];
        size_t size = 16 + below(&w->seed, 240);
        mark[w->number] = 1;
        free(*place);
        void *p = malloc(size);
        mark[MOST] = 1;
        *place = p;
        sem_post(&w->done);
    }
    return NULL;
}

int main(int count, char **argument) {
    if (count != 3) return 2;
    threads = (unsigned)atoi(argument[1]), turns = (unsigned)atoi(argument[2]);
    if (threads < 1 || threads > MOST) return 2;
    pthread_t thread[MOST];
    fprintf(stderr, "MARK %lx\n", (unsigned long)(uintptr_t)mark);
    for (unsigned i = 0; i < threads; i++) {
        workers[i].number = i, workers[i].seed = i + 1;
        sem_init(&workers[i].turn, 0, 0);
        sem_init(&workers[i].done, 0, 0);
        if (pthread_create(&thread[i], NULL, work, &workers[i]) != 0) return 1;
    }
    for (unsigned k = 0; k < turns; k++) {
        for (unsigned i = 0; i < threads; i++) {
            sem_post(&workers[i].turn);
            sem_wait(&workers[i].done);
        }
    }
    for (unsigned i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    return 0;
}
