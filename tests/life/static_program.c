/* A program linked with the static library, also wholly static, with glibc or musl: it must have Freehold's malloc,
 * with threads, fork, exit handlers and the C library's own allocations on it. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/check.h"
#include "../support/pattern.h"

extern const char *fh_version(void);
extern void *fh_malloc(size_t size);
extern size_t malloc_usable_size(void *block);

static void use_heap(uint64_t seed) {
    char *blocks[300];
    for (size_t i = 0; i < 300; i++) {
        size_t size = i * i * 13 % 90000;
        blocks[i] = i % 4 ? malloc(size) : calloc(1, size);
        CHECK(blocks[i], "malloc(%zu): NULL", size);
        pattern_fill(blocks[i], size, seed + i);
    }
    for (size_t i = 0; i < 300; i++) {
        size_t size = i * i * 13 % 90000;
        CHECK(pattern_wrong(blocks[i], size, seed + i) < 0, "a block of %zu changed", size);
        free(blocks[i]);
    }
}

static void *thread(void *argument) {
    for (int i = 0; i < 20; i++) {
        use_heap((uintptr_t)argument);
    }
    return strdup("left behind");
}

static void at_end(void) {
    use_heap(3);
}

int main(void) {
    /* Both names must be answered by one allocator: a block of the one is known to the other, and has a size class
     * of ours.  The system's own allocator would say 24 for the first. */
    char *block = malloc(20);
    CHECK(malloc_usable_size(block) == 32, "malloc(20) has %zu bytes: not ours", malloc_usable_size(block));
    free(block);
    free(fh_malloc(100));
    atexit(at_end);
    pthread_t ids[8];
    for (uintptr_t i = 0; i < 8; i++) {
        CHECK(pthread_create(&ids[i], NULL, thread, (void *)i) == 0, "pthread_create");
    }
    for (int i = 0; i < 8; i++) {
        void *left;
        pthread_join(ids[i], &left);
        CHECK(strcmp(left, "left behind") == 0, "what a thread left behind is \"%s\"", (char *)left);
        CHECK(malloc_usable_size(left) == 16, "strdup's block is not ours");
        free(left);
    }
    pid_t pid = fork();
    if (pid == 0) {
        use_heap(4);
        exit(0);
    }
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child ended with %#x", (unsigned)status);
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file && getline(&line, &room, file) > 0, "getline");
    fclose(file);
    free(line);
    errno = 0;
    volatile size_t impossible = PTRDIFF_MAX;
    CHECK(!malloc(impossible) && errno == ENOMEM, "malloc(PTRDIFF_MAX): errno %d", errno);
    printf("Freehold %s inside\n", fh_version());
    return 0;
}
