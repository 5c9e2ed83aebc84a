/* Many threads, each of which takes a block of 33 to 256 KiB now and then. What their caches may hold of such blocks is an eighth of
 * what is in use, or 4 MiB, and 512 KiB of each thread in any case. Each once had 2 MiB, and a block or two of each size to
 * 64 KiB beside that. A thread that wants them again and again has them from its cache all the same. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/statistics.h"

#include <freehold/freehold.h>

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 16, KIB = 1 << 10, MIB = 1 << 20, LIVE = 4, TURNS = 3000, RING = 8, PAIRS = 100000, ATTEMPTS = 3 };

static pthread_barrier_t step;

static size_t now(const char *name) {
    static char text[1 << 17];
    CHECK(fh_stats_json(text, sizeof text) < sizeof text, "the statistics are longer than %zu bytes", sizeof text);
    return statistic(text, name);
}

/* Sizes at random: of the fifty classes there are, each is wanted rarely. */
static void *now_and_then(void *arg) {
    void *live[LIVE] = {NULL};
    uint64_t random = (uintptr_t)arg + 1;
    for (int i = 0; i < TURNS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        unsigned at = (unsigned)(random >> 33) % LIVE;
        size_t size = 33 * KIB + (size_t)(random >> 40) % (223 * KIB);
        t_free(live[at]);
        live[at] = t_malloc(size);
        CHECK(live[at], "malloc(%zu): NULL", size);
        memset(live[at], 1, size);
    }
    for (int i = 0; i < LIVE; i++) t_free(live[i]);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    return NULL;
}

/* One size, over and over. */
static void *again_and_again(void *arg) {
    void *ring[RING];
    size_t size = *(size_t *)arg;
    for (int i = 0; i < RING; i++) ring[i] = t_malloc(size);
    for (int i = 0; i < PAIRS; i++) {
        t_free(ring[i % RING]);
        ring[i % RING] = t_malloc(size);
        CHECK(ring[i % RING], "malloc(%zu): NULL", size);
    }
    for (int i = 0; i < RING; i++) t_free(ring[i]);
    return NULL;
}

/* Two threads at once, as the bound is meant for both. */
static size_t refills_of_two(size_t size) {
    pthread_t thread[2];
    size_t before = now("refills");
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&thread[i], NULL, again_and_again, &size) == 0, "no thread");
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    return now("refills") - before;
}

int main(void) {
    pthread_t thread[THREADS];
    pthread_barrier_init(&step, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&thread[i], NULL, now_and_then, (void *)i) == 0, "no thread");
    }
    pthread_barrier_wait(&step);
    size_t cached = now("thread_cached_bytes"), in_use = now("limit_in_use");
    size_t most = (in_use / 8 > 4 * (size_t)MIB ? in_use / 8 : 4 * (size_t)MIB) + THREADS * 512 * (size_t)KIB;
    printf("%d threads: %zu KiB cached of %zu in use, at most %zu and what is small\n", THREADS, cached >> 10,
           in_use >> 10, most >> 10);
    /* A thread that is interrupted between its look and its addition may exceed it by a bin. */
    CHECK(cached <= most + MIB, "%zu KiB cached, more than %zu", cached >> 10, most >> 10);
    pthread_barrier_wait(&step);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);

    for (size_t size = 33 * KIB; size <= MIB; size = size * 3 / 2 < MIB || size == MIB ? size * 3 / 2 : MIB) {
        size_t refills = 2 * PAIRS;
        /* More than once: on a busy machine one of the two may wait for long while the caches of the pair before have the room. */
        for (int k = 0; k < ATTEMPTS && refills >= PAIRS / 10; k++) refills = refills_of_two(size);
        printf("%zu KiB: %zu refills in %d pairs\n", size >> 10, refills, 2 * PAIRS);
        CHECK(refills < PAIRS / 10, "%zu KiB: %zu refills in %d pairs", size >> 10, refills, 2 * PAIRS);
    }
    puts("ok");
    return 0;
}
