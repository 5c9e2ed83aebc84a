/* Asks for memory in a known order, and says which of it came: fail.py compares. fail [forks|site] */
#include "../support/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 30, SIZE = 1000 };

__attribute__((noinline)) static void *one(void) {
    return t_malloc(SIZE);
}
__attribute__((noinline)) static void *other(void) {
    return t_malloc(SIZE);
}

static void say(const char *what, unsigned i, const void *p) {
    if (!p) printf("%s %u failed%s\n", what, i, errno == ENOMEM ? "" : ", and errno is wrong");
}

static void each_call(void) {
    errno = 0;
    char *p = t_malloc(10), *q;
    say("malloc", 0, p);
    p = q = t_calloc(3, 10);
    say("calloc", 0, q);
    q = t_realloc(p, 200);
    say("realloc", 0, q);
    if (!q && p && p[5] != 0) printf("realloc lost what was there\n");
    p = q ? q : p;
    q = t_realloc(p, 5);
    say("realloc to less", 0, q);
    t_free(q ? q : p);
    q = t_aligned_alloc(256, 512);
    say("aligned_alloc", 0, q);
    t_free(q);
    q = t_malloc((size_t)4 << 20);
    say("malloc of much", 0, q);
    t_free(q);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    setvbuf(stdout, NULL, _IONBF, 0);
    if (strcmp(what, "calls") == 0) {
        each_call();
        return 0;
    }
    for (unsigned i = 0; i < CALLS; i++) {
        errno = 0;
        void *p = i % 2 ? other() : one();
        say(i % 2 ? "other" : "one", i, p);
        t_free(p);
        if (strcmp(what, "forks") == 0 && i == CALLS / 2) {
            if (fork() == 0) what = "child";
            if (wait(NULL) > 0) return 0;
        }
    }
    return 0;
}
