/* Two blocks of 8 bytes lie in one cache line, and one of them goes to another thread, which frees it and asks for one of its
 * own. If it got the same again, two threads would go on writing to one line for ever (passive false sharing, the benchmark
 * cache-scratch: 3.4 × the time). The two are kept apart by the number that the kernel gives to each processor on which the
 * process runs, so only trials count in which the two had different ones: on a busy machine, where they run in turn, that
 * is one in some dozens. A fifth of those that count has to go well; of those without the rule none does. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIALS = 20, ATTEMPTS = 1000, LEAST = 5, LINE = 64, SIZE = 8 };
enum { OWN_LINE, SAME_LINE, SAME_NUMBER };

static atomic_int both_run, made, done;
static void *first, *second;
static unsigned number_of_first;

static uintptr_t line_of(const void *p) {
    return (uintptr_t)p / LINE;
}

/* Binds the calling thread to the processor of that number among those that the process may use. False: there is none. */
static bool run_on(int number, const cpu_set_t *allowed) {
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, allowed) || number-- > 0) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        return sched_setaffinity(0, sizeof one, &one) == 0;
    }
    return false;
}

static cpu_set_t allowed;

/* The number by which the library tells where a thread runs: see fh_system_cpu_hint. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

static bool has_number(void) {
    return &__rseq_offset && &__rseq_size && __rseq_size;
}

static unsigned number_here(void) {
    enum { FEATURES = 27, PROCESSOR = 4, DENSE = 24, WITH_DENSE = 28 };
    ptrdiff_t field = getauxval(FEATURES) >= WITH_DENSE ? DENSE : PROCESSOR;
    return *(const volatile uint32_t *)((const char *)__builtin_thread_pointer() + __rseq_offset + field);
}

static void *takes_over(void *unused) {
    (void)unused;
    run_on(1, &allowed);
    atomic_store(&both_run, 1);
    while (!atomic_load(&made)) continue;
    unsigned number = number_here();
    t_free(second);
    void *own = t_malloc(SIZE);
    bool apart = number_here() == number && number != number_of_first;
    intptr_t result = !apart ? SAME_NUMBER : line_of(own) == line_of(first) ? SAME_LINE : OWN_LINE;
    t_free(own);
    atomic_store(&done, 1);
    return (void *)result;
}

/* In a process of its own, as caches of ended threads are handed on with what they have learnt. */
static int trial(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, takes_over, NULL) == 0, "no thread");
    run_on(0, &allowed);
    while (!atomic_load(&both_run)) continue;
    do {
        number_of_first = number_here();
        first = t_malloc(SIZE);
        second = t_malloc(SIZE);
        CHECK(first && second, "malloc: NULL");
    } while (line_of(first) != line_of(second) || number_here() != number_of_first);
    atomic_store(&made, 1);
    while (!atomic_load(&done)) continue;
    void *result;
    pthread_join(thread, &result);
    return (int)(intptr_t)result;
}

int main(void) {
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "no mask");
    if (CPU_COUNT(&allowed) < 2) {
        skip_test("one processor only: nobody else to share a line with");
    }
    if (!has_number()) {
        skip_test("this system gives no number of the processor");
    }
    int good = 0, counted = 0;
    for (int i = 0; i < ATTEMPTS && counted < TRIALS; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) _exit(trial());
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "a child died: %x", status);
        good += WEXITSTATUS(status) == OWN_LINE;
        counted += WEXITSTATUS(status) != SAME_NUMBER;
    }
    printf("%d of %d threads got a line of their own\n", good, counted);
    if (counted < LEAST) {
        skip_test("the kernel does not run two threads at once, or gives both one number");
    }
    CHECK(good * 5 >= counted, "threads are given lines that others write to");
    return 0;
}
