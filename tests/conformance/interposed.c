/* A program whose malloc is Freehold, in the shapes that glibc's own tests of such programs have: dynamic and static, with a
 * thread and without. What the C library allocates for a line that it reads comes from it, a fork works, and the program's
 * break does not move. A second malloc beside ours, the C library's, would move it. */
#include <stdlib.h>

#include "../support/check.h"

#include <pthread.h>
#include <sys/wait.h>

extern const char *fh_version(void);

static char *break_at_start;

static void same_break(const char *when) {
    char *now = sbrk(0);
    CHECK(now == break_at_start, "%s: the break is at %p, and was at %p", when, (void *)now, (void *)break_at_start);
}

__attribute__((constructor)) static void at_start(void) {
    break_at_start = sbrk(0);
}
__attribute__((destructor)) static void at_end(void) {
    free(malloc(100000));
    same_break("in a destructor");
}

static char letter(int line, int column) {
    return (char)('A' + (line + column) % 26);
}

static void *read_and_fork(void *none) {
    static const int lengths[] = {0, 45, 80, 2, 8201, 0, 17, 70000};
    enum { LINES = sizeof lengths / sizeof *lengths };
    FILE *file = tmpfile();
    CHECK(file, "tmpfile");
    for (int i = 0; i < LINES; i++) {
        for (int k = 0; k < lengths[i]; k++) fputc(letter(i, k), file);
        fputc('\n', file);
    }
    rewind(file);
    char *line = NULL;
    size_t room = 0;
    for (int i = 0; i < LINES; i++) {
        CHECK(getline(&line, &room, file) == lengths[i] + 1, "line %d", i);
        for (int k = 0; k < lengths[i]; k++) CHECK(line[k] == letter(i, k), "line %d, column %d", i, k);
    }
    CHECK(getline(&line, &room, file) == -1, "more than %d lines", LINES);
    free(line);
    fclose(file);
    fflush(stdout);
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        free(realloc(malloc(10), 1000000));
        _exit(55);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 55, "a fork");
    return none;
}

int main(void) {
    pthread_t id;
    same_break("in main");
    read_and_fork(NULL);
    same_break("after the first time, without threads");
    CHECK(pthread_create(&id, NULL, read_and_fork, NULL) == 0 && pthread_join(id, NULL) == 0, "a thread");
    same_break("after the second time, in a thread");
    printf("Freehold %s inside, and the break has not moved\n", fh_version());
    return 0;
}
