/* Trials of a fault, each a process of its own, for twice.c and faults.c. Only names of the C library are called.
 *
 * A trial that ends by SIGABRT, SIGILL or SIGTRAP was found by the allocator; so was one that goes on after a message on the
 * standard error. One that ends by another signal, or does not end, crashed. The rest go on to their end: never found. */
#ifndef TRIALS_H
#define TRIALS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELD = 1500, TURNS = 20000 };
enum { BEFORE, CALLING, AFTER };
enum { AT_CALL, LATER, CRASHED, NEVER, OUTCOMES };
enum { FAILED = 3 };

/* Where the trial is, for its parent; and whether a message was out when the fault's own call returned. */
struct stage {
    atomic_int where, said;
};

static struct stage *stage;
static int stops_count; /* a signal of the processor at the fault is its finding */
static uint64_t seed;
static char *held[HELD];

static unsigned below(unsigned n) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % n;
}

static char *allocate(size_t size) {
    char *p = malloc(size);
    if (!p) _exit(FAILED);
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

static int has_said(void) {
    struct stat file;
    return fstat(2, &file) == 0 && file.st_size > 0;
}

/* The fault is between these two. */
static void begin_fault(void) {
    atomic_store(&stage->where, CALLING);
}

static void end_fault(void) {
    atomic_store(&stage->said, has_said());
    atomic_store(&stage->where, AFTER);
}

static int judge(int status, int messages) {
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0, at_call = atomic_load(&stage->where) == CALLING;
    struct stat file;
    int said = fstat(messages, &file) == 0 && file.st_size > 0;
    if (signal == SIGABRT || signal == SIGILL || signal == SIGTRAP) return at_call ? AT_CALL : LATER;
    if ((signal == SIGSEGV || signal == SIGBUS) && at_call && stops_count) return AT_CALL;
    if (!signal && WEXITSTATUS(status) == FAILED) return -1;
    if (said) return at_call || atomic_load(&stage->said) ? AT_CALL : LATER;
    return signal || WEXITSTATUS(status) ? CRASHED : NEVER;
}

/* Adds to found. False if a trial could not be made. */
static int run_trials(unsigned trials, void (*trial)(unsigned number), unsigned found[OUTCOMES]) {
    stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int messages = memfd_create("messages", 0);
    if (stage == MAP_FAILED || messages < 0) return 0;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    for (unsigned i = 0; i < trials; i++) {
        atomic_store(&stage->where, BEFORE);
        atomic_store(&stage->said, 0);
        if (ftruncate(messages, 0) || lseek(messages, 0, SEEK_SET)) return 0;
        pid_t child = fork();
        int status;
        if (child == 0) {
            if (dup2(messages, 2) != 2) _exit(FAILED);
            setrlimit(RLIMIT_CPU, &(struct rlimit){2, 3}); /* a list that was made a ring has no end */
            trial(i);
            exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) return 0;
        int outcome = judge(status, messages);
        if (outcome < 0) return 0;
        found[outcome]++;
    }
    return 1;
}

#endif
