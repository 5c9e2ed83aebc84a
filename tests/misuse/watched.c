/* One mistake with a block for each case, in a process of its own: watched CASE... Several are children of one that says when each
 * has ended: a program under Valgrind takes long to begin. What watches it (memcheck, AddressSanitizer) is to
 * name the mistake, and the function that it is in; and in the cases that are none it is to be silent. watched.py compares.
 *
 * With T_EMBED the blocks are those of the fh_ functions. */
#include "../support/alloc.h"

#include <freehold/heap.h>
#include <freehold/pool.h>

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* ── Mistakes with heaps ── */

static fh_heap *heap;

__attribute__((noinline)) void allocates_in_heap(size_t n) {
    if (!heap) heap = fh_heap_new(NULL);
    block = fh_heap_malloc(heap, n);
}
static void heap_read_freed(void) {
    allocates_in_heap(40);
    fh_free(block);
    reads(20);
    (void)fh_heap_destroy(heap);
}
static void heap_undefined_large(void) {
    allocates_in_heap(300000);
    memset(block, 1, 300000);
    (void)fh_heap_reset(heap);
    allocates_in_heap(70000);
    fh_free(block);
    allocates_in_heap(70000);
    decides(5);
}
static void heap_read_reset(void) {
    allocates_in_heap(500);
    (void)fh_heap_reset(heap);
    reads(20);
}
static void heap_overrun(size_t n) {
    allocates_in_heap(n);
    writes((long)n);
    memset(block, 1, n);
    (void)fh_heap_destroy(heap);
}
static void heap_overrun_32(void) {
    heap_overrun(32);
}
static void heap_overrun_1500(void) {
    heap_overrun(1500);
}
static void heap_overrun_65536(void) {
    heap_overrun(65536);
}
static void heap_overrun_shrunk(void) {
    allocates_in_heap(100);
    block = fh_realloc(block, 90);
    writes(90);
    fh_free(block);
}
static void heap_overrun_given(void) {
    static char memory[1 << 16];
    heap = fh_heap_new(&(fh_heap_options){.memory = memory, .memory_size = sizeof memory});
    heap_overrun(48);
}
static void heap_undefined(void) {
    allocates_in_heap(40);
    memset(block, 1, 40);
    fh_free(block);
    allocates_in_heap(40);
    decides(7);
    (void)fh_heap_destroy(heap);
}
static void heap_double_free(void) {
    allocates_in_heap(40);
    fh_free(block);
    fh_free(block);
}
static void heap_leak(void) {
    allocates_in_heap(1234);
    allocates_in_heap(16);
    fh_free(block);
    block = NULL;
}

/* Reports of double frees leave the later ones as they are. */
static void four(void) {
    double_free();
    heap_double_free();
    other = t_realloc(block = t_malloc(8), 100000);
    (void)!t_realloc(block, 10);
    reads(2);
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
static void see(void *p, size_t n, void *sum) {
    memset(p, 2, n);
    *(size_t *)sum += n;
}
static void fill_heap(fh_heap *h) {
    char *held[200];
    for (size_t i = 0; i < 200; i++) {
        size_t n = i % 50 == 49 ? 70000 + i : 1 + i * i % 3000;
        held[i] = i % 3 ? fh_heap_malloc(h, n) : i % 2 ? fh_heap_aligned_alloc(h, 128, n) : fh_heap_calloc(h, 1, n);
        if (!held[i]) return;
        if (i % 6 == 0 && held[i][n - 1]) sink = 4;
        if (fh_malloc_usable_size(held[i]) < n || fh_heap_of(held[i]) != h) sink = 5;
        memset(held[i], (int)i, fh_malloc_usable_size(held[i]));
        char *q = fh_realloc(held[i], i % 4 ? n + i : n - n / 4);
        if (q) held[i] = q;
        if (held[i][0] != (char)i) sink = 6;
        if (i % 5 == 0) fh_free(held[i]);
    }
}
static void clean_heaps(void) {
    static char memory[1 << 18];
    size_t sum = 0;
    fh_heap *plain = fh_heap_new(NULL),
            *own = fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_PRIVATE, .parent = plain});
    fh_heap *given = fh_heap_new(&(fh_heap_options){.memory = memory, .memory_size = sizeof memory});
    for (int round = 0; round < 3; round++) {
        fill_heap(plain);
        fill_heap(own);
        fill_heap(given);
        (void)fh_heap_walk(plain, see, &sum);
        fh_heap_figures figures;
        if (fh_heap_stats(own, &figures) || figures.count == 0) sink = 7;
        fh_heap_mark mark = fh_mark(own);
        for (int i = 0; i < 100; i++) memset(fh_frame_malloc(own, 500), 1, 500);
        (void)fh_release_to(own, mark);
        (void)fh_heap_enter(plain);
        work((void *)3);
        char *p = t_calloc(1, 5 << 20);
        if (p[4 << 20]) sink = 8;
        t_free(p);
        (void)fh_heap_leave();
        fh_pool *pool = fh_pool_new(24, 8, &(fh_pool_options){.heap = plain});
        char *cells[100];
        for (int i = 0; i < 100; i++) memset(cells[i] = fh_pool_alloc(pool), 1, 24);
        for (int i = 0; i < 100; i++) fh_pool_free(pool, cells[i]);
        (void)fh_pool_destroy(pool);
        (void)fh_heap_reset(own);
        (void)fh_heap_reset(given);
        (void)fh_heap_reset(plain);
        work((void *)4);
    }
    (void)fh_heap_destroy(own);
    (void)fh_heap_destroy(plain);
    (void)fh_heap_destroy(given);
    memset(memory, 1, sizeof memory);
    work((void *)5);
}
/* A block of the other malloc that only a block of ours knows. */
static void clean_held(void) {
    char **p = t_malloc(sizeof *p);
    *p = malloc(777);
    block = (char *)p;
}

static int run_case(const char *wanted) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
#define CASE(name) {#name, name}
        CASE(read_freed_small),
        CASE(read_freed_run),
        CASE(read_freed_large),
        CASE(read_freed_aligned),
        CASE(read_moved),
        CASE(write_freed),
        CASE(overrun_24),
        CASE(overrun_64),
        CASE(overrun_1000),
        CASE(overrun_page),
        CASE(overrun_read),
        CASE(overrun_calloc),
        CASE(overrun_aligned),
        CASE(overrun_shrunk),
        CASE(underrun),
        CASE(undefined),
        CASE(undefined_grown),
        CASE(undefined_again),
        CASE(double_free),
        CASE(leak),
        CASE(clean),
        CASE(clean_threads),
        CASE(clean_held),
        CASE(clean_heaps),
        CASE(four),
        CASE(heap_read_freed),
        CASE(heap_undefined_large),
        CASE(heap_read_reset),
        CASE(heap_overrun_32),
        CASE(heap_overrun_1500),
        CASE(heap_overrun_65536),
        CASE(heap_overrun_shrunk),
        CASE(heap_overrun_given),
        CASE(heap_undefined),
        CASE(heap_double_free),
        CASE(heap_leak),
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(wanted, cases[i].name) != 0) continue;
        cases[i].run();
        puts("went on");
        return 0;
    }
    fprintf(stderr, "watched CASE...\n");
    return 2;
}

int main(int count, char **arguments) {
    if (count == 2) return run_case(arguments[1]);
    for (int i = 1; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) return run_case(arguments[i]);
        int status = -1;
        waitpid(pid, &status, 0);
        fprintf(stderr, "-- %s ended with %d\n", arguments[i], status);
    }
    return 0;
}
