/* Where the kernel counts address space or data, realloc takes what is asked for, and not as much again beside it. A child has
 * so many MiB more than it has already, by each of the two limits.
 *
 *     many   45 blocks of 4 MiB grow by an eighth, one after another: each does so once, to 202 MiB in all
 *     one    a single block grows by an eighth: it has 85 % of what there is
 *     twice  a single block doubles: from 64 MiB to 128
 *     turns  20 blocks grow by 1 MiB in turns, and leave holes behind them: what moves fits into holes together with the free
 *            ends beside them
 *
 * When all blocks are free again, though none was written to, a thread can start.
 *
 * It is true over the C library's allocator as well, whose long blocks are mappings that mremap makes longer. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/processes.h"

#include <pthread.h>
#include <sys/resource.h>

enum { MANY = 45 };
static const size_t mib = (size_t)1 << 20;

struct part {
    const char *name;
    int blocks, begin, divisor, room,
        wanted; /* begin and room: in MiB; divisor 0: by 1 MiB; wanted: in percent of it */
};
static const struct part parts[] = {{"many", MANY, 4, 8, 256, 78},
                                    {"one", 1, 1, 8, 256, 85},
                                    {"twice", 1, 1, 1, 256, 50},
                                    {"turns", 20, 1, 0, 1000, 90}};

static int limited; /* RLIMIT_… */

/* What the kernel counts of this process now. */
static size_t counted_now(void) {
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    const char *name = limited == RLIMIT_AS ? "\nVmSize:" : "\nVmData:", *line = strstr(text, name);
    CHECK(line, "no line %s", name + 1);
    return strtoull(line + strlen(name), NULL, 10) * 1024;
}

static void *do_nothing(void *argument) {
    return argument;
}

static void grow(void *argument) {
    const struct part *part = argument;
    char *blocks[MANY];
    size_t sizes[MANY], all = 0, room = (size_t)part->room * mib;
    t_free(t_malloc(1));
    rlim_t most = counted_now() + room;
    struct rlimit limit = {most, most};
    CHECK(setrlimit(limited, &limit) == 0, "setrlimit: %s", strerror(errno));
    for (int i = 0; i < part->blocks; i++) {
        sizes[i] = (size_t)part->begin * mib;
        blocks[i] = t_malloc(sizes[i]);
        CHECK(blocks[i], "malloc: NULL");
        blocks[i][0] = blocks[i][sizes[i] - 1] = (char)i;
        all += sizes[i];
    }
    for (int i = 0;; i = (i + 1) % part->blocks) {
        size_t more = part->divisor ? sizes[i] / (size_t)part->divisor : mib;
        char *block = t_realloc(blocks[i], sizes[i] + more);
        if (!block) break;
        CHECK(block[0] == (char)i && block[sizes[i] - 1] == (char)i, "block %d is another one", i);
        blocks[i] = block;
        sizes[i] += more;
        all += more;
        block[sizes[i] - 1] = (char)i;
    }
    printf("%s, %s: %d blocks have %zu MiB of %d\n", part->name, limited == RLIMIT_AS ? "address space" : "data",
           part->blocks, all / mib, part->room);
    CHECK(all >= room * (size_t)part->wanted / 100, "%zu MiB are less than %d %%", all / mib, part->wanted);
    for (int i = 0; i < part->blocks; i++) t_free(blocks[i]);
    CHECK(t_verify() == 0, "the heap is not whole");
    pthread_t thread;
    int error = pthread_create(&thread, NULL, do_nothing, NULL);
    CHECK(error == 0, "no thread can start when all is free again: %s", strerror(error));
    pthread_join(thread, NULL);
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    CHECK(count > 1, "which part?");
    struct part part = parts[0];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(arguments[1], parts[i].name) == 0) part = parts[i];
    }
    limited = RLIMIT_AS;
    int by_addresses = run_in_child(grow, &part);
    limited = RLIMIT_DATA;
    int by_data = run_in_child(grow, &part);
    CHECK(by_addresses == 0 && by_data == 0, "a child ended with %#x, the other with %#x", (unsigned)by_addresses,
          (unsigned)by_data);
    puts("ok");
    return 0;
}
