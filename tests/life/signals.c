/* Signals that arrive inside malloc and free, thousands a second, with handlers that do not allocate: they change
 * floating-point registers and use much stack.  On the way every byte is checked. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

enum { THREADS = 4, HELD = 500 };

static atomic_bool stop;
static _Atomic uint64_t signals;
static pthread_t ids[THREADS];

/* Keeps errno, as a handler must; what it does to registers and stack, the kernel undoes. */
static void handler(int number) {
    int saved = errno;
    volatile char stack[4096];
    volatile double value = (double)number;
    for (int i = 0; i < 4096; i += 64) {
        stack[i] = (char)i;
        value = value * 1.5 + stack[i];
    }
    atomic_fetch_add_explicit(&signals, 1, memory_order_relaxed);
    errno = saved + (value > 1e300 && value < 0);
}

static void *allocate(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 5;
    struct {
        char *block;
        size_t size;
        uint64_t key;
    } held[HELD] = {{NULL, 0, 0}};
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        for (int turn = 0; turn < 100; turn++) {
            uint64_t i = random_below(&random, HELD);
            if (held[i].block) {
                CHECK(pattern_wrong(held[i].block, held[i].size, held[i].key) < 0, "a block of %zu changed",
                      held[i].size);
                errno = 77;
                t_free(held[i].block);
                CHECK(errno == 77, "free changed errno to %d", errno);
            }
            held[i].size = random_below(&random, turn == 0 ? 300000 : 2000);
            held[i].key = random_next(&random);
            held[i].block = turn % 3 ? t_malloc(held[i].size) : t_calloc(1, held[i].size);
            CHECK(held[i].block, "%zu bytes: NULL", held[i].size);
            pattern_fill(held[i].block, held[i].size, held[i].key);
        }
    }
    for (int i = 0; i < HELD; i++) {
        t_free(held[i].block);
    }
    return NULL;
}

int main(void) {
    double seconds = test_seconds(3);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&ids[i], NULL, allocate, (void *)i) == 0, "pthread_create");
    }
    struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, NULL);
    double until = seconds_now() + seconds;
    while (seconds_now() < until) {
        for (int i = 0; i < THREADS; i++) {
            pthread_kill(ids[i], SIGUSR1);
        }
        struct timespec pause = {0, 100000};
        nanosleep(&pause, NULL);
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    uint64_t count = atomic_load(&signals);
    CHECK(t_verify() == 0, "the heap is not whole");
    CHECK(count > 100, "only %llu signals came", (unsigned long long)count);
    printf("%llu signals arrived in %d allocating threads\n", (unsigned long long)count, THREADS);
    return 0;
}
