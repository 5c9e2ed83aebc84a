/* What the test suites of glibc, mimalloc and jemalloc ask of threads: that begin and end at once, that keep nothing when they
 * are gone, whose first call is any call, that allocate in the destructors of their own data, that meet the system's limit
 * together, and whose heap is described or written out meanwhile. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/pattern.h"
#include "../support/processes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

static pthread_t begin(void *(*run)(void *), void *argument) {
    pthread_t id;
    int error = pthread_create(&id, NULL, run, argument);
    CHECK(error == 0, "pthread_create: %s", strerror(error));
    return id;
}

static void *result_of(pthread_t id) {
    void *result;
    CHECK(pthread_join(id, &result) == 0, "pthread_join");
    return result;
}

/* ── Beginning and ending at once ────────────────────────────────────────────────────────────────────────────────── */

enum { OUTER = 2, INNER = 4, TIMES = 60 };

static void *allocates_first(void *barrier) {
    void *block = t_malloc(32);
    pthread_barrier_wait(barrier);
    t_free(block);
    return NULL;
}
static void *waits_first(void *barrier) {
    pthread_barrier_wait(barrier);
    t_free(t_malloc(32));
    return NULL;
}
/* Threads with a cache end beside threads that are about to get one. */
static void *outer(void *none) {
    pthread_t *ids = t_calloc(INNER, sizeof *ids);
    for (int i = 0; i < TIMES; i++) {
        pthread_barrier_t barrier;
        pthread_barrier_init(&barrier, NULL, INNER + 1);
        for (int k = 0; k < INNER; k++) ids[k] = begin(k % 2 ? waits_first : allocates_first, &barrier);
        pthread_barrier_wait(&barrier);
        for (int k = 0; k < INNER; k++) result_of(ids[k]);
        pthread_barrier_destroy(&barrier);
    }
    t_free(ids);
    return none;
}
static void begin_and_end(void) {
    pthread_t ids[OUTER];
    for (int i = 0; i < OUTER; i++) ids[i] = begin(outer, NULL);
    for (int i = 0; i < OUTER; i++) result_of(ids[i]);
}

/* ── Nothing is kept ─────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t in_use(void) {
    t_mallinfo2_result m = t_mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void *leave_a_block(void *none) {
    (void)none;
    t_free(t_malloc(32));
    return t_malloc(32);
}

/* A byte for each thread is less than the smallest block. */
static void nothing_is_kept(void) {
    enum { THREADS = 3000 };
    t_free(result_of(begin(leave_a_block, NULL)));
    size_t before = in_use();
    for (int i = 0; i < THREADS; i++) t_free(result_of(begin(leave_a_block, NULL)));
    t_thread_flush();
    size_t after = in_use();
    CHECK(after <= before + THREADS, "%d threads have ended, and %zu bytes in use became %zu", THREADS, before, after);
}

/* ── The first call ──────────────────────────────────────────────────────────────────────────────────────────────── */

static char *given; /* by the main thread */

static void *first_in_place(void *none) {
    (void)none;
    return t_realloc(given, 60);
}
static void *first_grows(void *none) {
    (void)none;
    return t_realloc(given, 40000);
}
static void *first_huge(void *none) {
    (void)none;
    return t_realloc(given, (size_t)5 << 20);
}
static void *first_usable(void *none) {
    (void)none;
    CHECK(t_usable_size(given) >= 64, "usable size in a new thread");
    return given;
}
static void *first_zeroed(void *none) {
    (void)none;
    char *block = t_calloc(3, 7000);
    CHECK(first_not_zero(block, 21000) < 0, "calloc in a new thread");
    t_free(block);
    return given;
}
static void *first_aligned(void *none) {
    (void)none;
    char *block = t_aligned_alloc(1024, 4096);
    CHECK((uintptr_t)block % 1024 == 0, "aligned_alloc in a new thread");
    t_free(block);
    return given;
}
static void *first_frees(void *none) {
    (void)none;
    t_free(given);
    given = t_malloc(64);
    memset(given, 7, 64);
    return given;
}
static void *first_trims(void *none) {
    (void)none;
    t_malloc_trim(0);
    t_thread_flush();
    return given;
}

static void first_calls(void) {
    void *(*const calls[])(void *) = {first_in_place, first_grows,   first_huge,  first_usable,
                                      first_zeroed,   first_aligned, first_frees, first_trims};
    for (int repeat = 0; repeat < 20; repeat++) {
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            given = t_malloc(64);
            memset(given, 7, 64);
            char *block = result_of(begin(calls[i], NULL));
            CHECK(block && block[0] == 7 && block[59] == 7, "the first call of a thread, %zu", i);
            t_free(block);
        }
    }
}

/* ── The last call ───────────────────────────────────────────────────────────────────────────────────────────────── */

static pthread_key_t early, late;
static atomic_uint destroyed;

/* Called up to four times for a thread, because it sets its value again. */
static void destroy(pthread_key_t key, void *value) {
    char *block = value;
    CHECK(pattern_wrong(block, 3000, 3000) < 0, "data of a thread changed before its end");
    unsigned round = atomic_fetch_add(&destroyed, 1);
    block = t_realloc(block, 90000);
    t_free(block);
    for (size_t size = 1; size < 3000000; size *= 5) t_free(t_malloc(size));
    if (round % 4 == 3) return;
    block = t_malloc(3000);
    pattern_fill(block, 3000, 3000);
    pthread_setspecific(key, block);
}
static void destroy_early(void *value) {
    destroy(early, value);
}
static void destroy_late(void *value) {
    t_free(value);
}
static void *has_data(void *none) {
    char *block = t_malloc(3000);
    pattern_fill(block, 3000, 3000);
    pthread_setspecific(early, block);
    pthread_setspecific(late, t_malloc(100000));
    return none;
}
/* A thread that never allocates before its data is destroyed. */
static void *has_data_of_others(void *block) {
    pthread_setspecific(late, block);
    return NULL;
}
static void last_calls(void) {
    CHECK(pthread_key_create(&early, destroy_early) == 0 && pthread_key_create(&late, destroy_late) == 0, "no keys");
    for (int i = 0; i < 50; i++) {
        result_of(begin(has_data, NULL));
        result_of(begin(has_data_of_others, t_malloc(5000)));
    }
    CHECK(atomic_load(&destroyed) >= 100, "%u calls of a destructor", atomic_load(&destroyed));
}

/* ── The system's limit, met by all at once ──────────────────────────────────────────────────────────────────────── */

/* A sanitizer needs address space of its own, and forked children in which no thread is cancelled. */
#if !defined(T_SANITIZED)

enum { FILLERS = 8, WAYS = 6, LIMIT_MIB = 200 };
static pthread_barrier_t barrier;
static atomic_size_t filled;

static void *fill_one(uintptr_t way, size_t *size) {
    void *p = NULL;
    switch (way) {
    case 0:
        return t_malloc(*size = 144);
    case 1:
        return t_calloc(1, *size = 4096);
    case 2:
        return t_posix_memalign(&p, 128, *size = 512) == 0 ? p : NULL;
    case 3:
        return t_aligned_alloc(128, *size = 17 * 4096);
    case 4:
        *size = 4096; /* what it becomes */
        return t_pvalloc(100);
    default: {
        void *small = t_realloc(NULL, 16);
        void *grown = small ? t_realloc(opaque_pointer(small), *size = 20000) : NULL;
        if (!grown) t_free(small);
        return grown;
    }
    }
}

static void *fill(void *way) {
    void **chain = NULL, **p;
    size_t size = 0;
    pthread_barrier_wait(&barrier);
    errno = 0;
    while ((p = fill_one((uintptr_t)way, &size)) != NULL) {
        CHECK((uintptr_t)way != 1 || first_not_zero(p, size) < 0, "calloc under a limit");
        atomic_fetch_add(&filled, size);
        *p = (void *)chain;
        chain = p;
    }
    pthread_barrier_wait(&barrier);
    while (chain) {
        p = *chain;
        t_free((void *)chain);
        chain = p;
    }
    return NULL;
}

static void fill_together(void *way) {
    pthread_t ids[FILLERS];
    pthread_attr_t small;
    struct rlimit limit = {(rlim_t)LIMIT_MIB << 20, (rlim_t)LIMIT_MIB << 20};
    CHECK(t_mallopt(M_ARENA_MAX, 2) == 1, "mallopt"); /* each of glibc's reserves 64 MiB */
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_barrier_init(&barrier, NULL, FILLERS + 1);
    for (int i = 0; i < FILLERS; i++)
        CHECK(pthread_create(&ids[i], &small, fill, way) == 0, "no thread of 256 KiB under %d MiB", LIMIT_MIB);
    fill(way);
    for (int i = 0; i < FILLERS; i++) result_of(ids[i]);
    size_t bytes = atomic_load(&filled);
    CHECK(bytes > (4 << 20), "only %zu bytes were had under %d MiB", bytes, LIMIT_MIB);
    for (size_t size = 16; size < (1 << 20); size *= 2) {
        void *block = t_malloc(size);
        CHECK(block, "%zu bytes, after all was freed", size);
        t_free(block);
    }
}

static void meet_the_limit(void) {
    for (uintptr_t way = 0; way < WAYS; way++) {
        int status = run_in_child(fill_together, (void *)way);
        CHECK(status == 0, "allocating in way %zu until there is no more: status %#x", (size_t)way, (unsigned)status);
    }
}
#endif

/* ── A heap that is described meanwhile ──────────────────────────────────────────────────────────────────────────── */

static pthread_barrier_t described;

static void *hold_blocks(void *none) {
    enum { BLOCKS = 50000 };
    void **chain = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        void **p = t_malloc(40);
        *p = (void *)chain;
        chain = p;
    }
    pthread_barrier_wait(&described);
    while (chain) {
        void **next = *chain;
        t_free((void *)chain);
        chain = next;
    }
    return none;
}

static void describe(size_t *length) {
    static char text[1 << 18];
    FILE *stream = fmemopen(text, sizeof text, "w");
    CHECK(stream && t_malloc_info(0, stream) == 0, "malloc_info");
    *length = (size_t)ftell(stream);
    fclose(stream);
    CHECK(strncmp(text, "<malloc ", 8) == 0 && strstr(text, "</malloc>"), "malloc_info beside threads: %.40s", text);
}

static void describe_beside_threads(void) {
    enum { THREADS = 4 };
    pthread_t ids[THREADS];
    size_t lengths[3];
    pthread_barrier_init(&described, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) ids[i] = begin(hold_blocks, NULL);
    describe(&lengths[0]); /* while they allocate */
    pthread_barrier_wait(&described);
    describe(&lengths[1]); /* while they free */
    for (int i = 0; i < THREADS; i++) result_of(ids[i]);
    describe(&lengths[2]);
}

/* ── Cancelled while it writes ───────────────────────────────────────────────────────────────────────────────────── */

#if !defined(T_SANITIZED)
static atomic_bool writes;

static void *write_statistics(void *none) {
    for (;;) {
        t_malloc_stats();
        atomic_store(&writes, true);
        pthread_testcancel();
    }
    return none;
}

/* malloc_stats may be a cancellation point. What it held must not be held afterwards. */
static void cancelled_in_statistics(void *none) {
    (void)none;
    dup2(open("/dev/null", O_WRONLY), 2);
    for (int i = 0; i < 20; i++) {
        atomic_store(&writes, false);
        pthread_t id = begin(write_statistics, NULL);
        while (!atomic_load(&writes)) sched_yield();
        pthread_cancel(id);
        result_of(id);
        t_malloc_stats();
        fprintf(stderr, "%p\n", t_realloc(t_malloc(100), 0));
    }
}
#endif

int main(void) {
#if !defined(T_SANITIZED)
    meet_the_limit(); /* before there are stacks of ended threads */
    CHECK(run_in_child(cancelled_in_statistics, NULL) == 0, "a thread was cancelled in malloc_stats");
#endif
    nothing_is_kept();
    begin_and_end();
    first_calls();
    last_calls();
    describe_beside_threads();
    CHECK(t_verify() == 0, "the heap is not whole");
    puts("what three suites ask of threads is so");
    return 0;
}
