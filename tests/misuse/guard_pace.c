/* Guards take at most a hundredth of the time: a program that allocates as fast as it can, with guard=100, gets one for each
 * millisecond of its CPU time, and 64 more. Its child has a clock of its own, which begins anew, and gets some. Where the kernel cannot mark
 * pages it is fewer. With guard=50 each 50th block is guarded.
 *
 * A guarded block is one whose usable size is just what was asked for. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <freehold/freehold.h>

#include <sys/wait.h>
#include <time.h>

enum { BLOCKS = 400000, LENGTH = 100, AT_ONCE = 64, EACH_US = 1000 };

static long microseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static long guarded_of(long blocks) {
    long guarded = 0;
    for (long i = 0; i < blocks; i++) {
        char *p = t_malloc(LENGTH);
        CHECK(p != NULL, "no memory for block %ld", i);
        guarded += t_usable_size(p) == LENGTH;
        t_free(p);
    }
    return guarded;
}

static void paced(const char *who, long least) {
    long begin = microseconds(), guarded = guarded_of(BLOCKS), took = microseconds() - begin;
    long most = AT_ONCE + took / EACH_US + 2;
    printf("%s: %ld of %d blocks are guarded, at most %ld may be\n", who, guarded, BLOCKS, most);
    CHECK(guarded <= most, "%ld guarded in %ld us", guarded, took);
    CHECK(guarded >= least, "%s: %ld guarded", who, guarded);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    paced("the first process", AT_ONCE);
    while (microseconds() < 40L * EACH_US) (void)guarded_of(1000);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        paced("its child", 1);
        return 0;
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);

    CHECK(fh_option_set("guard", "50") == 0, "option guard is refused");
    (void)guarded_of(1000); /* the round that was begun goes on */
    long guarded = guarded_of(BLOCKS);
    printf("with guard=50 it is %ld\n", guarded);
    CHECK(guarded >= BLOCKS / 8 / 50 - 2, "%ld guarded", guarded);
    return 0;
}
