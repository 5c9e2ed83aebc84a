/* What glibc's tests ask of forks: handlers of pthread_atfork that allocate, forks in a signal handler that has interrupted
 * malloc or free, and forks beside threads that read lines and write out all streams. No child hangs, and none of the parent's
 * threads. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>

/* Of POSIX 2024, and of glibc since 2.34: a fork without handlers, which a signal handler may call. */
extern pid_t _Fork(void) __attribute__((weak));

enum { CHILD_SECONDS = 60 };

static atomic_bool stop;

static void wait_for(pid_t pid, int wanted) {
    int status = 0;
    CHECK(pid > 0, "fork: errno %d", errno);
    while (waitpid(pid, &status, 0) < 0) CHECK(errno == EINTR, "waitpid: errno %d", errno);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == wanted, "a child ended with status %#x", (unsigned)status);
}

/* ── Handlers that allocate ──────────────────────────────────────────────────────────────────────────────────────── */

static char *kept[3]; /* one for each kind of handler */
static atomic_uint handled;

static void replace(int which) {
    CHECK(!kept[which] || pattern_wrong(kept[which], 5000, (uint64_t)which) < 0, "a handler's block changed");
    t_free(kept[which]);
    kept[which] = t_malloc(5000);
    pattern_fill(kept[which], 5000, (uint64_t)which);
    t_free(t_realloc(t_calloc(1, 300), 2000000));
    atomic_fetch_add(&handled, 1);
}
static void prepare(void) {
    replace(0);
}
static void in_parent(void) {
    replace(1);
}
static void in_child(void) {
    replace(2);
}

static void *allocate(void *number) {
    uint64_t random = (uintptr_t)number;
    void *held[20] = {NULL};
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        void **place = &held[random_below(&random, 20)];
        t_free(*place);
        *place = t_malloc(random_below(&random, random_below(&random, 8) ? 3000 : 300000));
        if (random_below(&random, 200) == 0) usleep(200);
    }
    for (int i = 0; i < 20; i++) t_free(held[i]);
    return NULL;
}

static void handlers_allocate(void) {
    enum { THREADS = 3, FORKS = 16 };
    pthread_t ids[THREADS];
    CHECK(pthread_atfork(prepare, in_parent, in_child) == 0, "pthread_atfork");
    for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&ids[i], NULL, allocate, (void *)i) == 0, "no thread");
    for (int i = 0; i < FORKS; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(CHILD_SECONDS);
            CHECK(pattern_wrong(kept[2], 5000, 2) < 0, "the handler's block in the child");
            if (i % 8 == 0) {
                pid = fork();
                if (pid == 0) _exit(3);
                wait_for(pid, 3);
            }
            _exit(3);
        }
        wait_for(pid, 3);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    CHECK(atomic_load(&handled) >= 2 * FORKS, "%u calls of handlers", atomic_load(&handled));
}

/* ── In the handler of a signal ──────────────────────────────────────────────────────────────────────────────────── */

static volatile sig_atomic_t signals, within;

static void fork_at_once(int signal) {
    (void)signal;
    int saved = errno;
    pid_t pid = _Fork ? _Fork() : fork();
    if (pid == 0) _exit(3);
    wait_for(pid, 3);
    signals++;
    errno = saved;
}

/* A timer interrupts the calls, and so does each of some threads, as often as it is let. */
static pthread_t target;
static pthread_barrier_t turn;

static void *send_signals(void *none) {
    for (;;) {
        pthread_barrier_wait(&turn);
        if (atomic_load(&stop)) return none;
        pthread_kill(target, SIGUSR1);
    }
}

static void interrupted_calls(void) {
    enum { SENDERS = 3, ROUNDS = 30, BLOCKS = 101 };
    static char *blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    pthread_t ids[SENDERS];
    uint64_t random = random_seed();
    struct sigaction action = {.sa_handler = fork_at_once, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    target = pthread_self();
    atomic_store(&stop, false);
    pthread_barrier_init(&turn, NULL, SENDERS + 1);
    for (int i = 0; i < SENDERS; i++) CHECK(pthread_create(&ids[i], NULL, send_signals, NULL) == 0, "no thread");
    for (int round = 0; round < ROUNDS || within < 3; round++) {
        sig_atomic_t before = signals;
        pthread_barrier_wait(&turn);
        if (round % 7 == 0) fork_at_once(0); /* which may be interrupted too */
        for (int i = 0; i < 400 && signals - before < SENDERS; i++) {
            size_t k = random_below(&random, BLOCKS);
            sig_atomic_t now = signals;
            CHECK(!blocks[k] || pattern_wrong(blocks[k], sizes[k], k) < 0, "a block changed beside forks");
            t_free(blocks[k]);
            sizes[k] = random_below(&random, 70000);
            blocks[k] = t_malloc(sizes[k]);
            within += signals != now;
            pattern_fill(blocks[k], sizes[k], k);
        }
    }
    atomic_store(&stop, true);
    pthread_barrier_wait(&turn);
    for (int i = 0; i < SENDERS; i++) pthread_join(ids[i], NULL);
    for (size_t k = 0; k < BLOCKS; k++) t_free(blocks[k]);
    CHECK(signals >= ROUNDS, "%d forks in %d rounds", (int)signals, ROUNDS);
}

/* Where no lock can be held, the child of _Fork may allocate. glibc allows that only without threads. */
static void child_of_a_bare_fork(void) {
    enum { THREADS = 3, FORKS = 10 };
    pthread_t ids[THREADS];
    if (!_Fork || !t_is_freehold()) return;
    atomic_store(&stop, false);
    for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&ids[i], NULL, allocate, (void *)i) == 0, "no thread");
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = _Fork();
        if (pid == 0) {
            alarm(CHILD_SECONDS);
            for (size_t size = 1; size < 5000000; size *= 3) {
                char *block = t_calloc(1, size);
                CHECK(block && first_not_zero(block, size) < 0, "calloc(%zu) in the child of _Fork", size);
                t_free(block);
            }
            _exit(3);
        }
        wait_for(pid, 3);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
}

/* ── Beside streams ──────────────────────────────────────────────────────────────────────────────────────────────── */

enum { LINE = 50000, FORKERS = 2, EACH_FORKS = 12 };
static char path[] = "/tmp/freehold-forks-XXXXXX";
static atomic_uint forks;

static void *read_lines(void *none) {
    FILE *file = fopen(path, "r");
    CHECK(file, "fopen");
    while (!atomic_load(&stop)) {
        char *line = NULL;
        size_t room = 0;
        rewind(file);
        CHECK(getline(&line, &room, file) == LINE + 1, "getline");
        free(line);
        usleep(100); /* a fork waits for each stream that is in use */
    }
    fclose(file);
    return none;
}
static void *flush_all(void *none) {
    while (!atomic_load(&stop)) {
        fflush(NULL);
        usleep(100);
    }
    return none;
}
static void *fork_often(void *none) {
    for (int i = 0; i < EACH_FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(17);
        wait_for(pid, 17);
        atomic_fetch_add(&forks, 1);
    }
    return none;
}

static void beside_streams(void) {
    static void *(*const runs[])(void *) = {fork_often, fork_often, read_lines, read_lines, read_lines, flush_all};
    enum { ALL = sizeof runs / sizeof *runs };
    pthread_t ids[ALL];
    int descriptor = mkstemp(path);
    FILE *file = fdopen(descriptor, "w");
    CHECK(file, "mkstemp");
    for (int i = 0; i < LINE; i++) fputc('x', file);
    fputc('\n', file);
    CHECK(fclose(file) == 0, "fclose");
    atomic_store(&stop, false);
    for (int i = 0; i < ALL; i++) CHECK(pthread_create(&ids[i], NULL, runs[i], NULL) == 0, "no thread");
    for (int i = 0; i < FORKERS; i++) pthread_join(ids[i], NULL);
    atomic_store(&stop, true);
    for (int i = FORKERS; i < ALL; i++) pthread_join(ids[i], NULL);
    unlink(path);
    CHECK(atomic_load(&forks) == FORKERS * EACH_FORKS, "%u forks", atomic_load(&forks));
}

int main(void) {
    alarm(600); /* what is tested is that nothing hangs */
    beside_streams();
    interrupted_calls();
    child_of_a_bare_fork();
    atomic_store(&stop, false);
    handlers_allocate();
    CHECK(t_verify() == 0, "the heap is not whole");
    printf("%d forks in a signal handler, %d of them within malloc or free\n", (int)signals, (int)within);
    return 0;
}
