/* Gets no memory, for a reason of its own making:  refusal REASON
 * What is then said on stderr is for refusal.py to read. The program itself says on stdout how many bytes it got first. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

extern int fh_limit_set(size_t soft, size_t hard, void (*callback)(size_t in_use, size_t limit));

static const size_t mib = 1 << 20;

/* Blocks until there are no more, chained through themselves. Returns their bytes. */
static size_t fill(size_t size, void **chain) {
    size_t bytes = 0;
    errno = 0;
    for (void **p; (p = malloc(size)); bytes += size) {
        *p = *chain;
        *chain = p;
    }
    CHECK(errno == ENOMEM, "errno is %d after NULL", errno);
    return bytes;
}

static void drop(void *chain) {
    while (chain) {
        void *next = *(void **)chain;
        free(chain);
        chain = next;
    }
}

/* A limit of the system's, under which the program begins anew: the heap must not have its address space yet. */
static void begin_under(int resource, size_t most, char **words) {
    struct rlimit now, limit = {most, most};
    CHECK(getrlimit(resource, &now) == 0, "getrlimit");
    if (now.rlim_cur == most) return;
    CHECK(setrlimit(resource, &limit) == 0, "setrlimit");
    execv("/proc/self/exe", words);
    CHECK(false, "execv: errno %d", errno);
}

/* Twice: the same limit is not reported again. */
static void twice(size_t size) {
    void *chain = NULL;
    size_t first = fill(size, &chain);
    drop(chain);
    chain = NULL;
    size_t second = fill(size, &chain);
    /* Also a moment later, when the system would be asked again. */
    usleep(2300000);
    CHECK(malloc(size * 1000) == NULL, "a block of %zu where there are none of %zu", size * 1000, size);
    drop(chain);
    printf("%zu then %zu MiB\n", first / mib, second / mib);
}

/* Small mappings that the kernel cannot join, until it has no more. */
static void use_up_mappings(void) {
    size_t made = 0;
    while (mmap(NULL, 4096, made % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
        made++;
        if (made > 10000000) skip_test("there is no end of mappings here");
    }
    printf("%zu mappings\n", made);
}

static void ask(size_t size) {
    errno = 0;
    void *p = malloc(opaque(size));
    CHECK(!p && errno == ENOMEM, "%zu bytes: %p, errno %d", size, p, errno);
}

/* What a daemon does that closes the three descriptors: the next file that it opens is number 2. */
static void open_as_2(const char *path, int flags) {
    CHECK(close(2) == 0 && open(path, O_RDWR | O_CREAT | O_TRUNC | flags, 0600) == 2, "%s is not descriptor 2", path);
}

/* Threads that come and go at the limit: when one is refused, others have freed by the time that it says so. */
static void *come_and_go(void *refusals) {
    for (int i = 0; i < 3000; i++) {
        void *p = malloc(opaque(3 * mib + (size_t)i % 5 * mib));
        if (!p) ++*(int *)refusals;
        if (i % 100 == 0) sched_yield(); /* so that several have a block at once, however short that is */
        free(p);
    }
    return NULL;
}

static void compete(void) {
    enum { THREADS = 10 };
    pthread_t thread[THREADS];
    int refusals[THREADS] = {0}, sum = 0;
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, come_and_go, &refusals[i]) == 0, "thread");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        sum += refusals[i];
    }
    CHECK(sum > 0, "nothing was refused");
}

int main(int count, char **words) {
    CHECK(count >= 2, "usage: %s REASON", words[0]);
    const char *reason = words[1];
    static char buffer[4096];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    free(malloc(1));
    if (strcmp(reason, "own") == 0) {
        twice(count == 3 ? strtoull(words[2], NULL, 0) : 5000);
    } else if (strcmp(reason, "own-threads") == 0) {
        compete();
    } else if (strcmp(reason, "own-by-call") == 0) {
        CHECK(fh_limit_set(0, 32 * mib, NULL) == 0, "fh_limit_set");
        twice(5000);
    } else if (strcmp(reason, "address") == 0) {
        begin_under(RLIMIT_AS, 300 * mib, words);
        twice(5000);
    } else if (strcmp(reason, "data-at-2") == 0 || strcmp(reason, "log-at-2") == 0) {
        CHECK(count == 3, "usage: %s %s FILE", words[0], reason);
        begin_under(RLIMIT_AS, 300 * mib, words);
        open_as_2(words[2], strcmp(reason, "log-at-2") == 0 ? O_APPEND : 0);
        void *chain = NULL;
        fill(5000, &chain);
        drop(chain);
    } else if (strcmp(reason, "address-huge") == 0) {
        begin_under(RLIMIT_AS, 300 * mib, words);
        twice(20 * mib);
    } else if (strcmp(reason, "data") == 0) {
        begin_under(RLIMIT_DATA, 200 * mib, words);
        twice(5000);
    } else if (strcmp(reason, "mappings") == 0) {
        use_up_mappings();
        twice(3 * mib);
    } else if (strcmp(reason, "window") == 0) {
        /* None of it is touched. */
        size_t n = 0;
        while (n < 1100 && malloc(opaque(1024 * mib))) n++;
        CHECK(n > 1000 && n < 1100, "%zu blocks of 1 GiB", n);
    } else if (strcmp(reason, "ask") == 0) {
        CHECK(count == 3, "usage: %s ask BYTES", words[0]);
        ask(strtoull(words[2], NULL, 0));
        ask(strtoull(words[2], NULL, 0));
    } else {
        CHECK(false, "no reason %s", reason);
    }
    fflush(stdout);
    return 0;
}
