// SPDX-License-Identifier: MIT OR Apache-2.0
// The trivial process: one small block, then the end. What an allocator costs a program that hardly needs
// one, in private dirty memory and in start-up time. With n= the program starts itself that many times, one
// after another, and the figure is the processor time of a start, exec and loader included; the children
// inherit LD_PRELOAD.
//
// Arguments: n= starts (0: only this process and its memory).
#include "bench.h"

#include <spawn.h>
#include <sys/wait.h>

static const struct bench_variant variants[] = {
    {"hello-memory", "n=0", "quick"},
    {"hello-start", "n=300", "quick"},
    {"hello-start-long", "n=2000", "full"},
};

extern char **environ;

static uint64_t one_block(void) {
    void *block = bench_take(100, 7);
    return bench_give(block, 100, 7);
}

// The clock of the header counts this process alone; children are added by hand.
static void start_many(uint64_t count) {
    char self[] = "/proc/self/exe", argument[] = "n=0";
    char *arguments[] = {self, argument, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    bench_clock_start();
    for (uint64_t i = 0; i < count; i++) {
        pid_t child;
        int status = 0;
        if (posix_spawn(&child, self, &actions, NULL, arguments, environ) != 0 || waitpid(child, &status, 0) != child) {
            bench_fail("hello: cannot start itself");
        }
        if (status != 0) {
            bench_fail("hello: child ended with status %d", status);
        }
    }
    bench_clock_stop(count);
    struct rusage use;
    getrusage(RUSAGE_CHILDREN, &use);
    bench_clock.user += bench_seconds(use.ru_utime);
    bench_clock.system += bench_seconds(use.ru_stime);
    posix_spawn_file_actions_destroy(&actions);
}

int main(int argc, char **argv) {
    BENCH_START(argc, argv, variants);
    uint64_t count = bench_arg("n", 0), check;
    if (count != 0) {
        start_many(count);
        check = one_block() + count;
    } else {
        bench_clock_start();
        check = one_block();
        bench_clock_stop(1);
        bench_moment("hello");
    }
    bench_live(100);
    return bench_finish(check);
}
