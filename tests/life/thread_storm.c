/* Very many threads: 100,000 over time, a few at once, each allocating and leaving blocks for others to free; and
 * 1,000 at once.  What a dead thread's cache held must be used again, or memory grows with every thread that ever was.
 *
 * FREEHOLD_TEST_THREADS overrides the number (a sanitizer makes each thread a hundred times dearer). */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/pattern.h"

#include <pthread.h>
#include <stdatomic.h>

enum { AT_ONCE = 8, BLOCKS = 40, POST = 512 };

static _Atomic(void *) post[POST];

/* Forty blocks: half are freed, half are left in the post, where they replace one that a dead thread made. */
static void *short_life(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument * 77;
    char *blocks[BLOCKS];
    size_t sizes[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        sizes[i] = random_below(&random, 2000) + 8;
        blocks[i] = t_malloc(sizes[i]);
        CHECK(blocks[i], "malloc(%zu): NULL", sizes[i]);
        pattern_fill(blocks[i], sizes[i], sizes[i]);
    }
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(pattern_wrong(blocks[i], sizes[i], sizes[i]) < 0, "a block of %zu changed", sizes[i]);
        if (i % 2) {
            t_free(blocks[i]);
        } else {
            t_free(atomic_exchange(&post[random_below(&random, POST)], blocks[i]));
        }
    }
    return NULL;
}

static void threads_over_time(size_t count) {
    pthread_t ids[AT_ONCE];
    size_t early = 0;
    for (size_t made = 0; made < count; made += AT_ONCE) {
        for (size_t i = 0; i < AT_ONCE; i++) {
            CHECK(pthread_create(&ids[i], NULL, short_life, (void *)(made + i)) == 0, "thread %zu", made + i);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            pthread_join(ids[i], NULL);
        }
        if (made / AT_ONCE % 256 == 0) {
            CHECK(t_verify() == 0, "the heap is not whole after %zu threads", made);
        }
        if (made / AT_ONCE == count / AT_ONCE / 2) {
            early = resident_bytes();
        }
    }
    size_t late = resident_bytes();
    printf("%zu threads: resident %zu KiB after half of them, %zu KiB after all\n", count, early / 1024, late / 1024);
#ifndef T_SANITIZED
    /* The caches of all classes fill up to their bounds, some MiB, in the first tens of thousands; what a thread leaves
     * for good would be added by each of them. A sanitizer keeps notes of its own on every thread that ever was. */
    CHECK(late <= early + early / 5 + (6 << 20), "memory grows with every thread");
#else
    skip_part("what is resident is mostly the sanitizer's: not asked whether memory grows with every thread");
#endif
}

static pthread_barrier_t everybody;

static void *wait_for_all(void *argument) {
    void *block = t_malloc(100);
    CHECK(block, "malloc: NULL");
    memset(block, 1, 100);
    pthread_barrier_wait(&everybody);
    short_life(argument);
    pthread_barrier_wait(&everybody);
    t_free(block);
    return NULL;
}

static void threads_at_once(size_t count) {
    pthread_t *ids = t_malloc(count * sizeof *ids);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    pthread_barrier_init(&everybody, NULL, (unsigned)count);
    for (size_t i = 0; i < count; i++) {
        int result = pthread_create(&ids[i], &small, wait_for_all, (void *)i);
        CHECK(result == 0, "thread %zu of %zu at once: %s", i, count, strerror(result));
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(ids[i], NULL);
    }
    t_free(ids);
    CHECK(t_verify() == 0, "the heap is not whole");
    printf("%zu threads at once\n", count);
}

int main(void) {
    size_t count = env_number("FREEHOLD_TEST_THREADS", 100000);
    threads_over_time(count);
    threads_at_once(count < 1000 ? count : 1000);
    return 0;
}
