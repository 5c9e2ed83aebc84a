/* purge=background: what is left below the budget goes home too while the program sleeps, and the thread that does it
 * disturbs nobody.  background [fork|exit|none]
 *
 *     (nothing)  the memory of a burst is gone after some seconds, and then the thread is asleep for good
 *     fork       the child has a thread of its own, and only when it needs one
 *     exit       the program ends while the thread is at work, and while it sleeps
 *     none       a small program has no such thread */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#if defined(T_SANITIZED)
/* What is resident is mostly the sanitizer's. Then Freehold's own figure has to do: what could go back. */
#define held_bytes() fh_mallinfo2().keepcost
#define LEFT_AT_ONCE ((size_t)1 << 20)
#else
#define held_bytes() resident_bytes()
#define LEFT_AT_ONCE ((size_t)8 << 20)
#endif

enum { BLOCKS = 60000, HUGE = 12 << 20 };

static void *blocks[BLOCKS];

/* Reads a small file; the text stays until the next call. */
static const char *read_file(const char *path) {
    static char text[4096];
    int fd = open(path, O_RDONLY);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = 0;
    return text;
}

/* The number of the thread that is called freehold; 0 if there is none. More than one is an error. */
static int find_thread(void) {
    int found = 0;
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder, "/proc/self/task");
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[320];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        if (entry->d_name[0] == '.' || strcmp(read_file(path), "freehold\n") != 0) continue;
        CHECK(!found, "two threads are called freehold");
        found = atoi(entry->d_name);
    }
    closedir(folder);
    return found;
}

/* The number behind a name in the thread's status, in the given base. */
static uint64_t status_of(int thread, const char *name, int base) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    const char *line = strstr(read_file(path), name);
    CHECK(line, "no %s of thread %d", name, thread);
    return strtoull(line + strlen(name), NULL, base);
}

/* Blocks of many sizes, written to, and all freed but one in 3,000; and a huge one. Returns what was resident at most. */
static size_t burst(void) {
    uint64_t state = 5;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = 1 + random_below(&state, i % 100 == 0 ? 300000 : 3000);
        blocks[i] = t_malloc(size);
        CHECK(blocks[i], "malloc: NULL");
        memset(blocks[i], 1, size);
    }
    void *huge = t_malloc(HUGE);
    CHECK(huge, "a huge block");
    memset(huge, 1, HUGE);
    size_t most = held_bytes();
    t_free(huge);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 3000 == 7) continue;
        t_free(blocks[i]);
        blocks[i] = NULL;
    }
    /* What a thread has in its magazines stays with it; this one is going to sleep. */
    t_thread_flush();
    return most;
}

static void free_rest(void) {
    for (size_t i = 0; i < BLOCKS; i++) t_free(blocks[i]);
}

/* Waits until no more than so much is resident; for two minutes, as this machine may have other things to do. */
static size_t wait_for(size_t most) {
    size_t now = 0;
    for (int i = 0; i < 1200; i++) {
        now = held_bytes();
        if (now <= most) break;
        usleep(100000);
    }
    return now;
}

static void memory_comes_back(size_t before) {
    size_t most = burst(), at_once = held_bytes();
    /* On a busy machine this thread may have waited for so long after the last free that the other had done its work. */
    for (int i = 0; i < 20 && at_once <= before + LEFT_AT_ONCE; i++) {
        free_rest();
        most = burst(), at_once = held_bytes();
    }
    size_t now = wait_for(before + (3 << 20));
    printf("%.1f MiB more at most, %.1f at once after freeing, %.1f when asleep\n", (double)(most - before) / 1048576,
           (double)(at_once - before) / 1048576, ((double)now - (double)before) / 1048576);
    CHECK(at_once > before + LEFT_AT_ONCE, "nothing is left for the thread to do: this test would show nothing");
    CHECK(now <= before + (3 << 20), "%zu KiB are still there", (now - before) >> 10);
}

/* Once asleep it does not wake up: neither time nor a change of context in three seconds. */
static void is_asleep(void) {
    int thread = find_thread();
    CHECK(thread, "the thread is gone");
    uint64_t switches = status_of(thread, "\nvoluntary_ctxt_switches:", 10), later = switches;
    /* It looks a few times more before it lies down. */
    for (int i = 0; i < 5; i++) {
        sleep(3);
        later = status_of(thread, "\nvoluntary_ctxt_switches:", 10);
        if (later == switches) break;
        switches = later;
    }
    CHECK(later == switches, "an idle process is still being woken");
}

static void signals_pass_it_by(void) {
    int thread = find_thread();
    uint64_t blocked = status_of(thread, "\nSigBlk:", 16);
    for (int s = 1; s < 32; s++) {
        if (s == SIGKILL || s == SIGSTOP) continue;
        CHECK(blocked >> (s - 1) & 1, "signal %d is not blocked in the thread", s);
    }
    /* The C library reaches every thread for this one, by a signal that must not be blocked. */
    CHECK(setuid(getuid()) == 0, "setuid");
}

static void main_test(void) {
    t_free(t_malloc(1));
    size_t before = held_bytes();
    memory_comes_back(before);
    signals_pass_it_by();
    is_asleep();
    /* And it gets up again. */
    free_rest();
    memory_comes_back(before);
    is_asleep();
    free_rest();
}

static void fork_test(void) {
    t_free(t_malloc(1));
    burst();
    CHECK(find_thread(), "the parent has no thread");
    for (int i = 0; i < 20; i++) {
        usleep(30000); /* at different moments of its work */
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) {
            CHECK(!find_thread(), "the child has a thread from the beginning");
            free_rest();
            size_t before = held_bytes();
            if (i % 5 == 0) {
                memory_comes_back(before);
                CHECK(find_thread(), "the child has no thread");
            }
            exit(i % 5 == 0 ? 7 : 8);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "the child did not end by itself: %x", status);
        CHECK(WEXITSTATUS(status) == (i % 5 == 0 ? 7 : 8), "the child's status is %d", WEXITSTATUS(status));
    }
    free_rest();
}

static void exit_test(void) {
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) {
            burst();
            usleep((useconds_t)(i % 10) * 60000);
            exit(5);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5, "status %x",
              status);
    }
}

int main(int count, char **words) {
    setvbuf(stdout, NULL, _IONBF, 0);
    memset(blocks, 0, sizeof blocks);
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "fork") == 0) {
        fork_test();
    } else if (strcmp(what, "exit") == 0) {
        exit_test();
    } else if (strcmp(what, "none") == 0) {
        for (int i = 0; i < 100000; i++) t_free(t_malloc((size_t)i % 5000));
        CHECK(!find_thread(), "a program of some KiB has a thread for them");
    } else {
        main_test();
    }
    return 0;
}
