/* A program that counts its address space: address_space KIND
 *   figures FLAGS   calls mlockall with these flags (0: does not), and prints what is mapped and what is locked
 *   unprivileged FLAGS   the same without the right to lock more than RLIMIT_MEMLOCK, which is 8 MiB
 *   later           limits its address space to 2 GiB while threads run. Then threads, dlopen, stdio and blocks up to the
 *                   limit work; and all of that again when the blocks have been freed
 *   grown           threads whose heap grows beyond what has metadata at first (4 GiB), and beyond a quarter of the window */
#include "../support/alloc.h"
#include "../support/check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { THREADS = 8, MIB = 1 << 20 };

/* KiB of a line of /proc/self/status, read without the C library's buffers. */
static long status(const char *name) {
    char text[8192];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    CHECK(length > 0, "no /proc/self/status");
    text[length] = 0;
    const char *line = strstr(text, name);
    CHECK(line, "no %s", name);
    return strtol(line + strlen(name), NULL, 10);
}

/* ── What is mapped, and what is locked ──────────────────────────────────────────────────────────────────────────── */

static void figures(int flags) {
    t_free(t_malloc(100));
    CHECK(!flags || mlockall(flags) == 0, "mlockall(%d): %s", flags, strerror(errno));
    static void *block[200];
    for (size_t i = 0; i < 200; i++) {
        size_t size = 1 + i % 10 * 100;
        block[i] = t_malloc(size);
        CHECK(block[i], "no block of %zu bytes", size);
        memset(block[i], 1, size);
    }
    for (size_t i = 0; i < 200; i++) t_free(block[i]);
    /* A block that was locked reads as zero when it is cleared anew. */
    for (unsigned round = 0; round < 2; round++) {
        unsigned char *p = t_calloc(1, 100000);
        CHECK(p && p[0] == 0 && p[99999] == 0, "not zeroed");
        memset(p, 1, 100000);
        t_free(p);
    }
    printf("%ld %ld\n", status("VmSize:"), status("VmLck:"));
}

static void unprivileged(int flags) {
    struct rlimit limit = {8 * MIB, 8 * MIB};
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "no limit of locked memory");
    CHECK(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0, "still privileged");
    figures(flags);
}

/* ── A limit that comes later ────────────────────────────────────────────────────────────────────────────────────── */

static pthread_barrier_t barrier;

/* A thread that has a cache when the limit comes, and uses it afterwards. */
static void *early(void *nothing) {
    void *kept = t_malloc(3000);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (size_t i = 1; i < 2000; i++) {
        char *p = t_malloc(i * 40);
        CHECK(p, "no block of %zu bytes in a thread", i * 40);
        p[0] = p[i * 40 - 1] = 1;
        t_free(p);
    }
    t_free(kept);
    return nothing;
}

static void *late(void *nothing) {
    char *p = t_malloc(2 * MIB);
    CHECK(p, "no block in a thread that begins under the limit");
    p[0] = p[2 * MIB - 1] = 1;
    t_free(p);
    return nothing;
}

static void live(void) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        int error = pthread_create(&thread[i], NULL, late, NULL);
        CHECK(error == 0, "thread %d: %s", i, strerror(error));
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    void *library = dlopen("libm.so.6", RTLD_NOW);
    CHECK(library, "dlopen: %s", dlerror());
    dlclose(library);
    FILE *file = tmpfile();
    CHECK(file, "tmpfile: %s", strerror(errno));
    CHECK(fprintf(file, "%0*d", 10000, 1) == 10000 && fclose(file) == 0, "stdio: %s", strerror(errno));
}

/* Blocks of that size until there are no more, written at both ends. Returns the MiB of them, which are free again. */
static size_t fill(size_t size) {
    size_t got = 0;
    char *chain = NULL;
    for (;; got++) {
        char *p = t_malloc(size);
        if (!p) break;
        p[size - 1] = 1;
        memcpy(p, &chain, sizeof chain);
        chain = p;
        CHECK(got * size <= (size_t)2048 * MIB, "more than the limit");
    }
    CHECK(errno == ENOMEM, "errno %d", errno);
    while (chain) {
        char *next;
        memcpy(&next, chain, sizeof next);
        t_free(chain);
        chain = next;
    }
    return got * size / MIB;
}

static void later(void) {
    pthread_t thread[THREADS];
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0, "no barrier");
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, early, NULL) == 0, "no thread %d", i);
    pthread_barrier_wait(&barrier);
    struct rlimit limit = {(rlim_t)2048 * MIB, (rlim_t)2048 * MIB};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "no limit");
    pthread_barrier_wait(&barrier);
    live();
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    /* Half of the limit is what glibc has for a thread other than the first, and more than enough to see the difference. */
    static const size_t sizes[] = {100000, MIB, 5000000, 70000000};
    for (size_t i = 0; i < 4; i++) {
        size_t mib = fill(sizes[i]);
        printf("%zu MiB in blocks of %zu under a limit of 2048 MiB\n", mib, sizes[i]);
        CHECK(mib >= 1700, "only %zu MiB in blocks of %zu", mib, sizes[i]);
        live();
    }
}

/* ── A large heap ────────────────────────────────────────────────────────────────────────────────────────────────── */

static const size_t gib = (size_t)1 << 30;
static void *shared[THREADS][100];

/* Address space alone: of each block two pages are written. */
static void *grow(void *number) {
    void **mine = shared[(size_t)number];
    void *first = t_malloc(100);
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < 3; i++) {
        char *p = t_malloc(gib);
        CHECK(p, "no block of 1 GiB");
        p[0] = p[gib - 1] = (char)i;
        mine[i] = p;
    }
    for (size_t i = 3; i < 100; i++) {
        mine[i] = t_malloc(i * 1000);
        CHECK(mine[i] && t_usable_size(mine[i]) >= i * 1000, "no block");
        memset(mine[i], 1, i * 1000);
    }
    pthread_barrier_wait(&barrier);
    /* Others' blocks, of slots that this thread has never had a block of. */
    void **others = shared[((size_t)number + 1) % THREADS];
    for (size_t i = 0; i < 100; i++) t_free(others[i]);
    t_free(first);
    return NULL;
}

static void grown(void) {
    pthread_t thread[THREADS];
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0, "no barrier");
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, grow, (void *)i) == 0, "no thread");
        for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    }
    char *quarter = t_malloc(300 * gib);
    if (!quarter) skip_part("the system does not promise 300 GiB");
    for (size_t i = 0; quarter && i < 300; i += 50) quarter[i * gib] = 1;
    void *behind = t_malloc(3000);
    CHECK(behind, "no block behind it");
    t_free(quarter);
    t_free(behind);
#if defined(T_EMBED)
    CHECK(t_verify() == 0, "the heap is broken");
#endif
}

int main(int count, char **arguments) {
    const char *kind = count > 1 ? arguments[1] : "";
    int flags = count > 2 ? atoi(arguments[2]) : 0;
    if (strcmp(kind, "figures") == 0) {
        figures(flags);
    } else if (strcmp(kind, "unprivileged") == 0) {
        unprivileged(flags);
    } else if (strcmp(kind, "later") == 0) {
        later();
    } else {
        CHECK(strcmp(kind, "grown") == 0, "unknown kind %s", kind);
        grown();
    }
    return 0;
}
