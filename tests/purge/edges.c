/* A program that goes back and forth over an edge, 10^7 times: of a magazine, a slab, a chunk, a run that no magazine
 * holds. An allocator that gives back each piece when it becomes free, and fetches it again, makes a system call each
 * time; here all of it may cost ten. The calls are counted in the program itself: see CMakeLists.txt. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* ── The count ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static long calls;
static bool naming;

static void count(const char *name) {
    calls++;
    if (naming) fprintf(stderr, "  call: %s\n", name);
}

void *__real_mmap(void *p, size_t n, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *p, size_t n, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *p, size_t n, int protection, int flags, int fd, off_t offset) {
    count("mmap");
    return __real_mmap(p, n, protection, flags, fd, offset);
}
int __real_munmap(void *p, size_t n);
int __wrap_munmap(void *p, size_t n);
int __wrap_munmap(void *p, size_t n) {
    count("munmap");
    return __real_munmap(p, n);
}
void *__wrap_mremap(void *p, size_t old, size_t n, int flags, ...);
void *__wrap_mremap(void *p, size_t old, size_t n, int flags, ...) {
    va_list list;
    va_start(list, flags);
    void *place = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
    va_end(list);
    count("mremap");
    return (void *)syscall(SYS_mremap, p, old, n, flags, place);
}
int __real_mprotect(void *p, size_t n, int protection);
int __wrap_mprotect(void *p, size_t n, int protection);
int __wrap_mprotect(void *p, size_t n, int protection) {
    count("mprotect");
    return __real_mprotect(p, n, protection);
}
int __real_madvise(void *p, size_t n, int advice);
int __wrap_madvise(void *p, size_t n, int advice);
int __wrap_madvise(void *p, size_t n, int advice) {
    count("madvise");
    return __real_madvise(p, n, advice);
}
/* Six arguments are the most that a system call has; passing on more than there were does no harm. The number of the
 * processor may be asked for by a call too, where the C library does not know it: that is no matter of memory. */
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (number != SYS_getcpu && number != SYS_mremap) count("syscall");
    return __real_syscall(number, a, b, c, d, e, f);
}

/* ── The edges ───────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { TIMES = 10000000, MOST = 200000 };

static void *held[MOST];

/* `step` blocks of `size` bytes are made and dropped on top of `base` that stay, until TIMES have been. */
static void alternate(const char *edge, size_t size, int base, int step, long times) {
    static void *extra[MOST];
    CHECK(base <= MOST && step <= MOST, "the tables are too small");
    for (int i = 0; i < base; i++) held[i] = t_malloc(size);
    long before = 0, rounds = times / step;
    /* The first round may fetch what the others re-use. */
    for (long round = -2; round < rounds; round++) {
        if (round == 0) before = calls;
        for (int i = 0; i < step; i++) {
            extra[i] = t_malloc(size);
            CHECK(extra[i], "malloc(%zu): NULL", size);
            *(volatile char *)extra[i] = 1;
        }
        for (int i = 0; i < step; i++) t_free(extra[i]);
    }
    long made = calls - before;
    for (int i = 0; i < base; i++) t_free(held[i]);
    printf("%-34s %9ld times %8zu bytes: %ld system calls\n", edge, rounds * step, size, made);
    CHECK(made <= 10, "%s: %ld system calls; ten are the most", edge, made);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    naming = getenv("FREEHOLD_TEST_VERBOSE") != NULL;
    /* Slabs of 64-byte blocks hold 1,024 of them; a chunk holds 64 such slabs. */
    for (int base = 1022; base <= 1026; base++) alternate("one block at a slab's edge", 64, base, 1, TIMES / 5);
    alternate("a magazine over a slab's edge", 64, 1000, 600, TIMES);
    alternate("two slabs, made and dropped", 64, 1024, 2048, TIMES);
    alternate("over a chunk's edge", 64, 63 * 1024, 4096, TIMES);
    /* Eager is eager: what fills two huge pages is not kept for the next time. */
    const char *options = getenv("FREEHOLD");
    bool eager = options && strstr(options, "purge=eager");
    if (!eager) alternate("a chunk, made and dropped", 64, 64 * 1024, 65536, TIMES);
    alternate("pages", 4096, 1000, 64, TIMES / 10);
    alternate("slots", 65536, 60, 8, TIMES / 10);
    alternate("runs in magazines, chunk's edge", 200000, 15, 3, TIMES / 10);
    alternate("runs in no magazine", 1500000, 1, 1, TIMES / 10);
    alternate("the longest runs", 2 << 20, 1, 1, TIMES / 10);
    alternate("the longest runs, two at a time", 2 << 20, 3, 2, TIMES / 10);
    return 0;
}
