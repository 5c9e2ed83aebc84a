/* COUNT pairs of malloc and free of 48 bytes, for counting instructions and for the clock: fast-pair FORM COUNT. Prints how many
 * nanoseconds of CPU time a pair took, because the machine may be busy. The loop of form `empty` is the others'
 * without the pair. */
#include <freehold/defer.h>
#include <freehold/fast.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 48, BATCH = 64 };

#define HIDE(p) __asm__ volatile("" : "+r"(p)::"memory")
#define FORM(name, allocate, release)                                                                                  \
    __attribute__((noinline)) static void run_##name(size_t count) {                                                   \
        for (; count > 0; count--) {                                                                                   \
            void *p = allocate;                                                                                        \
            HIDE(p);                                                                                                   \
            release;                                                                                                   \
        }                                                                                                              \
    }

/* The loop alone, which is two instructions of each pair. */
__attribute__((noinline)) static void run_empty(size_t count) {
    for (; count > 0; count--) HIDE(count);
}

FORM(call, fh_malloc(SIZE), fh_free(p))
FORM(defer, fh_malloc(SIZE), fh_defer_free(p))
FORM(plain, fh_fast_malloc(SIZE), fh_fast_free(p))
FORM(sized, fh_fast_malloc(SIZE), fh_fast_free_sized(p, SIZE))
FORM(exact, fh_fast_malloc(SIZE), fh_fast_free_exact(p, SIZE))

/* COUNT blocks, 64 at a time, nearest to how a batch is used: all of them are held at once. */
__attribute__((noinline)) static void run_batch(size_t count) {
    void *blocks[BATCH];
    for (; count >= BATCH; count -= BATCH) {
        if (fh_malloc_batch(SIZE, BATCH, blocks) != BATCH) abort();
        HIDE(count);
        fh_free_batch(blocks, BATCH);
    }
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(size_t count);
    } forms[] = {{"empty", run_empty}, {"call", run_call},   {"defer", run_defer}, {"plain", run_plain},
                 {"sized", run_sized}, {"exact", run_exact}, {"batch", run_batch}};
    if (count != 3) return 2;
    size_t pairs = strtoull(arguments[2], NULL, 10);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(arguments[1], forms[i].name) != 0) continue;
        struct timespec begin, end;
        forms[i].run(pairs < 100000 ? pairs / 10 : 100000); /* the bin is warm */
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
        forms[i].run(pairs);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
        double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
        printf("%-6s %.2f ns a pair\n", arguments[1], ns / (double)pairs);
        return 0;
    }
    return 2;
}
