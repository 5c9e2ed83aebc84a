/* Threads that leave malloc and free in the middle, which POSIX allows to neither: they are cancelled asynchronously there, or
 * a signal handler jumps out. What they were doing is lost, and no more than that: the process goes on, no block is handed out
 * twice, and what is lost is bounded.
 *
 *   cancel   each thread allocates and frees until it is cancelled, and its cache is handed on as it ends
 *   jump     a few threads are made to jump out again and again, and go on with the same cache */
#include "../support/alloc.h"
#include "../support/check.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>

enum { CANCELLED = 600, AT_ONCE = 4, HELD = 100, LOST_MOST = 128 << 10 };

/* A block is entered here by the thread that got it, and taken out before it is freed. What a thread has left here when it was
 * cancelled is live for ever. Size and key are entered first. */
typedef struct {
    char *_Atomic block;
    _Atomic size_t size;
    _Atomic uint64_t key;
} entry;

static atomic_ulong events;
static unsigned long jumps; /* FREEHOLD_TEST_JUMPS */

/* The first and the last bytes of a block, so that most of the time is spent inside the allocator. */
static void write_key(char *p, size_t size, uint64_t key) {
    memcpy(p, &key, sizeof key);
    memcpy(p + size - sizeof key, &key, sizeof key);
}

static void check_entry(const entry *e) {
    char *p = atomic_load(&e->block);
    uint64_t first, last, key = atomic_load(&e->key);
    if (!p) return;
    memcpy(&first, p, sizeof first);
    memcpy(&last, p + e->size - sizeof last, sizeof last);
    CHECK(first == key && last == key, "a block of %zu bytes was handed out twice", e->size);
}

/* One step of a thread: frees or allocates block i. `armed`: it may be interrupted now, for good. */
static void step(entry *e, uint64_t random, _Atomic bool *armed) {
    char *p = atomic_load(&e->block);
    if (p) {
        check_entry(e);
        atomic_store(&e->block, NULL);
        atomic_store(armed, true);
        t_free(p);
        atomic_store(armed, false);
        return;
    }
    uint64_t kind = random % 100, bits = random >> 8;
    size_t size = (kind < 80 ? bits % 300 : kind < 98 ? bits % 5000 : bits % 150000) + 2 * sizeof(uint64_t);
    atomic_store(armed, true);
    p = t_malloc(size);
    atomic_store(armed, false);
    CHECK(p, "malloc(%zu): NULL", size);
    write_key(p, size, random);
    atomic_store(&e->size, size);
    atomic_store(&e->key, random);
    atomic_store(&e->block, p);
}

/* Bytes that the heap has taken, live or not. */
static size_t heap_bytes(void) {
    t_mallinfo2_result m = t_mallinfo2();
    return m.uordblks + m.fordblks + m.hblkhd;
}

/* ── Cancelled ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static entry left[CANCELLED][HELD];
static _Atomic unsigned begun;

static void *until_cancelled(void *number) {
    static _Atomic bool unused;
    entry *mine = left[(uintptr_t)number];
    uint64_t random = (uintptr_t)number;
    int before;
    atomic_fetch_add(&begun, 1);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    for (;;) {
        uint64_t next = random_next(&random);
        step(&mine[next % HELD], random_next(&random), &unused);
    }
    return NULL;
}

static void cancel(void) {
    uint64_t seed = random_seed();
    for (uintptr_t i = 0; i < CANCELLED; i += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (uintptr_t k = 0; k < AT_ONCE; k++) {
            CHECK(pthread_create(&threads[k], NULL, until_cancelled, (void *)(i + k)) == 0, "pthread_create");
        }
        while (atomic_load(&begun) < i + AT_ONCE) sched_yield();
        for (volatile uint64_t wait = random_below(&seed, 200000); wait > 0; wait--) {
        }
        for (int k = 0; k < AT_ONCE; k++) CHECK(pthread_cancel(threads[k]) == 0, "pthread_cancel");
        for (int k = 0; k < AT_ONCE; k++) {
            void *result;
            CHECK(pthread_join(threads[k], &result) == 0 && result == PTHREAD_CANCELED, "a thread was not cancelled");
        }
    }
    atomic_store(&events, CANCELLED);
}

/* ── Jumping ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static entry held[AT_ONCE][HELD];
static __thread sigjmp_buf way_out;
static __thread _Atomic bool armed;

static void on_signal(int number) {
    (void)number;
    if (!atomic_exchange(&armed, false)) return;
    atomic_fetch_add(&events, 1);
    siglongjmp(way_out, 1);
}

/* A signal for the calling thread, some thousand times a second. */
static timer_t interrupt_often(void) {
    timer_t timer;
    struct sigevent event;
    struct itimerspec often = {{0, 40000}, {0, 40000}};
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event._sigev_un._tid = gettid();
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &often, NULL) == 0, "a timer");
    return timer;
}

static void *until_enough(void *number) {
    entry *mine = held[(uintptr_t)number];
    static __thread uint64_t random;
    random = (uintptr_t)number + (uint64_t)getpid() * 1000;
    timer_t timer = interrupt_often();
    (void)sigsetjmp(way_out, 1);
    while (atomic_load(&events) < jumps) {
        uint64_t next = random_next(&random);
        step(&mine[next % HELD], random_next(&random), &armed);
    }
    timer_delete(timer);
    for (int i = 0; i < HELD; i++) check_entry(&mine[i]);
    return NULL;
}

static void jump(void) {
    pthread_t threads[AT_ONCE];
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, NULL);
    for (uintptr_t k = 0; k < AT_ONCE; k++) {
        CHECK(pthread_create(&threads[k], NULL, until_enough, (void *)k) == 0, "pthread_create");
    }
    for (int k = 0; k < AT_ONCE; k++) pthread_join(threads[k], NULL);
}

/* ── Afterwards ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* New blocks of all sizes are none of those that are live. */
static void check_all(void) {
    static entry more[20000];
    _Atomic bool unused;
    uint64_t random = 3;
    for (int i = 0; i < 20000; i++) step(&more[i], random_next(&random), &unused);
    size_t live = 0;
    for (int i = 0; i < CANCELLED; i++) {
        for (int k = 0; k < HELD; k++) {
            check_entry(&left[i][k]);
            if (atomic_load(&left[i][k].block)) live += left[i][k].size;
        }
    }
    for (int i = 0; i < AT_ONCE; i++) {
        for (int k = 0; k < HELD; k++) check_entry(&held[i][k]);
    }
    for (int i = 0; i < 20000; i++) {
        check_entry(&more[i]);
        t_free(atomic_load(&more[i].block));
    }
    t_malloc_trim(0);
    size_t heap = heap_bytes(), lost = heap > live ? heap - live : 0;
    unsigned long n = atomic_load(&events);
    printf("%lu events, %zu KiB live, %zu KiB lost or kept: %zu bytes an event\n", n, live >> 10, lost >> 10, lost / n);
    CHECK(lost / n < LOST_MOST, "%zu bytes are lost with each event", lost / n);
}

int main(int count, char **words) {
    CHECK(count == 2, "usage: %s cancel|jump", words[0]);
    alarm(600);
    jumps = env_number("FREEHOLD_TEST_JUMPS", 4000);
    strcmp(words[1], "cancel") == 0 ? cancel() : jump();
    check_all();
    return 0;
}
