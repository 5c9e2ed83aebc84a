/* Three leaks among a million blocks: what `freehold leaks` has to find, and what it must not call one.
 * The argument is for how long it runs at least, in seconds, with 150,000 blocks in each on the average; then it prints
 * "ready", and goes on until its input ends. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
#define CACHE 4000
#define QUEUE 512

static void *volatile sink;
/* volatile, because nobody reads it, and a compiler that sees that leaves it out: then the blocks are lost indeed. */
static char *volatile cache[CACHE];
static char *queue[QUEUE];
static unsigned filled, turn;

/* Whoever writes to a block keeps the compiler from leaving it out. */
static char *used(char *block) {
    block[0] = 1;
    sink = block;
    return block;
}

/* Leak 1: steadily. */
NOINLINE void leak_session(void) {
    used(malloc(400));
}

/* Leak 2: small blocks, through a function of the C library. */
NOINLINE void leak_name(void) {
    used(strdup("a name that nobody frees"));
}

/* Leak 3: one block of two hundred that this function asks for; the others are freed at once. */
NOINLINE void handle_request(unsigned number) {
    char *request = used(malloc(600));
    if (number % 200 != 0) {
        free(request);
    }
}

/* No leak: grows in the first third of the time, and stops. */
NOINLINE void fill_cache(unsigned wanted) {
    while (filled < wanted && filled < CACHE) {
        cache[filled++] = used(malloc(1000));
    }
}

/* No leak: each block lives until the queue has gone round. */
NOINLINE void turn_queue(void) {
    free(queue[turn % QUEUE]);
    queue[turn++ % QUEUE] = used(malloc(2000));
}

NOINLINE void short_lived(void) {
    free(used(malloc(48 + (turn & 63))));
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    const double length = argc > 1 ? atof(argv[1]) : 3, begin = now();
    double said = 0;
    for (unsigned number = 0;; number++) {
        const double part = (now() - begin) / length;
        if (part >= 1 && number >= length * 1900 && said == 0) {
            puts("ready");
            fflush(stdout);
            said = 1;
        }
        if (number % 8 == 0) {
            leak_session();
            /* Volatile, so that the compiler does not make six call sites of it. */
            for (volatile int i = 0; i < 6; i++) {
                leak_name();
            }
        }
        for (int i = 0; i < 40; i++) {
            handle_request(number * 40 + (unsigned)i);
            short_lived();
        }
        fill_cache((unsigned)(part * 3 * CACHE));
        turn_queue();
        struct pollfd input = {.fd = 0, .events = POLLIN};
        if (poll(&input, 1, 0) == 1 && said != 0) {
            return 0;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}
