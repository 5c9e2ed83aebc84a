/* Starting other programs while threads allocate: fork and exec, vfork, posix_spawn, system, popen.  A vfork child
 * borrows its parent's memory and thread: the allocator must be whole when the parent goes on. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>

extern char **environ;
static atomic_bool stop;

static void *allocate(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&stop)) {
        size_t size = random_below(&random, 10000);
        char *block = t_malloc(size);
        pattern_fill(block, size, size);
        CHECK(pattern_wrong(block, size, size) < 0, "a block of %zu changed", size);
        t_free(block);
    }
    return NULL;
}

static void ended_well(pid_t pid, const char *how) {
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "%s gave no process", how);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%s: status %#x", how, (unsigned)status);
}

static void start_all(char *const arguments[]) {
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        /* An allocation between fork and exec is what many programs do, allowed or not. */
        t_free(t_malloc(5000));
        execv(arguments[0], arguments);
        _exit(1);
    }
    ended_well(pid, "fork and exec");
    pid = vfork();
    if (pid == 0) {
        execv(arguments[0], arguments);
        _exit(1);
    }
    ended_well(pid, "vfork and exec");
    pid = vfork();
    if (pid == 0) {
        _exit(7);
    }
    ended_well(pid, "vfork and _exit");
    CHECK(posix_spawn(&pid, arguments[0], NULL, NULL, arguments, environ) == 0, "posix_spawn");
    ended_well(pid, "posix_spawn");
    int status = system("exit 7");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "system: status %#x", (unsigned)status);
    char line[20] = "";
    FILE *pipe = popen("echo hello", "r");
    CHECK(pipe && fgets(line, sizeof line, pipe) && strcmp(line, "hello\n") == 0, "popen read \"%s\"", line);
    CHECK(pclose(pipe) == 0, "pclose");
}

int main(int count, char **arguments) {
    if (count > 1) { /* what is started: allocates a little and ends with a status of its own */
        void *block = t_malloc(100000);
        CHECK(block, "malloc in the started program");
        t_free(block);
        return 7;
    }
    static char again[] = "again", self[] = "/proc/self/exe";
    char *const started[] = {self, again, NULL};
    (void)arguments;
    pthread_t ids[8];
    for (uintptr_t i = 0; i < 8; i++) {
        CHECK(pthread_create(&ids[i], NULL, allocate, (void *)i) == 0, "pthread_create");
    }
    for (int i = 0; i < 25; i++) {
        start_all(started);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 8; i++) {
        pthread_join(ids[i], NULL);
    }
    puts("150 programs started in six ways");
    return 0;
}
