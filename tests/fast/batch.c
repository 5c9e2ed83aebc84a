/* fh_malloc_batch and fh_free_batch: every block is one of its own, in any mix with single calls, sizes and threads; and a double
 * free within a batch is found. */
#include <freehold/freehold.h>

#include "../support/check.h"
#include "../support/processes.h"

#include <pthread.h>
#include <signal.h>

enum { MOST = 700, ROUNDS = 400 };

static void shuffle(void **blocks, size_t n, uint64_t *seed) {
    for (size_t i = n; i > 1; i--) {
        size_t j = random_below(seed, i);
        void *p = blocks[i - 1];
        blocks[i - 1] = blocks[j];
        blocks[j] = p;
    }
}

static void *rounds(void *thread) {
    uint64_t seed = (uintptr_t)thread;
    void *blocks[2 * MOST];
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t held = 0;
        for (int part = 0; part < 2; part++) {
            size_t n = random_below(&seed, 8) ? random_below(&seed, 300) : random_below(&seed, 20000);
            size_t count = random_below(&seed, MOST);
            CHECK(fh_malloc_batch(n, count, blocks + held) == count, "fewer than %zu blocks of %zu bytes", count, n);
            for (size_t i = held; i < held + count; i++) {
                CHECK(blocks[i] && fh_malloc_usable_size(blocks[i]) >= n && (uintptr_t)blocks[i] % 16 == 0,
                      "block %zu of %zu", i, n);
                memset(blocks[i], 0, n);
                if (n >= sizeof i) memcpy(blocks[i], &i, sizeof i);
            }
            for (size_t i = held, seen; n >= sizeof i && i < held + count; i++) {
                memcpy(&seen, blocks[i], sizeof seen);
                CHECK(seen == i, "block %zu was given out as block %zu too", i, seen);
            }
            held += count;
        }
        if (round % 3 == 0) shuffle(blocks, held, &seed);
        if (held && round % 5 == 0) { /* some by themselves, and a NULL in their place */
            for (size_t i = 0; i < held; i += 7) {
                fh_free(blocks[i]);
                blocks[i] = NULL;
            }
        }
        errno = 11;
        fh_free_batch(blocks, held);
        CHECK(errno == 11, "errno is %d", errno);
    }
    return NULL;
}

static void borders(void) {
    void *blocks[4] = {NULL, NULL, NULL, NULL};
    fh_free_batch(blocks, 4);
    fh_free_batch(NULL, 0);
    CHECK(fh_malloc_batch(10, 0, NULL) == 0, "no blocks are some");
    CHECK(fh_malloc_batch(0, 4, blocks) == 4 && blocks[0] != blocks[1] && blocks[3], "blocks of 0 bytes");
    fh_free_batch(blocks, 4);
    CHECK(fh_malloc_batch((size_t)3 << 20, 4, blocks) == 4, "large blocks");
    fh_free_batch(blocks, 4);
    errno = 0;
    CHECK(fh_malloc_batch(SIZE_MAX / 2, 4, blocks) == 0 && errno == ENOMEM, "blocks that there cannot be: errno %d",
          errno);
}

enum { TWICE = 11 };

/* Block `places` % TWICE is in the batch once more, in place `places` / TWICE, wherever that is among those that are put together. */
static void twice(void *places) {
    void *blocks[TWICE];
    for (int i = 0; i < 100; i++) fh_free(fh_malloc(64));
    if (fh_malloc_batch(64, TWICE, blocks) != TWICE) _exit(3);
    blocks[(uintptr_t)places / TWICE] = blocks[(uintptr_t)places % TWICE];
    fh_free_batch(blocks, TWICE);
#if FH_STRESS /* magazines of two blocks: where the first of the two has left the thread, the check of the heap finds it */
    fh_thread_flush();
    if (fh_verify() != 0) abort();
#endif
}

int main(void) {
    pthread_t thread[4];
    borders();
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, rounds, (void *)(i + 1)) == 0, "no thread");
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    CHECK(fh_verify() == 0, "the heap is damaged");
    for (uintptr_t places = 0; places < (uintptr_t)TWICE * TWICE; places++) {
        if (places % TWICE >= places / TWICE) continue;
        int status = run_in_child(twice, (void *)places);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
              "a block that is in a batch in places %zu and %zu: status %#x", (size_t)places % TWICE,
              (size_t)places / TWICE, (unsigned)status);
    }
    return 0;
}
