// SPDX-License-Identifier: MIT OR Apache-2.0
// What programs do rarely, while they are recorded: odd nulls|alone|thrd, or odd crowd THREADS.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

static void pairs(int count) {
    for (int i = 0; i < count; i++) {
        void *volatile block = malloc(16 + (size_t)i % 100);
        free(block);
    }
}

// A call that is refused, and then releases of nothing.
static int nulls(void) {
    volatile size_t huge = PTRDIFF_MAX;
    void *volatile none = malloc(huge);
    for (int i = 0; i < 2000; i++) {
        free(none);
        pairs(1);
    }
    return none != NULL;
}

static pthread_barrier_t barrier;

static void *one(void *unused) {
    void *volatile block = malloc(100);
    pthread_barrier_wait(&barrier);
    free(block);
    return unused;
}

// More threads than the recorder has room for live at once.
static int crowd(unsigned threads) {
    pthread_t *all = calloc(threads, sizeof *all);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&all[i], &small, one, NULL) != 0) {
            return 2;
        }
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(all[i], NULL);
    }
    free(all);
    return 0;
}

// A child by _Fork, which nobody else is told of.
static int alone(void) {
    void *volatile block = malloc(1000);
    pid_t child = _Fork();
    if (child == 0) {
        pairs(20000);
        _exit(0);
    }
    pairs(500);
    int status = 1;
    waitpid(child, &status, 0);
    free(block);
    return status;
}

static int begins(void *unused) {
    pairs(10);
    return unused != NULL;
}

static int threads_of_c11(void) {
    thrd_t all[10];
    for (int i = 0; i < 10; i++) {
        if (thrd_create(&all[i], begins, NULL) != thrd_success) {
            return 2;
        }
    }
    for (int i = 0; i < 10; i++) {
        int answer = 1;
        if (thrd_join(all[i], &answer) != thrd_success || answer != 0) {
            return 3;
        }
    }
    return 0;
}

int main(int count, char **argument) {
    const char *what = count > 1 ? argument[1] : "";
    if (strcmp(what, "nulls") == 0) {
        return nulls();
    }
    if (strcmp(what, "alone") == 0) {
        return alone();
    }
    if (strcmp(what, "thrd") == 0) {
        return threads_of_c11();
    }
    return count > 2 ? crowd((unsigned)atoi(argument[2])) : 1;
}
