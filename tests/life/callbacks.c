/* Ends in awkward places: a thread or the process ends from within something that the allocator or the C library called
 * in the middle of an allocation's way, or in a destructor, and everybody else goes on.
 *
 *     pthread_exit, and a cancellation that was waiting, in the limit's callback      exit() there (in a child process)
 *     a thread cancelled while it only allocates, with cancellation deferred          or switched off meanwhile
 *     exit() in a key's destructor, in an atexit handler's allocation, beside threads that allocate
 *     _exit in a signal handler that interrupted an allocation
 *
 * After each end the limit's callback must be callable again, blocks can be had, and what the thread had is back: what it had
 * cached, and the block of the call that it left. The heap does not grow with the number of such ends. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <freehold/freehold.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)

enum { EXIT_THREAD, BE_CANCELLED, EXIT_PROCESS, RETURN };
static atomic_int what_to_do, called;

static void callback(size_t in_use, size_t limit) {
    (void)in_use, (void)limit;
    atomic_fetch_add(&called, 1);
    switch (atomic_load(&what_to_do)) {
    case EXIT_THREAD:
        pthread_exit(NULL);
    case BE_CANCELLED:
        /* Mostly it is waiting here already. A thread that made this one and was not let run since has still to ask. */
        for (int i = 0; i < 60000; i++) usleep(1000);
        break;
    case EXIT_PROCESS:
        exit(7);
    default:
        break;
    }
}

/* Allocates until the callback has been called (and returned), or the thread is over in it. */
static void *meet_the_limit(void *unused) {
    enum { MOST = 400 };
    static __thread void *block[MOST];
    int before = atomic_load(&called), n = 0;
    while (n < MOST && atomic_load(&called) == before && (block[n] = fh_malloc(MIB / 2)) != NULL) n++;
    while (n > 0) fh_free(block[--n]);
    return unused;
}

/* The same, and blocks that it has when it ends are freed by a clean-up handler, as a program's own would. Volatile: the compiler
 * does not know that the handler may run within fh_malloc, and would keep the fields in registers. */
typedef struct {
    size_t size;
    void *volatile block[1000];
    volatile int n;
} pile;

static void clean_up(void *argument) {
    pile *p = argument;
    while (p->n > 0) {
        int last = p->n - 1;
        p->n = last;
        fh_free(p->block[last]);
    }
}

static void *end_at_the_limit(void *size) {
    pile mine = {.size = *(size_t *)size, .n = 0};
    pthread_cleanup_push(clean_up, &mine);
    while (mine.n < 1000) {
        void *p = fh_malloc(mine.size);
        if (!p) break;
        mine.block[mine.n] = p;
        mine.n = mine.n + 1;
    }
    pthread_cleanup_pop(1);
    CHECK(0, "the thread went on after its end");
    return NULL;
}

static size_t statistic(const char *key) {
    static char text[256 << 10];
    CHECK(fh_stats_json(text, sizeof text) < sizeof text, "the statistics are longer than %zu bytes", sizeof text);
    const char *found = strstr(text, key);
    CHECK(found, "no %s in the statistics", key);
    return strtoull(found + strlen(key), NULL, 10);
}

/* What the allocator counts as the program's, and as cached by threads. */
static size_t live_bytes(void) {
    return statistic("\"live_bytes\":");
}

static size_t cached_bytes(void) {
    return statistic("\"cached_bytes\":");
}

/* The callback is called after the allocation that passed the limit. So the thread ends with a block that it was not given yet,
 * from a bin, a cached run or the store. Nobody has written to it, so that only the allocator's own figures show it at once. */
static void threads_that_end_in_the_callback(void) {
    CHECK(fh_limit_set(20 * MIB, 60 * MIB, callback) == 0, "no limit");
    size_t sizes[] = {40000, MIB / 2, 3 * MIB}, early = 0;
    for (int i = 0; i < 60; i++) {
        int way = i % 2 ? EXIT_THREAD : BE_CANCELLED;
        atomic_store(&what_to_do, way);
        int before = atomic_load(&called);
        size_t live = live_bytes();
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, end_at_the_limit, &sizes[i / 2 % 3]) == 0, "no thread");
        if (way == BE_CANCELLED) pthread_cancel(thread);
        void *result = NULL;
        pthread_join(thread, &result);
        CHECK(atomic_load(&called) > before, "end %d: the callback was not called any more", i);
        CHECK((result == PTHREAD_CANCELED) == (way == BE_CANCELLED), "end %d: the thread ended in another way", i);
        size_t left = live_bytes() - live;
        CHECK(left == 0, "end %d, of blocks of %zu: %zu bytes are lost", i, sizes[i / 2 % 3], left);
        /* And whoever comes next is asked again. */
        atomic_store(&what_to_do, RETURN);
        before = atomic_load(&called);
        meet_the_limit(NULL);
        CHECK(atomic_load(&called) > before, "after end %d nobody is called any more", i);
        fh_malloc_trim(0);
        CHECK(cached_bytes() == 0, "end %d: %zu bytes stay cached", i, cached_bytes());
        if (i == 20) early = resident_bytes();
    }
    size_t late = resident_bytes();
    fh_limit_set(0, 0, NULL);
    CHECK(late <= early + early / 5 + MIB, "40 ends more: %zu KiB, before: %zu KiB", late >> 10, early >> 10);
}

/* The program learns of a block's new place when realloc returns. So in a callback within realloc it still has the old one. */
static void free_grown(void *block) {
    fh_free(*(void *volatile *)block);
}

static void *end_while_it_grows(void *unused) {
    void *volatile block = fh_malloc(2 * MIB); /* as above */
    pthread_cleanup_push(free_grown, (void *)&block);
    for (size_t size = 4 * MIB; size <= 256 * MIB; size *= 2) {
        void *p = fh_realloc(block, size);
        CHECK(p != NULL, "no %zu bytes", size);
        block = p;
    }
    pthread_cleanup_pop(1);
    CHECK(0, "the thread went on after its end");
    return unused;
}

static void threads_that_end_in_realloc(void) {
    CHECK(fh_limit_set(20 * MIB, 0, callback) == 0, "no limit");
    for (int i = 0; i < 20; i++) {
        atomic_store(&what_to_do, EXIT_THREAD);
        size_t live = live_bytes();
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, end_while_it_grows, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
        size_t left = live_bytes() - live;
        CHECK(left == 0, "end %d in realloc: %zu bytes are lost", i, left);
    }
    fh_limit_set(0, 0, NULL);
}

/* ── Cancellation while a thread does nothing but allocate ───────────────────────────────────────────────────────── */

static void *allocate_for_ever(void *off) {
    if (off) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    uint64_t seed = (uintptr_t)&seed;
    void *block[50] = {0};
    for (unsigned turn = 0; turn < 2000 || !off; turn++) {
        for (int i = 0; i < 50; i++) {
            fh_free(block[i]);
            block[i] = fh_malloc(1 + random_below(&seed, turn % 100 ? 2000 : 3000000));
            CHECK(block[i] != NULL, "no memory");
        }
        if (turn % 16 == 0) {
            for (int i = 0; i < 50; i++) fh_free(block[i]), block[i] = NULL;
            if (off) continue;
            pthread_testcancel(); /* the only cancellation point: malloc and free must be none */
        }
    }
    for (int i = 0; i < 50; i++) fh_free(block[i]);
    return off;
}

static void cancelled_threads(void) {
    for (int i = 0; i < 60; i++) {
        pthread_t thread[2];
        void *off = i % 2 ? &off : NULL, *result;
        for (int k = 0; k < 2; k++) CHECK(pthread_create(&thread[k], NULL, allocate_for_ever, off) == 0, "no thread");
        usleep((useconds_t)(i * 50));
        for (int k = 0; k < 2; k++) pthread_cancel(thread[k]);
        for (int k = 0; k < 2; k++) {
            pthread_join(thread[k], &result);
            CHECK(result == (off ? off : PTHREAD_CANCELED), "the thread ended in another way");
        }
    }
}

/* ── Ends of the process, each in a child ────────────────────────────────────────────────────────────────────────── */

static void keep_allocating(void) {
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, allocate_for_ever, NULL) == 0) pthread_detach(thread);
    }
    usleep(2000);
}

static void use_heap(void) {
    void *block[100];
    for (size_t i = 0; i < 100; i++) CHECK((block[i] = fh_calloc(1, i * 300)) != NULL, "no memory at the end");
    for (size_t i = 0; i < 100; i++) fh_free(block[i]);
}

static void in_callback(void) {
    atexit(use_heap);
    keep_allocating();
    atomic_store(&what_to_do, EXIT_PROCESS);
    fh_limit_set(20 * MIB, 0, callback);
    meet_the_limit(NULL);
    pause(); /* another thread was the one that is called */
}

static pthread_key_t key;
static void exit_here(void *value) {
    fh_free(value);
    use_heap();
    exit(7);
}
static void *with_key(void *unused) {
    pthread_setspecific(key, fh_malloc(100));
    return unused;
}
static void in_destructor(void) {
    atexit(use_heap);
    keep_allocating();
    pthread_key_create(&key, exit_here);
    pthread_t thread;
    pthread_create(&thread, NULL, with_key, NULL);
    pthread_join(thread, NULL);
    pause();
}

static void at_exit(void) {
    use_heap();
    fh_malloc_trim(0);
    _exit(7);
}
static void in_handler(void) {
    atexit(at_exit);
    keep_allocating();
    exit(0);
}

static void leave(int number) {
    (void)number;
    _exit(7);
}
static void in_signal(void) {
    signal(SIGALRM, leave);
    struct itimerval soon = {{0, 0}, {0, 3000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    allocate_for_ever(NULL);
}

static void *exits(void *unused) {
    usleep(1000);
    pthread_exit(unused);
}
/* The main thread leaves by pthread_exit: the process ends with its last thread, with status 0. */
static void main_thread_first(void) {
    pthread_t thread;
    use_heap();
    pthread_create(&thread, NULL, exits, NULL);
    pthread_detach(thread);
    pthread_exit(NULL);
}

static void in_child(const char *name, void (*end)(void), int status_wanted) {
    for (int i = 0; i < 10; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(60);
            end();
            _exit(9);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid, "no child");
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == status_wanted, "%s: the process ended with %#x", name,
              status);
    }
}

int main(void) {
    in_child("exit in the limit's callback", in_callback, 7);
    in_child("exit in a key's destructor", in_destructor, 7);
    in_child("_exit in an atexit handler", in_handler, 7);
    in_child("_exit in a signal handler", in_signal, 7);
    in_child("the main thread first", main_thread_first, 0);
    threads_that_end_in_the_callback();
    threads_that_end_in_realloc();
    cancelled_threads();
    puts("every end was one");
    return 0;
}
