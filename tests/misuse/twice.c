/* How often a double free is found, and when: twice DISTANCE same|mixed|control THREADS TRIALS
 *
 * Each trial is a process of its own, with random blocks from a seed of its own. It frees a block, frees DISTANCE other blocks,
 * and frees the block again: from a second thread if THREADS is 2. Then it allocates and frees on, and its threads end. The
 * others have the block's size (same) or any up to 1,000 bytes (mixed). `control` is mixed without the second free.
 *
 * Prints the numbers of trials: CALL LATER CRASHED NEVER. trials.h says what they mean. */
#include "trials.h"

#include <pthread.h>
#include <string.h>

enum { MOST = 1000 };

static unsigned distance, threads;
static int mixed, control;
static void *volatile block;
static char *others[MOST];

static void *free_again(void *unused) {
    (void)unused;
    if (threads == 2) free(allocate(64)); /* it has a cache of its own by now */
    begin_fault();
    if (!control) free(block);
    end_fault();
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
        if (pthread_create(&second, NULL, free_again, NULL)) _exit(FAILED);
        pthread_join(second, NULL);
    } else {
        free_again(NULL);
    }
    replace(TURNS, 1000);
    return NULL;
}

static void trial(unsigned number) {
    seed = number * UINT64_C(0x9E3779B97F4A7C15) + distance;
    pthread_t thread;
    if (pthread_create(&thread, NULL, try_once, NULL)) _exit(FAILED);
    pthread_join(thread, NULL);
    replace(TURNS, 1000);
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    distance = (unsigned)strtoul(arguments[1], NULL, 10);
    mixed = strcmp(arguments[2], "same") != 0;
    control = strcmp(arguments[2], "control") == 0;
    threads = (unsigned)strtoul(arguments[3], NULL, 10);
    unsigned trials = (unsigned)strtoul(arguments[4], NULL, 10), found[OUTCOMES] = {0};
    if (distance > MOST || threads < 1 || threads > 2) return 2;
    if (!run_trials(trials, trial, found)) return 2;
    printf("%u %u %u %u\n", found[AT_CALL], found[LATER], found[CRASHED], found[NEVER]);
    return 0;
}
