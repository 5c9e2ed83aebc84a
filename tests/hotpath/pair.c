/* COUNT pairs of malloc and free of SIZE bytes, all alike, for counting instructions: pair SIZE COUNT [DEPTH [CALL]]. DEPTH blocks
 * are allocated before they are freed, the last one first. Before that there is one call more for each of them:
 *
 *     usable    malloc_usable_size
 *     resized   a realloc that has nothing to do, as most have in a program that appends a little each time
 *     moved     a realloc to a block of twice the size
 *     aligned   a block at a cache line, and its free
 *     deleted   a malloc, and C++'s delete that says the size
 *
 * Several such runs have a "/" between them. Then each is a child of its own, and its process number is written: under callgrind
 * starting a program costs more than these runs do. */
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void delete_sized(void *p, size_t size) __asm__("_ZdlPvm") __attribute__((weak)); /* the library has it */

enum { DEEPEST = 8192 };

int run(int count, char **arguments);

/* Callgrind is told of it by its name. */
__attribute__((noinline)) int run(int count, char **arguments) {
    if (count < 2 || count > 4) return 2;
    void *volatile block[DEEPEST];
    size_t size = strtoull(arguments[0], NULL, 10), depth = count > 2 ? strtoull(arguments[2], NULL, 10) : 1;
    const char *call = count > 3 ? arguments[3] : "";
    bool usable = !strcmp(call, "usable"), resized = !strcmp(call, "resized"), moved = !strcmp(call, "moved");
    bool aligned = !strcmp(call, "aligned"), deleted = !strcmp(call, "deleted") && delete_sized;
    if (depth < 1 || depth > DEEPEST || (count > 3 && !usable && !resized && !moved && !aligned && !deleted)) return 2;
    for (size_t turns = strtoull(arguments[1], NULL, 10) / depth; turns > 0; turns--) {
        for (size_t i = 0; i < depth; i++) block[i] = malloc(size);
        for (size_t i = depth; i > 0 && usable; i--)
            if (malloc_usable_size(block[i - 1]) < size) return 1;
        for (size_t i = depth; i > 0 && resized; i--)
            if (realloc(block[i - 1], size) != block[i - 1]) return 1;
        for (size_t i = depth; i > 0 && moved; i--) block[i - 1] = realloc(block[i - 1], 2 * size);
        for (size_t i = depth; i > 0 && aligned; i--) free(aligned_alloc(64, size));
        for (size_t i = depth; i > 0 && deleted; i--) delete_sized(malloc(size), size);
        for (size_t i = depth; i > 0; i--) free(block[i - 1]);
    }
    return 0;
}

/* Its number is written without stdio, which would allocate. */
static int run_in_child(int count, char **arguments) {
    pid_t pid = fork();
    if (pid == 0) exit(run(count, arguments));
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return 2;
    char line[] = "          \n";
    for (size_t i = sizeof line - 2; pid > 0; pid /= 10) line[--i] = (char)('0' + pid % 10);
    return write(STDOUT_FILENO, line, sizeof line - 1) > 0 ? 0 : 2;
}

int main(int count, char **arguments) {
    int first = 1, failed = 0;
    for (int i = 1; i < count && !failed; i++) {
        if (strcmp(arguments[i], "/") != 0) continue;
        failed = run_in_child(i - first, arguments + first);
        first = i + 1;
    }
    if (failed) return failed;
    return first == 1 ? run(count - 1, arguments + 1) : run_in_child(count - first, arguments + first);
}
