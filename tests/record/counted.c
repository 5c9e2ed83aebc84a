// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts its own calls of the allocator and prints them, for record.rs and flight.rs: counted MODE [THREADS]
//
//     threads   THREADS threads allocate, resize and release, and hand blocks to the next one
//     fork      a child does 1,000 calls of its own
//     kill      as threads; dies by SIGKILL at once after the last call
//     abort     as threads; dies by abort
//     fork-kill as fork; child and parent die by SIGKILL
//     pass      THREADS threads put blocks into shared places and release what was there, and have blocks of their own
//     loop      nothing but pairs, as many as THREADS says
//     loop-kill as loop; dies by SIGKILL
//     wait      as threads; then waits for the end of its input
//
// The figures on stdout are those of the calls made between the start of main and the printing.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EACH = 2000, HANDED = 100, PASSED = 60000, PLACES = 64 };

static _Atomic long mallocs, callocs, reallocs, aligneds, frees, trims, started;
static void *_Atomic handed[1024][HANDED];

static void *allocate(size_t size) {
    mallocs++;
    return malloc(size);
}

static void release(void *block) {
    frees++;
    free(block);
}

static void *work(void *argument) {
    long me = (long)argument;
    unsigned seed = (unsigned)me;
    void *live[64] = {0};
    for (int i = 0; i < EACH; i++) {
        void **at = &live[rand_r(&seed) % 64];
        size_t size = 1 + rand_r(&seed) % 5000;
        if (*at == NULL) {
            switch (i % 3) {
            case 0:
                *at = allocate(size);
                break;
            case 1:
                callocs++;
                *at = calloc(1, size);
                break;
            default:
                aligneds++;
                *at = aligned_alloc(64, (size + 63) & ~(size_t)63);
            }
        } else if (i % 5 == 0) {
            reallocs++;
            *at = realloc(*at, size);
        } else {
            release(*at);
            *at = NULL;
        }
    }
    for (int i = 0; i < 64; i++) {
        if (live[i] != NULL) {
            release(live[i]);
        }
    }
    for (int i = 0; i < HANDED; i++) {
        void *old = atomic_exchange(&handed[(me + 1) % 1024][i], allocate(100));
        if (old != NULL) {
            release(old);
        }
        void *mine = atomic_exchange(&handed[me % 1024][i], NULL);
        if (mine != NULL) {
            release(mine);
        }
    }
    return NULL;
}

// Counts at the end: nothing but the exchange keeps two threads in step.
static void *pass(void *argument) {
    unsigned seed = (unsigned)(long)argument;
    long allocated = 0, released = 0;
    for (int i = 0; i < PASSED; i++) {
        unsigned place = rand_r(&seed) % PLACES;
        void *own = malloc(16 + place * 8), *old = atomic_exchange(&handed[0][place], malloc(16 + place * 8));
        allocated += 2;
        free(own);
        released++;
        if (old != NULL) {
            free(old);
            released++;
        }
    }
    mallocs += allocated;
    frees += released;
    return NULL;
}

static void run_threads(void *(*work)(void *), long count) {
    pthread_t *threads = allocate((size_t)count * sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 131072);
    for (long i = 0; i < count; i++) {
        if (pthread_create(&threads[i], &small, work, (void *)i) != 0) {
            abort();
        }
        started++;
    }
    for (long i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    release(threads);
    trims++;
    malloc_trim(0);
}

static void say(void) {
    char line[256];
    int n =
        snprintf(line, sizeof line,
                 "{\"malloc\": %ld, \"calloc\": %ld, \"realloc\": %ld, \"aligned\": %ld, \"free\": %ld, \"trim\": %ld, "
                 "\"thread-start\": %ld}\n",
                 mallocs, callocs, reallocs, aligneds, frees, trims, started);
    (void)!write(STDOUT_FILENO, line, (size_t)n);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "threads";
    long count = argc > 2 ? atol(argv[2]) : 4;
    if (strncmp(mode, "loop", 4) == 0) {
        for (long i = 0; i < count; i++) {
            release(allocate(1 + (size_t)(i & 255)));
        }
    } else {
        run_threads(strcmp(mode, "pass") == 0 ? pass : work, count);
    }
    bool killed = strstr(mode, "kill") != NULL;
    if (strncmp(mode, "fork", 4) == 0) {
        pid_t child = fork();
        for (int i = 0; child == 0 && i < 500; i++) {
            free(malloc(24));
        }
        if (child == 0 && killed) {
            raise(SIGKILL);
        }
        if (child == 0) {
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    say();
    if (killed) {
        raise(SIGKILL);
    }
    if (strcmp(mode, "abort") == 0) {
        abort();
    }
    char byte;
    while (strcmp(mode, "wait") == 0 && read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
