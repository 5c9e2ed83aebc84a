/* Parts of a test in processes of their own: what one part has allocated is not there for the next. */
#ifndef FREEHOLD_TESTS_PROCESSES_H
#define FREEHOLD_TESTS_PROCESSES_H

#include "check.h"

#include <errno.h>
#include <sys/wait.h>

/* Where a part writes its result: behind the standard three. */
enum { RESULT_FILE = 3 };

__attribute__((unused)) static void give_result(const void *result, size_t length) {
    CHECK(write(RESULT_FILE, result, length) == (ssize_t)length, "the result cannot be written");
}

/* Runs this program again with the arguments `part` and `number`. The new process calls give_result once. */
__attribute__((unused)) static void run_part(const char *part, size_t number, void *result, size_t length) {
    char digits[32];
    int pipes[2], status;
    snprintf(digits, sizeof digits, "%zu", number);
    fflush(stdout);
    CHECK(pipe(pipes) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        dup2(pipes[1], RESULT_FILE);
        execl("/proc/self/exe", program_invocation_short_name, part, digits, (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    ssize_t got = read(pipes[0], result, length);
    close(pipes[0]);
    CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
    CHECK(status == 0, "%s %zu ended with status %#x", part, number, (unsigned)status);
    CHECK(got == (ssize_t)length, "%s %zu gave %zd bytes of its result", part, number, got);
}

/* Runs a function in a child and returns how that ended, as waitpid says it. A child that hangs gets SIGALRM. */
__attribute__((unused)) static int run_in_child(void (*part)(void *), void *argument) {
    int status;
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        alarm(60);
        part(argument);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
    return status;
}

/* Runs a part of a test in a child, which has to end well. */
__attribute__((unused)) static void run_apart(const char *name, void (*part)(void)) {
    int status;
    printf("%s\n", name);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        part();
        fflush(stdout);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
    CHECK(status == 0, "%s: the process ended with %#x", name, (unsigned)status);
}

#endif
