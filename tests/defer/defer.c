/* freehold/defer.h, call by call: what waits for whom, what the bound does, and what becomes of a reader whose thread ends, comes
 * late, is offline, or is not there in the child of a fork. */
#include <freehold/defer.h>
#include <freehold/heap.h>

#include "../support/check.h"
#include "../support/processes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SIZE = 64 };

static atomic_int step;

static void wait_for(int n) {
    while (atomic_load(&step) < n) usleep(50);
}

static void *block(void) {
    void *p = fh_malloc(SIZE);
    CHECK(p != NULL, "no memory");
    return p;
}

static void defer(void *p) {
    CHECK(fh_defer_free(p) == 1, "not deferred: errno %d", errno);
}

static void expect_left(size_t bytes, const char *when) {
    size_t left = fh_defer_barrier();
    CHECK(left == bytes, "%s: %zu bytes wait, not %zu", when, left, bytes);
}

/* A reader that does what its steps say. */
static void *reader(void *unused) {
    (void)unused;
    CHECK(fh_reader_register("a slow reader") == 1, "not registered");
    atomic_store(&step, 1);
    wait_for(2);
    fh_quiescent();
    atomic_store(&step, 3);
    wait_for(4);
    fh_reader_offline();
    atomic_store(&step, 5);
    wait_for(6);
    fh_reader_online();
    atomic_store(&step, 7);
    wait_for(8);
    return NULL; /* registered */
}

/* What the statistics say of blocks that wait is what was deferred: JSON and metrics, and the bound. */
static void expect_said(size_t bytes) {
    static char text[1 << 16];
    char wanted[100];
    CHECK(fh_stats_json(text, sizeof text) < sizeof text, "no room");
    snprintf(wanted, sizeof wanted, "\"deferred_bytes\":%zu,", bytes);
    CHECK(strstr(text, wanted), "no %s in %s", wanted, text);
    CHECK(strstr(text, "\"deferred_most\":67108864"), "no bound in %s", text);
    CHECK(fh_stats_metrics(text, sizeof text) < sizeof text, "no room");
    snprintf(wanted, sizeof wanted, "\nfreehold_deferred_bytes %zu\n", bytes);
    CHECK(strstr(text, wanted), "no %s in the metrics", wanted);
}

static void with_a_reader(void) {
    pthread_t thread;
    atomic_store(&step, 0);
    CHECK(pthread_create(&thread, NULL, reader, NULL) == 0, "no thread");
    wait_for(1);
    defer(block());
    CHECK(fh_defer_backlog() == SIZE, "%zu bytes wait", fh_defer_backlog());
    expect_left(SIZE, "the reader has not passed");
    expect_said(SIZE);
    expect_left(SIZE, "nor now");
    atomic_store(&step, 2);
    wait_for(3);
    expect_left(0, "it has passed");
    defer(block());
    expect_left(SIZE, "it has not passed again");
    atomic_store(&step, 4);
    wait_for(5);
    expect_left(0, "it is offline");
    defer(block());
    expect_left(0, "it is offline still");
    atomic_store(&step, 6);
    wait_for(7);
    defer(block());
    expect_left(SIZE, "it is online again");
    fh_safepoint();
    expect_left(0, "the world was stopped");
    defer(block());
    expect_left(SIZE, "and goes on");
    atomic_store(&step, 8);
    pthread_join(thread, NULL);
    expect_left(0, "its thread has ended");
}

/* What a late reader cannot have seen does not wait for it. */
static void *late(void *unused) {
    (void)unused;
    CHECK(fh_reader_register(NULL) == 1, "not registered");
    atomic_store(&step, 2);
    wait_for(3);
    fh_reader_unregister();
    return NULL;
}

static void late_reader(void) {
    pthread_t thread;
    atomic_store(&step, 0);
    CHECK(fh_reader_register("main") == 1, "not registered");
    defer(block());
    for (int i = 0; i < 2000; i++) defer(block()); /* several batches are in the queue */
    CHECK(pthread_create(&thread, NULL, late, NULL) == 0, "no thread");
    wait_for(2);
    size_t left = fh_defer_barrier();
    CHECK(left < 600 * SIZE, "%zu bytes wait for a reader that came later", left);
    atomic_store(&step, 3);
    pthread_join(thread, NULL);
    fh_reader_unregister();
    expect_left(0, "no reader is left");
}

static void no_reader(void) {
    for (int i = 0; i < 3000; i++) defer(fh_malloc((size_t)i * 40));
    defer(fh_malloc((size_t)3 << 20));
    CHECK(fh_defer_free(NULL) == 1, "NULL");
    expect_left(0, "there is no reader");
    fh_quiescent();
    fh_reader_offline();
    fh_reader_online(); /* none of them is for this thread */
    defer(block());
    expect_left(0, "the thread is no reader");
}

static void reallocated(void) {
    CHECK(fh_reader_register("main") == 1, "not registered");
    char *old = fh_malloc(100);
    memcpy(old, "what readers see", 17);
    char *new = fh_defer_realloc(old, 5000);
    CHECK(new &&new != old &&strcmp(new, "what readers see") == 0, "another content");
    void *other = fh_malloc(100);
    CHECK(other != old && strcmp(old, "what readers see") == 0, "the old block is not readable any more");
    errno = 0;
    CHECK(fh_defer_realloc(new, 0) == NULL && errno == EINVAL, "errno %d", errno);
    CHECK(fh_defer_realloc(new, SIZE_MAX / 2) == NULL && errno == ENOMEM, "errno %d", errno);
    fh_free(new);
    fh_free(other);
    expect_left(0, "this thread has passed");
    fh_reader_unregister();
}

static size_t blocks_of(fh_heap *h) {
    fh_heap_figures f;
    CHECK(fh_heap_stats(h, &f) == 0, "no figures");
    return f.count;
}

/* What the deferred free needs for itself is not the heap's in whose scope a thread is: that may end before. */
static void *in_scope(void *unused) {
    (void)unused;
    void *old = block();
    fh_heap *heap = fh_heap_new(NULL);
    CHECK(heap && fh_heap_enter(heap) == 0, "no scope");
    CHECK(fh_reader_register("in a scope") == 1, "not registered");
    defer(old);
    CHECK(fh_heap_leave() == 0 && blocks_of(heap) == 0, "%zu blocks are of the heap", blocks_of(heap));
    CHECK(fh_heap_destroy(heap) == 0, "not destroyed");
    defer(block());
    expect_left(0, "this thread has passed");
    return NULL;
}

/* Blocks of a heap: the copy is of the heap too, and its limit holds. */
static void of_a_heap(void) {
    fh_heap *heap = fh_heap_new(&(fh_heap_options){.hard_limit = 1 << 20});
    CHECK(heap != NULL, "no heap");
    char *p = fh_heap_malloc(heap, 100);
    CHECK(p != NULL, "no memory");
    memset(p, 7, 100);
    char *q = fh_defer_realloc(p, 5000);
    CHECK(q && fh_heap_of(q) == heap && q[99] == 7, "the copy is elsewhere");
    errno = 0;
    CHECK(!fh_defer_realloc(q, 2 << 20) && errno == ENOMEM && q[99] == 7, "a limit was passed: errno %d", errno);
    defer(q);
    expect_left(0, "there is no reader");
    CHECK(blocks_of(heap) == 0 && fh_heap_destroy(heap) == 0, "%zu blocks are left", blocks_of(heap));
}

/* A block above the bound cannot wait. It need not where no reader is. */
static void above_the_bound(void) {
    CHECK(fh_option_set("defer", "1m") == 0, "no such option");
    void *large = fh_malloc((size_t)3 << 20);
    CHECK(fh_reader_register("main") == 1, "not registered");
    errno = 0;
    CHECK(fh_defer_free(large) == 0 && errno == EAGAIN, "a bound of a third: errno %d", errno);
    fh_reader_offline();
    errno = 5;
    CHECK(fh_defer_free(large) == 1 && errno == 5, "errno %d where no reader is online", errno);
    fh_reader_unregister();
    CHECK(fh_option_set("defer", "0") == 0, "no such option");
    defer(block());
    CHECK(fh_option_set("defer", "64m") == 0, "no such option");
    expect_left(0, "nothing was to wait");
}

/* Threads that defer large blocks, one after the other. None has met the bound when it waits for the others. */
enum { THREADS = 8, BOUND = 8 << 20 };

static atomic_size_t deferred;

static void *defers_much(void *first) {
    for (size_t mine = 0, n = *(const size_t *)first; mine < BOUND - 300000; n = 40000) {
        void *p = fh_malloc(n);
        CHECK(p, "no memory");
        n = fh_malloc_usable_size(p);
        if (!fh_defer_free(p)) {
            CHECK(errno == EAGAIN, "errno %d", errno);
            fh_free(p);
            break;
        }
        mine += n;
        atomic_fetch_add(&deferred, n);
    }
    atomic_fetch_add(&step, 1);
    wait_for(THREADS + 1);
    return NULL;
}

static void bound_of_threads(size_t first) {
    pthread_t thread[THREADS];
    CHECK(fh_option_set("defer", "8m") == 0 && fh_reader_register("slow") == 1, "not registered");
    atomic_store(&deferred, 0);
    atomic_store(&step, 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&thread[i], NULL, defers_much, &first) == 0, "no thread");
        wait_for(i + 1);
    }
    CHECK(atomic_load(&deferred) <= BOUND + THREADS * ((size_t)256 << 10), "%zu bytes wait", atomic_load(&deferred));
    atomic_fetch_add(&step, 1);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    fh_reader_unregister();
    expect_left(0, "the threads have ended");
    CHECK(fh_option_set("defer", "64m") == 0, "no such option");
}

#ifndef T_SANITIZED

/* In a child: until the bound is met. */
static void fill(void *unused) {
    (void)unused;
    CHECK(fh_option_set("defer", "1m") == 0, "no such option");
    CHECK(fh_reader_register("sleeper") == 1, "not registered");
    dprintf(2, "thread %ld\n", syscall(SYS_gettid));
    size_t n = 0;
    void *p;
    while (fh_defer_free(p = block()) == 1) {
        CHECK(++n < 100000, "no bound after %zu blocks", n);
    }
    CHECK(errno == EAGAIN, "errno %d", errno);
    size_t held = fh_defer_backlog();
    CHECK(held == n * SIZE && held <= 1 << 20 && held >= (1 << 20) - SIZE, "%zu bytes wait at the bound", held);
    CHECK(fh_defer_free(p) == 0 && fh_defer_backlog() == held, "again");
    fh_quiescent();
    CHECK(fh_defer_free(p) == 1, "errno %d after the reader passed", errno);
    expect_left(0, "all have passed");
    fflush(stdout);
}

/* In a child: small blocks fill the queue before their bytes reach the bound. */
static void fill_queue(void *unused) {
    (void)unused;
    CHECK(fh_reader_register("sleeper") == 1, "not registered");
    dprintf(2, "thread %ld\n", syscall(SYS_gettid));
    size_t n = 0;
    while (fh_defer_free(fh_malloc(16)) == 1) CHECK(++n < 3000000, "no bound after %zu blocks", n);
    CHECK(errno == EAGAIN && fh_defer_backlog() == n * 16 && n > 2000000, "errno %d after %zu blocks", errno, n);
    fh_quiescent();
    fh_defer_barrier(); /* frees, and has slots for the rest then */
    expect_left(0, "all have passed");
}

/* In a child whose parent's reader forked. */
static void fill_forked(void *unused) {
    (void)unused;
    CHECK(fh_option_set("defer", "1m") == 0, "no such option");
    dprintf(2, "thread %ld\n", syscall(SYS_gettid));
    while (fh_defer_free(fh_malloc(5000)) == 1) continue;
    CHECK(errno == EAGAIN, "errno %d", errno);
}

static void bound(void (*fills)(void *unused)) {
    char text[4096];
    int out[2], saved = dup(2);
    CHECK(pipe(out) == 0 && dup2(out[1], 2) == 2, "no pipe");
    int status = run_in_child(fills, NULL);
    dup2(saved, 2);
    close(out[1]);
    ssize_t n = read(out[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    CHECK(status == 0, "the child ended with %#x: %s", (unsigned)status, text);
    char wanted[100];
    snprintf(wanted, sizeof wanted, "wait for reader \"sleeper\" of thread %ld,",
             strtol(text + strlen("thread "), NULL, 10));
    char *said = strstr(text, wanted);
    CHECK(said != NULL && !strstr(said + 1, "wait for reader"), "the reader should be named once: %s", text);
}

static void *defers_three(void *unused) {
    (void)unused;
    for (int i = 0; i < 3; i++) defer(block());
    atomic_store(&step, 10);
    wait_for(11);
    return NULL;
}

/* In a child: what the parent's thread had not handed in is the new thread's. */
static void *takes_over(void *unused) {
    (void)unused;
    defer(block());
    CHECK(fh_defer_backlog() == (size_t)4 * SIZE, "%zu bytes wait, not four blocks", fh_defer_backlog());
    expect_left(0, "the child has no reader");
    return NULL;
}

static void with_open_batch(void *unused) {
    (void)unused;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, takes_over, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(fh_verify() == 0, "the child's heap is damaged");
}

static void forked_with_open_batch(void) {
    pthread_t thread;
    atomic_store(&step, 0);
    CHECK(pthread_create(&thread, NULL, defers_three, NULL) == 0, "no thread");
    wait_for(10);
    int status = run_in_child(with_open_batch, NULL);
    CHECK(status == 0, "the child ended with %#x", (unsigned)status);
    atomic_store(&step, 11);
    pthread_join(thread, NULL);
    expect_left(0, "its thread has ended");
}

static fh_heap *tenant;

static void *defers_of_heap(void *unused) {
    (void)unused;
    for (int i = 0; i < 3; i++) CHECK(fh_defer_free(fh_heap_malloc(tenant, 64)) == 1, "not deferred");
    atomic_store(&step, 10);
    wait_for(11);
    return NULL;
}

static void *defers_one(void *unused) {
    (void)unused;
    defer(block());
    expect_left(0, "the child has no reader");
    return NULL;
}

/* In a child: nothing of the heap waits once the barrier has returned 0, not with the parent's thread either. */
static void ends_heap(void *unused) {
    (void)unused;
    pthread_t thread;
    expect_left(0, "the child has no reader");
    CHECK(fh_heap_destroy(tenant) == 0, "the heap does not end");
    CHECK(pthread_create(&thread, NULL, defers_one, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(fh_verify() == 0, "the child's heap is damaged");
}

static void forked_with_blocks_of_a_heap(void) {
    pthread_t thread;
    atomic_store(&step, 0);
    tenant = fh_heap_new(NULL);
    CHECK(tenant && pthread_create(&thread, NULL, defers_of_heap, NULL) == 0, "no thread");
    wait_for(10);
    int status = run_in_child(ends_heap, NULL);
    CHECK(status == 0, "the child ended with %#x", (unsigned)status);
    atomic_store(&step, 11);
    pthread_join(thread, NULL);
    expect_left(0, "its thread has ended");
    CHECK(fh_heap_destroy(tenant) == 0, "the heap does not end");
}

/* The parent's reader is not there in a child, and what waited for it can be freed. */
static void in_child(void *unused) {
    (void)unused;
    expect_left(0, "the reader is in the parent");
    CHECK(fh_reader_register("child") == 1, "not registered");
    defer(block());
    fh_reader_unregister();
    expect_left(0, "in the child");
    CHECK(fh_verify() == 0, "the child's heap is damaged");
}

static void forked(void) {
    pthread_t thread;
    atomic_store(&step, 0);
    CHECK(pthread_create(&thread, NULL, reader, NULL) == 0, "no thread");
    wait_for(1);
    for (int i = 0; i < 1000; i++) defer(block());
    expect_left((size_t)1000 * SIZE, "before the fork");
    int status = run_in_child(in_child, NULL);
    CHECK(status == 0, "the child ended with %#x", (unsigned)status);
    expect_left((size_t)1000 * SIZE, "after the fork");
    for (int next = 2; next <= 8; next += 2) {
        atomic_store(&step, next);
        if (next < 8) wait_for(next + 1);
    }
    pthread_join(thread, NULL);
    expect_left(0, "its thread has ended");
}

#endif

int main(void) {
    no_reader();
    with_a_reader();
    late_reader();
    reallocated();
    of_a_heap();
    above_the_bound();
    bound_of_threads(40000);
    bound_of_threads(300000);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_scope, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
#ifndef T_SANITIZED
    bound(fill);
    bound(fill_queue);
    CHECK(fh_reader_register("sleeper") == 1, "not registered");
    bound(fill_forked);
    fh_reader_unregister();
    forked();
    forked_with_open_batch();
    forked_with_blocks_of_a_heap();
#else
    skip_part("the bound and fork: the sanitizer does not survive a fork from a program with threads");
#endif
    CHECK(fh_verify() == 0, "the heap is damaged");
    puts("deferred as it should be");
    return 0;
}
