/* What stays of many threads that end at once, and in the child of a fork that leaves them behind, held against one thread
 * that did the same work.
 *
 *     one thread     has the blocks of all at once, frees them and ends
 *     at once        200 threads with 300 blocks each; all of them free these and end together, six times
 *     in a child     200 threads have freed theirs and live on; the process forks, and the child takes in what they have cached
 *
 * What stays is what the library counts as in use, and as free with memory behind it, after a second in which some slow paths
 * were taken. It is held to what one thread leaves, and what may be parked. With purge=eager, because memory that was used
 * again five times over would else be kept free for the sixth (refault credit), which is another test's matter.
 *
 * The program is also linked with twins of the library that keep the caches of ended threads, or of a fork's orphans. There it
 * must fail. */
#include "../support/check.h"

#include "base/tuning.h"
#include "freehold/freehold.h"
#include "store/events.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

enum { THREADS = 200, BLOCKS = 300, ROUNDS = 6, CHILD_SECONDS = 60 };

/* Caches that wait for the next threads, and the slabs that their blocks keep. */
static const size_t parked = FH_SHARDS * FH_PARKED_BYTES, slack = 2 * FH_MIB;

static size_t size_of(unsigned i) {
    static const size_t sizes[] = {24, 64, 100, 160, 256, 400, 700, 1000, 1600, 2500, 4000, 6000};
    return sizes[i % (sizeof sizes / sizeof sizes[0])];
}

static void allocate(void **block, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        CHECK((block[i] = fh_malloc(size_of(i))) != NULL, "no memory");
        memset(block[i], 1, size_of(i));
    }
}

static void release(void **block, unsigned count) {
    for (unsigned i = 0; i < count; i++) fh_free(block[i]);
}

/* Time passes, which is when caches that shrink and free memory that fades would go. */
static size_t what_stays(void) {
    for (int i = 0; i < 4; i++) {
        usleep(300000);
        for (int k = 0; k < 64; k++) fh_free(fh_malloc(20000));
        fh_thread_flush();
    }
    return fh_used_bytes() + fh_dirty_bytes();
}

/* ── One thread, and many ────────────────────────────────────────────────────────────────────────────────────────── */

static pthread_barrier_t together;
static bool live_on;

static void *work_for_all(void *none) {
    static void *block[THREADS * BLOCKS];
    allocate(block, THREADS * BLOCKS);
    release(block, THREADS * BLOCKS);
    return none;
}

static void *work(void *none) {
    void *block[BLOCKS];
    allocate(block, BLOCKS);
    pthread_barrier_wait(&together);
    release(block, BLOCKS);
    pthread_barrier_wait(&together);
    if (live_on) pthread_barrier_wait(&together);
    return none;
}

static pthread_t thread[THREADS];

static void begin_all(void) {
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, work, NULL) == 0, "no thread");
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
}

static void join_all(void) {
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

/* ── The child of a fork ─────────────────────────────────────────────────────────────────────────────────────────── */

static void hold_child_to(size_t most) {
    pid_t pid = fork();
    if (pid == 0) {
        alarm(CHILD_SECONDS);
        size_t stays = what_stays();
        printf("in the child of a fork: %zu KiB\n", stays >> 10);
        fflush(stdout);
        CHECK(stays <= most, "%zu KiB stay in the child of a fork, and %zu at most should", stays >> 10, most >> 10);
        _exit(0);
    }
    int status = 0;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child ended with status %#x",
          (unsigned)status);
}

int main(void) {
    pthread_barrier_init(&together, NULL, THREADS + 1);
    CHECK(fh_option_set("purge", "eager") == 0, "purge=eager");
    CHECK(pthread_create(&thread[0], NULL, work_for_all, NULL) == 0, "no thread");
    pthread_join(thread[0], NULL);
    size_t one = what_stays(), most = one + parked + slack;
    printf("one thread: %zu KiB\n", one >> 10);
    for (int round = 0; round < ROUNDS; round++) {
        begin_all();
        join_all();
    }
    size_t many = what_stays();
    printf("%d threads, %d times: %zu KiB\n", THREADS, ROUNDS, many >> 10);
    fflush(stdout);
    CHECK(many <= most, "%zu KiB stay of %d threads that ended at once, and %zu at most should", many >> 10, THREADS,
          most >> 10);
    live_on = true;
    begin_all();
    hold_child_to(most);
    pthread_barrier_wait(&together);
    join_all();
    return 0;
}
