// SPDX-License-Identifier: MIT OR Apache-2.0
// Baselines: MoarVM's fixed size allocator. 2014: one list for each 8-byte bin up to 768 bytes; a push is a
// compare-and-swap, a pop the same under a spin lock for poppers, since two poppers at once had an ABA bug.
// 2017: a list of each thread before it, of at most 1,024 cells; what exceeds goes to the common list, and so
// does all of it when the thread ends ("donation"). Larger blocks are the system allocator's business, as
// they were then.
//
// The original is told the size on release and keeps no header; as a drop-in it needs the shim's, and cells
// are rounded to 16 bytes, because malloc promises that alignment. The safepoint part of the original has no
// place in malloc.
#define _GNU_SOURCE
#include "ancestor.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#if MOAR_YEAR == 2014
const char ancestor_name[] = "moar-2014";
#else
const char ancestor_name[] = "moar-2017";
#endif
static const bool has_thread_lists = MOAR_YEAR >= 2017;

enum { BINS = 96, BIN_STEP = 8, PAGE_CELLS = 128, THREAD_LIMIT = 1024 };

const size_t ancestor_limit = BINS * BIN_STEP;
const bool ancestor_headless = false;
const bool ancestor_uses_libc = true;

struct cell {
    _Atomic(struct cell *) next;
};

struct bin {
    _Atomic(struct cell *) free;
    atomic_flag popping;
    pthread_mutex_t pages;
    char *at, *end;
} __attribute__((aligned(64)));

struct thread_bin {
    struct cell *free;
    uint32_t count;
};

enum thread_state { UNSEEN, STARTING, ACTIVE, ENDED };

struct thread {
    enum thread_state state;
    struct thread_bin bins[BINS];
};

static struct bin bins[BINS] = {[0 ... BINS - 1] = {.popping = ATOMIC_FLAG_INIT, .pages = PTHREAD_MUTEX_INITIALIZER}};
static __thread struct thread self __attribute__((tls_model("initial-exec")));
static pthread_key_t key;
static _Atomic(bool) key_made;

static unsigned bin_of(size_t size) {
    return (unsigned)((size + BIN_STEP - 1) / BIN_STEP) - 1;
}

static size_t cell_size(unsigned bin) {
    return ((size_t)(bin + 1) * BIN_STEP + 15) & ~(size_t)15;
}

static void push(struct bin *bin, struct cell *cell) {
    struct cell *head = atomic_load_explicit(&bin->free, memory_order_relaxed);
    do {
        atomic_store_explicit(&cell->next, head, memory_order_relaxed);
    } while (
        !atomic_compare_exchange_weak_explicit(&bin->free, &head, cell, memory_order_release, memory_order_relaxed));
}

// Only one thread pops at a time, so the head cannot leave and come back between the look and the swap;
// pushes may come in between and make it fail. Waiters give their processor away after a while, or a popper
// that was put off would never go on.
static struct cell *pop(struct bin *bin) {
    for (int spin = 0; atomic_flag_test_and_set_explicit(&bin->popping, memory_order_acquire); spin++) {
        if (spin > 100) {
            sched_yield();
        }
    }
    struct cell *head = atomic_load_explicit(&bin->free, memory_order_acquire);
    while (head != NULL) {
        struct cell *next = atomic_load_explicit(&head->next, memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&bin->free, &head, next, memory_order_acquire,
                                                  memory_order_acquire)) {
            break;
        }
    }
    atomic_flag_clear_explicit(&bin->popping, memory_order_release);
    return head;
}

// A new page of 128 cells comes from the bin's part of a chunk.
static struct cell *cut(struct bin *bin, size_t size) {
    pthread_mutex_lock(&bin->pages);
    if ((size_t)(bin->end - bin->at) < size) {
        size_t page = size * PAGE_CELLS < CHUNK ? size * PAGE_CELLS : CHUNK;
        bin->at = (char *)window_chunk();
        bin->end = bin->at != NULL ? bin->at + CHUNK - CHUNK % page : NULL;
    }
    struct cell *cell = (struct cell *)bin->at;
    bin->at = cell != NULL ? bin->at + size : NULL;
    pthread_mutex_unlock(&bin->pages);
    return cell;
}

// The thread's end: everything it has goes to all. Cells freed later in the same thread go there directly.
static void donate(void *unused) {
    (void)unused;
    self.state = ENDED;
    for (unsigned i = 0; i < BINS; i++) {
        while (self.bins[i].free != NULL) {
            struct cell *cell = self.bins[i].free;
            self.bins[i].free = atomic_load_explicit(&cell->next, memory_order_relaxed);
            push(&bins[i], cell);
        }
        self.bins[i].count = 0;
    }
}

// Whether the thread's own lists may be used. pthread_setspecific may allocate, which is why there is a state
// in between.
static bool lists_usable(void) {
    if (__builtin_expect(self.state == ACTIVE, 1)) {
        return true;
    }
    if (self.state == UNSEEN && atomic_load(&key_made)) {
        self.state = STARTING;
        pthread_setspecific(key, &self);
        self.state = ACTIVE;
        return true;
    }
    return false;
}

void *ancestor_take(size_t size) {
    unsigned bin = bin_of(size);
    if (has_thread_lists && lists_usable()) {
        struct thread_bin *own = &self.bins[bin];
        if (own->free != NULL) {
            struct cell *cell = own->free;
            own->free = atomic_load_explicit(&cell->next, memory_order_relaxed);
            own->count--;
            return cell;
        }
    }
    struct cell *cell = pop(&bins[bin]);
    return cell != NULL ? cell : cut(&bins[bin], cell_size(bin));
}

void ancestor_give(void *block, size_t size) {
    unsigned bin = bin_of(size);
    struct cell *cell = (struct cell *)block;
    if (has_thread_lists && lists_usable()) {
        struct thread_bin *own = &self.bins[bin];
        if (own->count < THREAD_LIMIT) {
            atomic_store_explicit(&cell->next, own->free, memory_order_relaxed);
            own->free = cell;
            own->count++;
            return;
        }
    }
    push(&bins[bin], cell);
}

size_t ancestor_room(const void *address) {
    (void)address;
    return 0;
}

void ancestor_fork(enum fork_moment moment) {
    for (unsigned i = 0; i < BINS; i++) {
        if (moment == BEFORE_FORK) {
            pthread_mutex_lock(&bins[i].pages);
            while (atomic_flag_test_and_set_explicit(&bins[i].popping, memory_order_acquire)) {
                sched_yield();
            }
        } else {
            atomic_flag_clear_explicit(&bins[i].popping, memory_order_release);
            pthread_mutex_unlock(&bins[i].pages);
        }
    }
}

__attribute__((constructor)) static void make_key(void) {
    if (has_thread_lists && pthread_key_create(&key, donate) == 0) {
        atomic_store(&key_made, true);
    }
}
