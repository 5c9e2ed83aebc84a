/* One mistake with a block for each case, in a process of its own: watched CASE. What watches it (memcheck, AddressSanitizer) is to
 * name the mistake, and the function that it is in; and in the cases that are none it is to be silent. watched.py compares.
 *
 * With T_EMBED the blocks are those of the fh_ functions. */
#include "../support/alloc.h"

#include <pthread.h>
#include <string.h>

static char *volatile block; /* volatile: the compiler may not reason about what we do to it */
static char *volatile other;
static volatile int sink;

__attribute__((noinline)) void allocates(size_t n) {
    block = t_malloc(n);
}
__attribute__((noinline)) void frees(void) {
    t_free(block);
}
__attribute__((noinline)) void reads(long at) {
    sink = block[at];
}
__attribute__((noinline)) void writes(long at) {
    block[at] = 1;
}
__attribute__((noinline)) void decides(long at) {
    if (block[at]) sink = 1;
}

/* ── Mistakes ── */

static void read_freed(size_t n) {
    allocates(n);
    memset(block, 1, n);
    frees();
    for (int i = 0; i < (n > 100000 ? 3 : 50); i++) t_free(t_malloc(n)); /* its memory is not used again at once */
    reads((long)n / 2);
}
static void read_freed_small(void) {
    read_freed(40);
}
static void read_freed_run(void) {
    read_freed(100000);
}
static void read_freed_large(void) {
    read_freed((size_t)3 << 20);
}
static void read_freed_aligned(void) {
    block = t_aligned_alloc(4096, 100);
    frees();
    reads(0);
}
static void read_moved(void) {
    allocates(100);
    other = t_realloc(block, 90);
    if (other == block) other = t_realloc(other, 100000);
    reads(5);
    t_free(other);
}
static void write_freed(void) {
    allocates(40);
    frees();
    writes(8);
}
static void overrun(size_t n) {
    allocates(n);
    writes((long)n);
    memset(block, 1, n);
    frees();
}
static void overrun_24(void) {
    overrun(24);
}
static void overrun_64(void) {
    overrun(64);
}
static void overrun_1000(void) {
    overrun(1000);
}
static void overrun_page(void) {
    overrun(100000);
}
static void overrun_read(void) {
    allocates(48);
    reads(48);
    frees();
}
static void overrun_calloc(void) {
    block = t_calloc(5, 5);
    reads(25);
    frees();
}
static void overrun_aligned(void) {
    block = t_aligned_alloc(64, 64);
    writes(64);
    frees();
}
static void overrun_shrunk(void) {
    allocates(100);
    block = t_realloc(block, 80);
    writes(80);
    frees();
}
static void underrun(void) {
    allocates(40);
    reads(-1);
    frees();
}
static void undefined(void) {
    allocates(40);
    decides(7);
    frees();
}
static void undefined_grown(void) {
    allocates(40);
    memset(block, 1, 40);
    block = t_realloc(block, 400);
    decides(39);
    decides(300);
    frees();
}
static void undefined_again(void) {
    allocates(40);
    memset(block, 1, 40);
    frees();
    for (int i = 0; i < 60000; i++) t_free(t_malloc(200)); /* it has left the quarantine */
    for (int i = 0; i < 100; i++) {
        allocates(40);
        if (i < 99) frees();
    }
    decides(20);
    frees();
}
static void double_free(void) {
    allocates(40);
    frees();
    frees();
}
static void leak(void) {
    allocates(1234);
    allocates(16);
    frees();
    block = NULL;
}

/* ── None ── */

static void *work(void *number) {
    unsigned state = (unsigned)(size_t)number;
    char *held[64] = {0};
    size_t size[64] = {0};
    for (int i = 0; i < 2500; i++) {
        unsigned at = (state = state * 1103515245u + 12345u) / 65536 % 64;
        size_t n = (state = state * 1103515245u + 12345u) / 65536 % (i % 100 ? 600 : 200000) + 1;
        if (!held[at]) {
            held[at] = i % 5 ? t_malloc(n) : i % 2 ? t_aligned_alloc(256, n) : t_calloc(1, n);
            if (i % 5 == 0 && i % 2 == 0 && held[at][n - 1]) sink = 1;
        } else if (i % 3) {
            char *p = t_realloc(held[at], n);
            size_t kept = n < size[at] ? n : size[at];
            if (p[0] != (char)at || p[kept - 1] != (char)at) sink = 2;
            held[at] = p;
        } else {
            t_free(held[at]);
            held[at] = NULL;
            continue;
        }
        size[at] = n;
        memset(held[at], (int)at, t_usable_size(held[at]) < n ? n : t_usable_size(held[at]));
    }
    for (unsigned at = 0; at < 64; at++) t_free(held[at]);
    return NULL;
}
static void clean(void) {
    work((void *)7);
    t_free(t_malloc(0));
    t_free(NULL);
    char *p = t_calloc(3, 1 << 20);
    if (p[2 << 20]) sink = 3;
    t_free(p);
}
static void clean_threads(void) {
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (size_t i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}
/* A block of the other malloc that only a block of ours knows. */
static void clean_held(void) {
    char **p = t_malloc(sizeof *p);
    *p = malloc(777);
    block = (char *)p;
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
#define CASE(name) {#name, name}
        CASE(read_freed_small), CASE(read_freed_run),  CASE(read_freed_large), CASE(read_freed_aligned), CASE(read_moved),
        CASE(write_freed),      CASE(overrun_24),      CASE(overrun_64),       CASE(overrun_1000),       CASE(overrun_page),
        CASE(overrun_read),     CASE(overrun_calloc),  CASE(overrun_aligned),  CASE(overrun_shrunk),     CASE(underrun),
        CASE(undefined),        CASE(undefined_grown), CASE(undefined_again),  CASE(double_free),        CASE(leak),
        CASE(clean),            CASE(clean_threads),   CASE(clean_held),
    };
    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(arguments[1], cases[i].name) != 0) continue;
        cases[i].run();
        puts("went on");
        return 0;
    }
    fprintf(stderr, "watched CASE\n");
    return 2;
}
