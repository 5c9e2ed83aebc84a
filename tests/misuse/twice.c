/* How often a double free is found, and when: twice DISTANCE same|mixed|control THREADS TRIALS
 *
 * Each trial is a process of its own, with random blocks from a seed of its own. It frees a block, frees DISTANCE other blocks,
 * and frees the block again: from a second thread if THREADS is 2. Then it allocates and frees on, and its threads end. The
 * others have the block's size (same) or any up to 1,000 bytes (mixed). `control` is mixed without the second free.
 *
 * A trial ends by SIGABRT, SIGILL or SIGTRAP: found at the call, or later. By another signal, or without an end: crashed. Or it goes on to its end:
 * never. Prints the numbers of trials: CALL LATER CRASHED NEVER. For any allocator: only names of the C library are called. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELD = 1500, MOST = 1000, TURNS = 20000 };
enum { BEFORE, CALLING, AFTER };

static atomic_int *where; /* the trial is, for the parent */
static unsigned distance, threads;
static int mixed, control;
static uint64_t seed;
static void *volatile block;
static char *held[HELD];
static char *others[MOST];

static unsigned below(unsigned n) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % n;
}

static char *allocate(size_t size) {
    char *p = malloc(size);
    if (!p) _exit(3);
    p[0] = 1;
    return p;
}

static void replace(unsigned turns, unsigned most) {
    for (unsigned i = 0; i < turns; i++) {
        char **one = &held[below(HELD)];
        free(*one);
        *one = allocate(1 + below(most));
    }
}

static void *free_again(void *unused) {
    (void)unused;
    if (threads == 2) free(allocate(64)); /* it has a cache of its own by now */
    atomic_store(where, CALLING);
    if (!control) free(block);
    atomic_store(where, AFTER);
    return NULL;
}

static void *try_once(void *unused) {
    (void)unused;
    size_t size = mixed ? 1 + below(1000) : 64;
    replace(below(5000), 1000);
    block = allocate(size);
    for (unsigned i = 0; i < distance; i++) others[i] = allocate(mixed ? 1 + below(1000) : size);
    replace(below(50), 1000);
    free(block);
    for (unsigned i = 0; i < distance; i++) free(others[i]);
    pthread_t second;
    if (threads == 2) {
        if (pthread_create(&second, NULL, free_again, NULL)) _exit(3);
        pthread_join(second, NULL);
    } else {
        free_again(NULL);
    }
    replace(TURNS, 1000);
    return NULL;
}

static _Noreturn void trial(unsigned number) {
    seed = number * UINT64_C(0x9E3779B97F4A7C15) + distance;
    pthread_t thread;
    if (pthread_create(&thread, NULL, try_once, NULL)) _exit(3);
    pthread_join(thread, NULL);
    replace(TURNS, 1000);
    exit(0);
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    distance = (unsigned)strtoul(arguments[1], NULL, 10);
    mixed = strcmp(arguments[2], "same") != 0;
    control = strcmp(arguments[2], "control") == 0;
    threads = (unsigned)strtoul(arguments[3], NULL, 10);
    unsigned trials = (unsigned)strtoul(arguments[4], NULL, 10), found[4] = {0};
    if (distance > MOST || threads < 1 || threads > 2) return 2;
    where = mmap(NULL, sizeof *where, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (where == MAP_FAILED) return 2;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    for (unsigned i = 0; i < trials; i++) {
        atomic_store(where, BEFORE);
        pid_t child = fork();
        int status;
        if (child == 0) {
            close(2);                                      /* the messages of thousands */
            setrlimit(RLIMIT_CPU, &(struct rlimit){1, 2}); /* a list that was made a ring has no end */
            trial(i);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) return 2;
        int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        if (signal == SIGABRT || signal == SIGILL || signal == SIGTRAP) {
            found[atomic_load(where) == CALLING ? 0 : 1]++;
        } else if (signal) {
            found[2]++;
        } else if (WEXITSTATUS(status) == 0) {
            found[3]++;
        } else {
            return 2;
        }
    }
    printf("%u %u %u %u\n", found[0], found[1], found[2], found[3]);
    return 0;
}
