// SPDX-License-Identifier: MIT OR Apache-2.0
// Baseline: an fc_malloc-like allocator (2013), written from its description. Threads never wait for one
// another: what a thread frees goes, in batches of 16, into a ring of its own, which a collector thread
// reads; the collector gives batches back through a ring for each thread and class, to whoever asked for that
// class. Rings have one writer and one reader. Fresh memory comes in chunks of 4 MiB; what is larger than 32
// KiB is mapped directly.
//
// On fewer processors than busy threads and one more, the collector falls behind, and memory grows by what is
// freed in the meantime: 2.7 GB instead of 2 MB where one thread hands 50 M blocks to another on two cores.
//
// As in the original the collector never sleeps: it yields when it has nothing to do, and so burns what is
// left of a processor. A thread that finds its ring empty does not wait for the collector either; it cuts
// fresh memory.
//
//     thread: local list → (16) → garbage ring ─→ collector: store by class ─→ refill ring of a class → local list
#define _GNU_SOURCE
#include "ancestor.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

const char ancestor_name[] = "fc-like";
const size_t ancestor_limit = 32768;
const bool ancestor_headless = false;
const bool ancestor_uses_libc = false;

enum { FC_CLASSES = 85, BATCH = 16, LOCAL_MAX = 2 * BATCH, GARBAGE = 1024, REFILL = 64, MAX_THREADS = 4096, RUN = 64 };

// A batch is a chain of 16 cells; the second word of the first links batches in the collector's store.
struct cell {
    struct cell *next;
    struct cell *next_batch;
};

struct refill_ring {
    _Atomic(uint32_t) written, taken;
    struct cell *batches[REFILL];
};

struct local {
    struct cell *cells;
    uint32_t count;
};

struct thread {
    _Atomic(bool) in_use;
    _Atomic(uint64_t) wanted[2]; // a bit for each class that this thread has ever had to ask for
    _Atomic(uint32_t) garbage_written, garbage_taken;
    struct {
        struct cell *batch;
        uint32_t class;
    } garbage[GARBAGE];
    struct refill_ring refills[FC_CLASSES];
    struct local locals[FC_CLASSES];
    char *at, *end;
};

static _Atomic(struct thread *) threads[MAX_THREADS];
static _Atomic(uint32_t) thread_count;
static __thread struct thread *self __attribute__((tls_model("initial-exec")));
static __thread bool ended __attribute__((tls_model("initial-exec")));
static struct cell *store[FC_CLASSES]; // the collector's alone
static pthread_key_t key;
static _Atomic(bool) running, key_made;

// ---------------------------------------------------------------------------------------------------- collector

// Reads one garbage ring to its end. Returns whether there was anything.
static bool collect(struct thread *thread) {
    uint32_t taken = atomic_load_explicit(&thread->garbage_taken, memory_order_relaxed);
    uint32_t written = atomic_load_explicit(&thread->garbage_written, memory_order_acquire);
    for (uint32_t at = taken; at != written; at++) {
        struct cell *batch = thread->garbage[at % GARBAGE].batch;
        uint32_t class = thread->garbage[at % GARBAGE].class;
        batch->next_batch = store[class];
        store[class] = batch;
    }
    atomic_store_explicit(&thread->garbage_taken, written, memory_order_release);
    return written != taken;
}

static bool refill(struct thread *thread) {
    bool worked = false;
    for (uint32_t class = 0; class < FC_CLASSES; class ++) {
        uint64_t bit = UINT64_C(1) << (class % 64);
        if (store[class] == NULL ||
            (atomic_load_explicit(&thread->wanted[class / 64], memory_order_relaxed) & bit) == 0) {
            continue;
        }
        struct refill_ring *ring = &thread->refills[class];
        uint32_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
        uint32_t taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
        while (store[class] != NULL && written - taken < REFILL) {
            ring->batches[written++ % REFILL] = store[class];
            store[class] = store[class]->next_batch;
            worked = true;
        }
        atomic_store_explicit(&ring->written, written, memory_order_release);
    }
    return worked;
}

static void *collector(void *unused) {
    (void)unused;
    for (;;) {
        bool worked = false;
        uint32_t count = atomic_load(&thread_count);
        for (uint32_t i = 0; i < count; i++) {
            struct thread *thread = atomic_load(&threads[i]);
            if (thread != NULL) {
                worked |= collect(thread);
                worked |= refill(thread);
            }
        }
        if (!worked) {
            sched_yield();
        }
    }
    return NULL;
}

// ---------------------------------------------------------------------------------------------------- threads

// A record of a thread that ended is used again, with all that is in it; records are never freed.
static struct thread *adopt(void) {
    uint32_t count = atomic_load(&thread_count);
    for (uint32_t i = 0; i < count; i++) {
        struct thread *thread = atomic_load(&threads[i]);
        bool expected = false;
        if (thread != NULL && atomic_compare_exchange_strong(&thread->in_use, &expected, true)) {
            return thread;
        }
    }
    uint32_t number = atomic_fetch_add(&thread_count, 1);
    if (number >= MAX_THREADS) {
        ancestor_die("more than 4,096 threads at once");
    }
    struct thread *thread =
        (struct thread *)mmap(NULL, sizeof *thread, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (thread == MAP_FAILED) {
        ancestor_die("no memory for a thread's record");
    }
    atomic_store(&thread->in_use, true);
    atomic_store(&threads[number], thread);
    return thread;
}

static void leave(void *unused) {
    (void)unused;
    struct thread *thread = self;
    self = NULL;
    ended = true;
    if (thread != NULL) {
        atomic_store(&thread->in_use, false);
    }
}

static struct thread *my_thread(void) {
    if (__builtin_expect(self == NULL, 0)) {
        self = adopt();
        if (atomic_load(&key_made) && !ended) {
            pthread_setspecific(key, self);
        }
    }
    return self;
}

// A call after the thread's end borrows a record for that call only.
static void settle(void) {
    if (__builtin_expect(ended, 0)) {
        leave(NULL);
    }
}

// ---------------------------------------------------------------------------------------------------- the two functions

static struct cell *take_batch(struct thread *thread, uint32_t class) {
    struct refill_ring *ring = &thread->refills[class];
    uint32_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    if (taken == atomic_load_explicit(&ring->written, memory_order_acquire)) {
        uint64_t bit = UINT64_C(1) << (class % 64);
        if ((atomic_load_explicit(&thread->wanted[class / 64], memory_order_relaxed) & bit) == 0) {
            atomic_fetch_or(&thread->wanted[class / 64], bit);
        }
        return NULL;
    }
    struct cell *batch = ring->batches[taken % REFILL];
    atomic_store_explicit(&ring->taken, taken + 1, memory_order_release);
    return batch;
}

static void *cut(struct thread *thread, size_t size) {
    if ((size_t)(thread->end - thread->at) < size) {
        thread->at = (char *)window_run(RUN);
        thread->end = thread->at != NULL ? thread->at + (size_t)RUN * CHUNK : NULL;
        if (thread->at == NULL) {
            return NULL;
        }
    }
    void *cell = thread->at;
    thread->at += size;
    return cell;
}

void *ancestor_take(size_t size) {
    struct thread *thread = my_thread();
    uint32_t class = class_of(size < sizeof(struct cell) ? sizeof(struct cell) : size);
    struct local *local = &thread->locals[class];
    if (local->cells == NULL) {
        local->cells = take_batch(thread, class);
        local->count = local->cells != NULL ? BATCH : 0;
    }
    struct cell *cell = local->cells;
    if (cell != NULL) {
        local->cells = cell->next;
        local->count--;
    } else {
        cell = (struct cell *)cut(thread, class_size(class));
    }
    settle();
    return cell;
}

// Cuts the 16 newest cells off the local list and sends them. A full ring means that the collector is behind;
// then the cells stay here and are sent later.
static void send_batch(struct thread *thread, uint32_t class) {
    uint32_t written = atomic_load_explicit(&thread->garbage_written, memory_order_relaxed);
    if (!atomic_load_explicit(&running, memory_order_relaxed) ||
        written - atomic_load_explicit(&thread->garbage_taken, memory_order_acquire) == GARBAGE) {
        return;
    }
    struct local *local = &thread->locals[class];
    struct cell *first = local->cells, *last = first;
    for (int i = 1; i < BATCH; i++) {
        last = last->next;
    }
    local->cells = last->next;
    local->count -= BATCH;
    last->next = NULL;
    thread->garbage[written % GARBAGE].batch = first;
    thread->garbage[written % GARBAGE].class = class;
    atomic_store_explicit(&thread->garbage_written, written + 1, memory_order_release);
}

void ancestor_give(void *block, size_t size) {
    struct thread *thread = my_thread();
    uint32_t class = class_of(size < sizeof(struct cell) ? sizeof(struct cell) : size);
    struct local *local = &thread->locals[class];
    struct cell *cell = (struct cell *)block;
    cell->next = local->cells;
    local->cells = cell;
    if (++local->count >= LOCAL_MAX) {
        send_batch(thread, class);
    }
    settle();
}

size_t ancestor_room(const void *address) {
    (void)address;
    return 0;
}

// The child has no collector, and its threads live on what they free themselves. Nobody knows where the
// collector stopped, so what it had is given up: a leak in the child, no more.
void ancestor_fork(enum fork_moment moment) {
    if (moment == AFTER_FORK_CHILD) {
        atomic_store(&running, false);
    }
}

// The collector is there from the start. Starting it with the first garbage would mean to create a thread
// inside of free, which the thread library itself calls while it holds its locks.
__attribute__((constructor)) static void start_collector(void) {
    pthread_t handle;
    if (pthread_key_create(&key, leave) == 0) {
        atomic_store(&key_made, true);
    }
    if (pthread_create(&handle, NULL, collector, NULL) == 0) {
        pthread_detach(handle);
        atomic_store(&running, true);
    }
}
