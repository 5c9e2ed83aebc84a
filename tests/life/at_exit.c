/* The end of a process: atexit and on_exit handlers, destructors, threads that are still at work while exit runs,
 * and quick_exit, which runs its own handlers and no destructors. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

#include <pthread.h>
#include <sys/wait.h>

#ifdef T_SANITIZED /* a process takes a second and more */
enum { PROCESSES = 16 };
#else
enum { PROCESSES = 60 };
#endif

static void *kept[500];

static void use_heap(void) {
    for (size_t i = 0; i < 500; i++) {
        if (kept[i]) {
            CHECK(pattern_wrong(kept[i], i * 37, i) < 0, "block %zu changed", i);
            t_free(kept[i]);
        }
        kept[i] = t_malloc(i * 37);
        CHECK(kept[i], "malloc at exit: NULL");
        pattern_fill(kept[i], i * 37, i);
    }
}

static void on_exit_handler(int status, void *argument) {
    use_heap();
    CHECK(status == 5 && argument == kept, "on_exit(%d)", status);
}

/* exit() does not stop other threads: they allocate right through it, until the kernel ends them. */
static void *never_stops(void *argument) {
    for (size_t i = 0;; i++) {
        char *block = t_malloc(i % 5000);
        if (block && i % 5000) {
            block[0] = 1;
        }
        t_free(block);
    }
    return argument;
}

static void child(int how) {
    pthread_t thread;
    use_heap();
    atexit(use_heap);
    on_exit(on_exit_handler, kept);
    at_quick_exit(use_heap);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&thread, NULL, never_stops, NULL) == 0, "pthread_create");
    }
    usleep(2000);
    if (how == 0) {
        exit(5);
    }
    quick_exit(5);
}

__attribute__((destructor)) static void at_the_very_end(void) {
    use_heap();
    t_thread_flush();
}

int main(void) {
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork");
        if (pid == 0) {
            alarm(30); /* a deadlock is a failure, not a test that hangs */
            child(i % 2);
        }
        int status;
        waitpid(pid, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5, "process %d ended with status %#x", i, status);
    }
    printf("%d processes ended with threads at work\n", PROCESSES);
    return 0;
}
