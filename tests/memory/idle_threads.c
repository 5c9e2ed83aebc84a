/* Many threads that do little: 256 of them with 40 small blocks each, all alive and idle. Each costs 41 KiB at most, of which its
 * stack has 8 to 12 and its blocks 10. The least of three processes: threads that begin at once may bring a chunk too many, and a huge
 * page with it. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 256, BLOCKS = 40, PROCESSES = 3, MOST = 41 << 10 };

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

/* Bytes that became resident. */
static size_t with_threads(void) {
    pthread_t ids[THREADS];
    size_t before = resident_bytes();
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    pthread_barrier_init(&measured, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&ids[i], NULL, idle, (void *)i) == 0, "pthread_create");
    }
    pthread_barrier_wait(&filled);
    size_t grown = resident_bytes() - before;
    pthread_barrier_wait(&measured);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    return grown;
}

static size_t in_a_process(void) {
    int ends[2], status;
    size_t grown = 0;
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        grown = with_threads();
        _exit(write(ends[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
    }
    CHECK(child > 0 && read(ends[0], &grown, sizeof grown) == sizeof grown, "a child that measures");
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
    close(ends[0]);
    close(ends[1]);
    return grown;
}

int main(void) {
    size_t least = SIZE_MAX;
    for (int i = 0; i < PROCESSES; i++) {
        size_t grown = in_a_process();
        if (grown < least) least = grown;
    }
    printf("%d idle threads with %d blocks each: %zu bytes a thread resident, at most %d\n", THREADS, BLOCKS,
           least / THREADS, MOST);
    CHECK(least / THREADS >= 8192 + BLOCKS * 200, "stack and blocks alone are more than %zu bytes", least / THREADS);
    CHECK(least / THREADS <= MOST, "%zu bytes", least / THREADS);
    return 0;
}
