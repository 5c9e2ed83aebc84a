/* Counts the blocks that a program frees, in all its processes: preloaded, it appends a line to the file FREES at exit. A
 * realloc that moves a block counts as well, because the library frees the old one by the same way. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_ulong frees, moves;

/* The next one in the order of the loader: glibc's, or that of an allocator that the program brings along. */
static void *next(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

void free(void *p) {
    static void (*real)(void *);
    if (!real) real = (void (*)(void *))next("free");
    if (p) atomic_fetch_add_explicit(&frees, 1, memory_order_relaxed);
    real(p);
}

void *realloc(void *p, size_t n) {
    static void *(*real)(void *, size_t);
    if (!real) real = (void *(*)(void *, size_t))next("realloc");
    void *q = real(p, n);
    if (p && q != p) atomic_fetch_add_explicit(&moves, 1, memory_order_relaxed);
    return q;
}

static void say(void) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const char *path = getenv("FREES");
    char line[64];
    if (!path || atomic_flag_test_and_set(&said)) return;
    int n = snprintf(line, sizeof line, "%lu %lu\n", atomic_load(&frees), atomic_load(&moves));
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file >= 0 && write(file, line, (size_t)n) != n) _exit(70);
}

__attribute__((destructor)) static void at_exit(void) {
    say();
}

/* Some programs leave without their destructors. */
void _exit(int code) {
    say();
    for (;;) syscall(SYS_exit_group, code);
}
