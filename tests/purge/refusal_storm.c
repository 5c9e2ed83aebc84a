/* Threads that go on asking at a limit: what a refused call costs. The linker counts how often the heap is walked.
 *
 *     a size that can never be had     refused at once: no walk, no callback, no question to the kernel
 *     a limit that is met              the first calls empty what is cached; while nothing comes back, the others walk nothing,
 *                                      also while the thread that walks is not running
 *     something comes back             the next call finds it, wherever it was freed */
#include "../support/alloc.h"
#include "../support/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, CALLS = 5000, SMALL = 8000, WALKS = 40 };
static const size_t mib = (size_t)1 << 20, limit = (size_t)64 << 20;

static atomic_ulong walks, questions;
static volatile unsigned callbacks;
static atomic_int halt_next;

#define COUNT(counter, type, name, parameters, arguments)                                                              \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters {                                                                                    \
        atomic_fetch_add(&counter, 1);                                                                                 \
        return __real_##name arguments;                                                                                \
    }
void __real_fh_trim_caches(void);
void __wrap_fh_trim_caches(void);
void __wrap_fh_trim_caches(void) {
    atomic_fetch_add(&walks, 1);
    /* A thread that does not run for a while in the middle of its walk. */
    if (atomic_exchange(&halt_next, 0)) usleep(20000);
    __real_fh_trim_caches();
}
COUNT(walks, size_t, fh_idle_purge_to, (size_t keep), (keep))
COUNT(walks, size_t, fh_run_drop_free_chunks, (void), ())
COUNT(questions, int, fh_system_place, (void *p, size_t n), (p, n))
COUNT(questions, void *, fh_system_map, (size_t n, size_t align), (n, align))

static void refused(size_t n) {
    errno = 0;
    CHECK(t_malloc(n) == NULL, "a block of %zu bytes", n);
    CHECK(errno == ENOMEM, "%zu bytes are refused with errno %d", n, errno);
}

static void called(size_t in_use, size_t which) {
    (void)in_use, (void)which;
    callbacks++;
}

/* ── What can never be had ───────────────────────────────────────────────────────────────────────────────────────── */

static void ask_for_too_much(const char *what, size_t n) {
    char *p = t_malloc(mib);
    CHECK(p, "the first MiB");
    p[0] = 7;
    unsigned long before = atomic_load(&walks), asked = atomic_load(&questions);
    unsigned heard = callbacks;
    for (int i = 0; i < CALLS; i++) refused(n);
    CHECK(t_realloc(p, n) == NULL && errno == ENOMEM && p[0] == 7, "%s: a MiB grew to %zu bytes", what, n);
    CHECK(t_calloc(1, n) == NULL && t_aligned_alloc(4096, n & ~(size_t)4095) == NULL, "%s: zeroed or aligned", what);
    CHECK(atomic_load(&walks) == before, "%s: %d calls walked the heap %lu times", what, CALLS,
          atomic_load(&walks) - before);
    CHECK(atomic_load(&questions) == asked, "%s: %d calls asked the kernel %lu times", what, CALLS,
          atomic_load(&questions) - asked);
    CHECK(callbacks == heard, "%s: the callback was called %u times", what, callbacks - heard);
    t_free(p);
}

/* Where the kernel's own limit is the reason, what is left of it is not used up by asking. */
static void below_address_limit(void) {
    pid_t pid = fork();
    if (pid == 0) {
        t_free(t_malloc(1));
        struct rlimit most = {(rlim_t)3 << 40, (rlim_t)3 << 40};
        CHECK(setrlimit(RLIMIT_DATA, &(struct rlimit){(rlim_t)1 << 30, (rlim_t)1 << 30}) == 0, "setrlimit");
        CHECK(setrlimit(RLIMIT_AS, &most) == 0, "setrlimit");
        ask_for_too_much("RLIMIT_DATA", (size_t)100 << 30);
        void *p = t_malloc(500 * mib);
        CHECK(p, "half of what the limit allows");
        t_free(p);
        _exit(0);
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "below the limit on data: status %#x", status);
}

/* ── A limit that is met ─────────────────────────────────────────────────────────────────────────────────────────── */

static void *ask_again(void *size) {
    for (int i = 0; i < CALLS; i++) refused((size_t)(uintptr_t)size);
    t_thread_flush();
    return NULL;
}

static void storm(size_t size) {
    pthread_t thread[THREADS];
    unsigned long before = atomic_load(&walks);
    atomic_store(&halt_next, 1);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, ask_again, (void *)(uintptr_t)size) == 0, "no thread");
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    unsigned long now = atomic_load(&walks) - before;
    printf("%d refused calls for %zu bytes: %lu walks\n", THREADS * CALLS, size, now);
    CHECK(now <= WALKS, "%d refused calls for %zu bytes walked the heap %lu times", THREADS * CALLS, size, now);
}

static void *free_all(void *blocks) {
    void **block = blocks;
    for (int i = 0; i < SMALL; i++) t_free(block[i]);
    return NULL;
}

/* The heap is full: small blocks, then large ones, then to the last byte of the reserve. */
static void meet_the_limit(bool elsewhere) {
    static void *small[SMALL], *large[256], *rest[1 << 17];
    unsigned n = 0, m = 0;
    for (int i = 0; i < SMALL; i++) CHECK((small[i] = t_malloc(1000)) != NULL, "no small block");
    while (n < 256 && (large[n] = t_malloc(mib)) != NULL) n++;
    CHECK(n < 256, "the limit refuses nothing");
    storm(mib);
    storm(3 * mib);
    while (m < 1 << 17 && (rest[m] = t_malloc(200)) != NULL) m++;
    CHECK(m < 1 << 17, "the limit refuses no small block");
    storm(5000);
    /* 8 MB of small blocks come back: in this thread, or in another one, which ends. */
    pthread_t thread;
    if (elsewhere) {
        CHECK(pthread_create(&thread, NULL, free_all, small) == 0, "no thread");
        pthread_join(thread, NULL);
    } else {
        free_all(small);
    }
    void *p = t_malloc(3 * mib);
    CHECK(p, "3 of 8 MiB that were freed %s cannot be had", elsewhere ? "elsewhere" : "here");
    t_free(p);
    while (n > 0) t_free(large[--n]);
    while (m > 0) t_free(rest[--m]);
}

int main(void) {
    t_free(t_malloc(1));
    ask_for_too_much("more than there are addresses", (size_t)1 << 60);
    ask_for_too_much("more than the window", (size_t)2 << 40);
    CHECK(fh_limit_set(0, limit, called) == 0, "the limit is not set");
    ask_for_too_much("more than the limit", limit + 1);
    CHECK(fh_limit_set(0, limit, NULL) == 0, "the limit is not set");
    meet_the_limit(false);
    meet_the_limit(true);
    CHECK(fh_limit_set(0, 0, NULL) == 0, "the limit stays");
    below_address_limit();
    CHECK(t_verify() == 0, "the heap is not whole");
    return 0;
}
