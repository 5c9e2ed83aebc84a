/* One thread allocates large blocks and four others free them, as a runtime does whose collector has threads of its own. Once each
 * of those has asked for a block of each size, too: that is enough to get bins. What they keep of blocks that they never ask for
 * again waits for nobody, so after a while it must be little. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <pthread.h>

enum { FREERS = 4, SIZES = 24, ROUNDS = 40, BLOCKS = 8, MOST_KIB = 256 };

static void *handed[FREERS][SIZES][BLOCKS];
static pthread_barrier_t made, freed;

static size_t size_of(size_t i) {
    return 70000 + i * 12000;
}

static size_t cached_bytes(void) {
    static char text[200000];
    const char *place =
        fh_stats_json(text, sizeof text) < sizeof text ? strstr(text, "\"thread_cached_bytes\":") : NULL;
    CHECK(place != NULL, "no thread_cached_bytes among the figures");
    return strtoul(place + strlen("\"thread_cached_bytes\":"), NULL, 10);
}

static void *run(void *argument) {
    void *(*mine)[BLOCKS] = argument;
    for (size_t i = 0; i < SIZES; i++) t_free(t_malloc(size_of(i)));
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&made);
        for (size_t i = 0; i < SIZES; i++) {
            for (int b = 0; b < BLOCKS; b++) t_free(mine[i][b]);
        }
        pthread_barrier_wait(&freed);
    }
    pthread_barrier_wait(&made); /* its cache stays until the figures are read */
    return NULL;
}

int main(void) {
    pthread_t thread[FREERS];
    pthread_barrier_init(&made, NULL, FREERS + 1);
    pthread_barrier_init(&freed, NULL, FREERS + 1);
    for (int t = 0; t < FREERS; t++) CHECK(pthread_create(&thread[t], NULL, run, handed[t]) == 0, "no thread");
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < SIZES; i++) {
            for (int k = 0; k < FREERS * BLOCKS; k++) {
                void *p = t_malloc(size_of(i));
                CHECK(p, "malloc: NULL");
                handed[k / BLOCKS][i][k % BLOCKS] = p;
            }
        }
        pthread_barrier_wait(&made);
        pthread_barrier_wait(&freed);
    }
    fh_thread_flush(); /* its own cache, which is not the question */
    size_t kib = cached_bytes() / 1024;
    printf("%d threads that free large blocks of others keep %zu KiB\n", FREERS, kib);
    CHECK(kib <= MOST_KIB, "more than %d", MOST_KIB);
    pthread_barrier_wait(&made);
    for (int t = 0; t < FREERS; t++) pthread_join(thread[t], NULL);
    return 0;
}
