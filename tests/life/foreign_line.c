/* Two blocks of 8 bytes lie in one cache line, and one of them goes to another thread, which frees it and asks for one of its
 * own. If it got the same again, two threads would go on writing to one line for ever (passive false sharing, the benchmark
 * cache-scratch: 3.4 × the time). Where the thread runs is for the kernel to decide, so a fifth of the trials has to go
 * well; of those without the rule none does. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIALS = 20, LINE = 64, SIZE = 8 };

static atomic_int both_run, done;
static void *first, *second;

static uintptr_t line_of(const void *p) {
    return (uintptr_t)p / LINE;
}

static void *takes_over(void *unused) {
    (void)unused;
    atomic_store(&both_run, 1);
    t_free(second);
    void *own = t_malloc(SIZE);
    intptr_t shared = line_of(own) == line_of(first);
    t_free(own);
    atomic_store(&done, 1);
    return (void *)shared;
}

/* In a process of its own, as caches of ended threads are handed on with what they have learnt. */
static bool shares_a_line(void) {
    do {
        first = t_malloc(SIZE);
        second = t_malloc(SIZE);
        CHECK(first && second, "malloc: NULL");
    } while (line_of(first) != line_of(second));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, takes_over, NULL) == 0, "no thread");
    while (!atomic_load(&done)) continue;
    void *shared;
    pthread_join(thread, &shared);
    return shared != NULL;
}

int main(void) {
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return 0; /* nobody else to share a line with */
    int good = 0;
    for (int i = 0; i < TRIALS; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) _exit(shares_a_line() ? 1 : 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "a child died: %x", status);
        good += WEXITSTATUS(status) == 0;
    }
    printf("%d of %d threads got a line of their own\n", good, TRIALS);
    CHECK(good * 5 >= TRIALS, "threads are given lines that others write to");
    return 0;
}
