// SPDX-License-Identifier: MIT OR Apache-2.0
// Starts one measured program and says what it cost: launcher FD MILLISECONDS LIBRARY PROGRAM [ARGUMENT...]
//
// FD            where the answer goes, one line of JSON
// MILLISECONDS  when the program is killed; 0 means never
// LIBRARY       becomes LD_PRELOAD of the program; "-" means none, "=PATH" puts the path into BENCH_PRELOAD instead, for
//               a script that decides by itself which of its programs gets the library
//
// Why a program of its own: the kernel's figure for peak memory (ru_maxrss) survives exec, so a child of the harness,
// which has hundreds of megabytes of results and page cache behind it, would report the harness's peak as its own. This
// one is linked statically and never calls malloc, so its own peak is a few pages, below that of any program.
//
// The program leads a process group of its own, and the whole group is killed when it ends, so that a server which a
// script forgot cannot spoil the runs that follow, nor keep the pipes open.
#define _GNU_SOURCE 1

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// What the launcher answers when it could not do its work at all; the shell's own number for "cannot execute".
enum { CANNOT_RUN = 126 };

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static long long microseconds(struct timeval t) {
    return (long long)t.tv_sec * 1000000 + t.tv_usec;
}

// In the child: a group of its own, no input, the library, and away. The answer's descriptor must not leak into the
// program, else the harness would wait for whoever inherits it.
static void become(char **arguments, const char *library, int answer) {
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDONLY);
    if (null > 0) {
        if (answer != 0) {
            close(answer);
        }
        dup2(null, 0);
        close(null);
    }
    if (library[0] == '=') {
        setenv("BENCH_PRELOAD", library + 1, 1);
    } else if (strcmp(library, "-") != 0) {
        setenv("LD_PRELOAD", library, 1);
    }
    execvp(arguments[0], arguments);
    dprintf(2, "launcher: cannot start %s: %s\n", arguments[0], strerror(errno));
    _exit(CANNOT_RUN);
}

// Waits for the child or for the end of its time. A signal to the launcher itself (the harness was interrupted) ends the
// child as well. Returns how it went, in the words that the harness expects.
static const char *wait_for(pid_t child, long long limit_ns, const sigset_t *watched, int *status, struct rusage *use) {
    const char *ended_by = NULL;
    long long end = now_ns() + limit_ns;
    for (;;) {
        pid_t got = wait4(child, status, WNOHANG, use);
        if (got == child) {
            break;
        }
        struct timespec left = {3600, 0};
        if (limit_ns > 0) {
            long long rest = end - now_ns();
            if (rest <= 0 && ended_by == NULL) {
                ended_by = "timeout";
                kill(-child, SIGKILL);
            }
            rest = rest > 0 ? rest : 100000000;
            left = (struct timespec){rest / 1000000000, rest % 1000000000};
        }
        int signal = sigtimedwait(watched, NULL, &left);
        if ((signal == SIGTERM || signal == SIGINT) && ended_by == NULL) {
            ended_by = "interrupted";
            kill(-child, SIGKILL);
        }
    }
    // Whatever the program left behind goes with it.
    kill(-child, SIGKILL);
    if (ended_by != NULL) {
        return ended_by;
    }
    return WIFSIGNALED(*status) ? "signalled" : "exited";
}

int main(int argc, char **argv) {
    if (argc < 5) {
        dprintf(2, "usage: launcher FD MILLISECONDS LIBRARY PROGRAM [ARGUMENT...]\n");
        return CANNOT_RUN;
    }
    int answer = atoi(argv[1]);
    long long limit_ns = atoll(argv[2]) * 1000000;

    // The signals are blocked before the child exists, so that none is lost between fork and wait.
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGINT);
    sigprocmask(SIG_BLOCK, &watched, NULL);

    long long begin = now_ns();
    pid_t child = fork();
    if (child < 0) {
        dprintf(2, "launcher: fork: %s\n", strerror(errno));
        return CANNOT_RUN;
    }
    if (child == 0) {
        become(argv + 4, argv[3], answer);
    }
    setpgid(child, child);

    int status = 0;
    struct rusage use;
    memset(&use, 0, sizeof use);
    const char *how = wait_for(child, limit_ns, &watched, &status, &use);
    long long wall = now_ns() - begin;
    int code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    dprintf(answer,
            "{\"how\":\"%s\",\"code\":%d,\"wall_ns\":%lld,\"user_us\":%lld,\"system_us\":%lld,\"peak_rss\":%lld,"
            "\"minor_faults\":%ld,\"major_faults\":%ld,\"switches_voluntary\":%ld,\"switches_forced\":%ld}\n",
            how, code, wall, microseconds(use.ru_utime), microseconds(use.ru_stime), (long long)use.ru_maxrss * 1024,
            use.ru_minflt, use.ru_majflt, use.ru_nvcsw, use.ru_nivcsw);
    return 0;
}
