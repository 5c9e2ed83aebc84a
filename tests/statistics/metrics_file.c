/* Allocates for so many seconds, in which the file of metrics is written again and again; then forks, and parent and child end. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <sys/wait.h>

static void work(double seconds) {
    static void *blocks[2000];
    uint64_t state = 3;
    for (double begun = seconds_now(); seconds_now() < begun + seconds;) {
        for (size_t i = 0; i < 20000; i++) {
            size_t place = random_below(&state, 2000);
            t_free(blocks[place]);
            blocks[place] = t_malloc(1 + random_below(&state, 3000));
            CHECK(blocks[place], "malloc: NULL");
        }
    }
}

int main(int count, char **arguments) {
    CHECK(count == 2, "usage: %s SECONDS", arguments[0]);
    work(strtod(arguments[1], NULL));
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    work(0.2);
    int status = 0;
    if (child) CHECK(waitpid(child, &status, 0) == child && status == 0, "the child's status is %x", status);
    return 0;
}
