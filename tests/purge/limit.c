/* A limit of the program's own, 64 MiB: met, it is NULL and ENOMEM and never the end; the program can then say so, and what
 * it frees it can have again. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <errno.h>
#include <pthread.h>

#if !defined(T_EMBED)
extern int fh_limit_set(size_t soft, size_t hard, void (*callback)(size_t in_use, size_t limit));
#endif

enum { THREADS = 6 };
static const size_t limit = (size_t)64 << 20;

/* Blocks chained through themselves, so that the list of them costs nothing. */
typedef struct block {
    struct block *next;
} block;

static size_t fill(size_t size, block **chain) {
    size_t bytes = 0;
    for (;;) {
        errno = 0;
        block *b = t_malloc(size);
        if (!b) break;
        memset(b, 1, size);
        b->next = *chain;
        *chain = b;
        bytes += size;
        CHECK(bytes <= limit, "%zu bytes in blocks of %zu, beyond the limit of %zu", bytes, size, limit);
    }
    CHECK(errno == ENOMEM, "refused with errno %d", errno);
    return bytes;
}

static void drop(block **chain) {
    while (*chain) {
        block *next = (*chain)->next;
        t_free(*chain);
        *chain = next;
    }
}

/* After a refusal, what an error handler does. */
static void handle_error(void) {
    char *parts[40];
    for (int i = 0; i < 40; i++) {
        parts[i] = t_malloc(100 + (size_t)(i % 8) * 150);
        CHECK(parts[i], "%d blocks after the refusal there was no memory for the message", i);
        memset(parts[i], 1, 100);
    }
    for (int i = 0; i < 40; i++) t_free(parts[i]);
}

static void each_size(size_t before) {
    static const size_t sizes[] = {16, 64, 1000, 5000, 60000, 100000, 1000000, 1500000, 3 << 20, 20 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int round = 0; round < 2; round++) {
            block *chain = NULL;
            size_t bytes = fill(sizes[i], &chain), now = resident_bytes(), resident = now > before ? now - before : 0;
            if (round == 0) printf("blocks of %8zu: %5.1f MiB until NULL\n", sizes[i], (double)bytes / 1048576);
            /* What is missing is rounding, the reserve, and pieces of chunks that a run of that length does not fit in. */
            CHECK(bytes >= limit / 2, "%zu bytes in blocks of %zu, half of the limit", bytes, sizes[i]);
            CHECK(resident <= limit + (8 << 20), "%zu MiB resident", resident >> 20);
            handle_error();
            drop(&chain);
        }
    }
}

/* realloc keeps the old block when it is refused. */
static void growing(void) {
    size_t size = 1 << 20;
    char *p = t_malloc(size);
    CHECK(p, "the first MiB");
    for (;;) {
        memset(p, (int)(size >> 20), size);
        char *q = t_realloc(p, size + (1 << 20));
        if (!q) break;
        p = q;
        size += 1 << 20;
        CHECK(size <= limit, "grown to %zu", size);
    }
    CHECK(p[0] == (char)(size >> 20) && p[size - 1] == p[0], "a refused realloc touched the block");
    CHECK(size > limit / 3, "a block could only grow to %zu MiB", size >> 20);
    t_free(p);
    CHECK(t_malloc(PTRDIFF_MAX - 4096) == NULL, "more than there is");
}

static pthread_barrier_t together;

static void *compete(void *result) {
    block *chain = NULL;
    size_t bytes = 0;
    pthread_barrier_wait(&together);
    for (block *b; (b = t_malloc(2000)); bytes += 2000) {
        memset(b, 1, 2000);
        b->next = chain;
        chain = b;
    }
    *(size_t *)result = bytes;
    pthread_barrier_wait(&together);
    drop(&chain);
    return NULL;
}

/* Several threads at the limit at the same time: together they do not pass it. */
static void competing(void) {
    pthread_t ids[THREADS];
    size_t bytes[THREADS], sum = 0;
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&ids[i], NULL, compete, &bytes[i]) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        sum += bytes[i];
    }
    printf("%d threads together: %.1f MiB\n", THREADS, (double)sum / 1048576);
    CHECK(sum <= limit && sum >= limit / 2, "%zu bytes of %zu", sum, limit);
}

/* ── The callback ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* volatile, because glibc declares malloc as a function that calls nothing in this file: the compiler would keep what the
 * callback changes in a register over the call. */
static block *volatile cache_of_program;
static volatile int soft_calls, hard_calls;

static void drop_cache(void) {
    block *chain = cache_of_program;
    cache_of_program = NULL;
    drop(&chain);
}

static void give_up_cache(size_t in_use, size_t which) {
    CHECK(in_use > 0, "nothing is in use");
    /* It may allocate as well. */
    void *p = t_malloc(40);
    t_free(p);
    if (which == limit)
        hard_calls++;
    else
        soft_calls++;
    drop_cache();
}

/* A program whose cache grows without end, but for the callback: it never sees NULL. */
static void with_callback(size_t soft, size_t hard, size_t size) {
    CHECK(fh_limit_set(soft, hard, give_up_cache) == 0, "fh_limit_set");
    soft_calls = hard_calls = 0;
    for (size_t bytes = 0; bytes < 4 * limit; bytes += size) {
        block *b = t_malloc(size);
        CHECK(b, "NULL after %zu bytes, %d soft and %d hard calls", bytes, soft_calls, hard_calls);
        memset(b, 1, size);
        b->next = cache_of_program;
        cache_of_program = b;
    }
    printf("four times the limit in blocks of %zu: %d calls at the soft limit, %d at the hard one\n", size, soft_calls,
           hard_calls);
    CHECK(soft ? soft_calls >= 4 : hard_calls >= 3, "%d soft and %d hard calls", soft_calls, hard_calls);
    CHECK(!soft || hard_calls == 0, "the hard limit was met although the callback freed at the soft one");
    drop_cache();
}

static int passed;

static void only_count(size_t in_use, size_t which) {
    (void)in_use;
    passed += which != limit;
}

/* A callback that frees nothing is called where the soft limit is passed, and again for each further 32nd of it. */
static void each_32nd(void) {
    const size_t soft = limit / 2, end = limit / 8 * 7;
    CHECK(fh_limit_set(soft, limit, only_count) == 0, "fh_limit_set");
    for (size_t bytes = 0; bytes < end; bytes += 5000) {
        block *b = t_malloc(5000);
        CHECK(b, "NULL after %zu bytes", bytes);
        b->next = cache_of_program;
        cache_of_program = b;
    }
    int most = (int)((limit - soft) / (soft / 32)) + 1;
    printf("three quarters of the soft limit beyond it: %d calls\n", passed);
    CHECK(passed >= 12 && passed <= most, "%d calls, %d are the most", passed, most);
    drop_cache();
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    t_free(t_malloc(1));
    size_t before = resident_bytes();
    each_size(before);
    growing();
    competing();
    each_size(before);
    CHECK(fh_limit_set(2, 1, NULL) == -1 && errno == EINVAL, "soft beyond hard");
    CHECK(fh_limit_set(0, 4096, NULL) == -1 && errno == EINVAL, "a limit of a page");
    with_callback(limit / 2, limit, 5000);
    with_callback(limit / 2, limit, 3 << 20);
    with_callback(0, limit, 5000);
    with_callback(0, limit, 300000);
    each_32nd();
    /* And without a limit again. */
    CHECK(fh_limit_set(0, 0, NULL) == 0, "no limit");
    void *p = t_malloc(limit * 2);
    CHECK(p, "twice the former limit");
    t_free(p);
    CHECK(t_verify() == 0, "the heap is not whole");
    return 0;
}
