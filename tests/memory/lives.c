/* Threads that come and go, one after the other. Each gets the cache that the last one has parked. What such a cache may hold grows
 * with what a thread does, and it once grew over all lives: of many small random swings it kept the largest. Resident memory of a
 * program with a thread for each request went on growing for a million of them.
 *
 *     one large life    its cache is parked with up to 1 MiB
 *     small lives       they want ten blocks each, and what else is in the cache goes within some of them
 *     swings            lives of random demand: their caches keep what most of them want, and not the most that one has wanted
 *     equal lives       what each of them wants stays: they hardly go to the slabs */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/statistics.h"

#include <freehold/freehold.h>

#include <pthread.h>
#include <stdlib.h>

enum { KIB = 1 << 10, SIZE = 200, CLASSES = 32, MOST = 4000, SMALL_LIVES = 200, SWINGS = 4000, EQUAL_LIVES = 500 };

typedef struct {
    size_t size; /* of the first block, and 16 more of each that follows, up to `classes` of them */
    unsigned classes, blocks;
    uint64_t seed; /* 0: of each size in turn */
} life;

static size_t now(const char *name) {
    static char text[1 << 17];
    CHECK(fh_stats_json(text, sizeof text) < sizeof text, "the statistics are longer than %zu bytes", sizeof text);
    return statistic(text, name);
}

static void *live(void *arg) {
    static void *block[MOST];
    const life *l = arg;
    uint64_t random = l->seed;
    for (unsigned i = 0; i < l->blocks; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        unsigned k = l->seed ? (unsigned)(random >> 33) : i;
        block[i] = t_malloc(l->size + 16 * (k % l->classes));
        CHECK(block[i], "no memory");
    }
    for (unsigned i = 0; i < l->blocks; i++) t_free(block[i]);
    return NULL;
}

static void one(life l) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, live, &l) == 0, "no thread");
    CHECK(pthread_join(thread, NULL) == 0, "not joined");
}

int main(void) {
    one((life){SIZE, 1, MOST, 0});
    size_t large = now("thread_cached_bytes");
    CHECK(large >= 64 * KIB, "%zu bytes in the cache of a life of %d blocks", large, MOST);
    for (int i = 0; i < SMALL_LIVES; i++) one((life){SIZE, 1, 10, 0});
    size_t small = now("thread_cached_bytes");
    printf("a large life leaves %zu KiB, %d small ones %zu\n", large >> 10, SMALL_LIVES, small >> 10);
    CHECK(small <= 16 * KIB, "%zu bytes cached after %d lives of ten blocks of %d", small, SMALL_LIVES, SIZE);

    size_t swings = 0;
    for (unsigned i = 0; i < SWINGS; i++) {
        one((life){16, CLASSES, 10 * CLASSES, i + 1});
        size_t cached = now("thread_cached_bytes");
        if (cached > swings) swings = cached;
    }
    size_t of_life = 10 * CLASSES * (16 + 16 * CLASSES / 2);
    printf("at most %zu KiB after one of %d lives that swing, each of which wants %zu\n", swings >> 10, SWINGS,
           of_life >> 10);
    CHECK(swings <= 4 * of_life, "%zu bytes cached where lives want %zu", swings, of_life);

    size_t before = now("refills");
    for (int i = 0; i < EQUAL_LIVES; i++) one((life){1000, 1, 30, 0});
    size_t refills = now("refills") - before;
    printf("%d equal lives: %zu refills\n", EQUAL_LIVES, refills);
    CHECK(refills <= EQUAL_LIVES, "%zu refills in %d equal lives", refills, EQUAL_LIVES);
    return 0;
}
