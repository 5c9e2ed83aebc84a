/* How much of the caller's stack the calls take. A coroutine often has 8 KiB, and a handler of signals no more than
 * SIGSTKSZ. What runs over such a stack damages what lies below it.
 *
 * Each step runs on a stack of its own that was filled before; what is changed afterwards was used. The steps lead into the
 * slow paths: growth, for which control groups are read, scattered blocks, moves, purges, trims and refusals. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { STACK = 256 << 10, FILL = 0xA5, MOST = 6 << 10, BLOCKS = 60000 };

static ucontext_t outside, inside;
static unsigned char *stack;
static void *block[BLOCKS];

/* ── Steps ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void mixed_sizes(void) {
    for (size_t i = 0; i < 4000; i++) block[i] = t_malloc(i * 37 % 70000 + 1);
    for (size_t i = 0; i < 4000; i++) t_free(block[i * 1777 % 4000]);
}

/* Small blocks of many slabs, freed in no order; a part of them stays, so that pages are purged between them. */
static void scattered(void) {
    for (size_t i = 0; i < BLOCKS; i++) block[i] = t_malloc(i % 3 ? 64 : 1500);
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t k = i * 7919 % BLOCKS;
        if (k % 61) t_free(block[k]);
    }
    for (size_t i = 0; i < BLOCKS; i += 61) t_free(block[i]);
}

static void moves(void) {
    char *p = t_malloc(3 << 20);
    for (size_t n = 3 << 20; n < (size_t)200 << 20; n *= 3) {
        p[n - 1] = 1;
        p = t_realloc(p, n * 3);
        CHECK(p, "realloc to %zu bytes", n * 3);
    }
    t_free(t_realloc(p, 100));
    t_free(t_calloc(1, 9 << 20));
}

static void trim(void) {
    t_malloc_trim(0);
}

static void refused(void) {
    const struct rlimit limit = {(rlim_t)300 << 20, (rlim_t)300 << 20};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    size_t n = 0;
    while (n < BLOCKS && (block[n] = t_malloc(10000)) != NULL) n++;
    CHECK(n < BLOCKS, "a limit of 300 MiB refuses nothing");
    while (n > 0) t_free(block[--n]);
}

/* ── How deep ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void run(void (*step)(void)) {
    memset(stack, FILL, STACK);
    CHECK(getcontext(&inside) == 0, "getcontext");
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    makecontext(&inside, step, 0);
    CHECK(swapcontext(&outside, &inside) == 0, "swapcontext");
}

static void measure(const char *name, void (*step)(void)) {
    size_t untouched = 0;
    run(step);
    while (untouched < STACK && stack[untouched] == FILL) untouched++;
    size_t taken = STACK - untouched;
    printf("%s: %zu bytes of stack\n", name, taken);
    CHECK(taken <= MOST, "%s: %zu bytes of stack, and %d are allowed", name, taken, MOST);
}

/* The limit is for a process of its own, and so is what is said of it. */
static void measure_refusal(void) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        CHECK(nowhere >= 0 && dup2(nowhere, 2) == 2, "/dev/null");
        measure("no memory", refused);
        fflush(stdout);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child that has no memory: status %d", status);
}

int main(void) {
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED, "mmap");
    measure_refusal(); /* first: later the heap has enough */
    measure("mixed sizes", mixed_sizes);
    measure("scattered blocks", scattered);
    measure("moves", moves);
    measure("trim", trim);
    measure("mixed sizes again", mixed_sizes);
    puts("ok");
    return 0;
}
