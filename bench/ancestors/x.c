// SPDX-License-Identifier: MIT OR Apache-2.0
// Baselines: the X allocator (2013), which is free lists by size under one mutex, and pooled X, which is 16
// such heaps, chosen by the number of the calling thread. X_HEAPS says which.
//
// Pooled X frees into the heap of the thread that frees. A consumer's heap therefore collects what a producer
// makes, and the producer's heap never sees it again: in `handover` and `retire` its memory grows with time,
// which is the point.
#define _GNU_SOURCE
#include "ancestor.h"

#include <pthread.h>
#include <stdatomic.h>

#if X_HEAPS == 1
const char ancestor_name[] = "x";
#else
const char ancestor_name[] = "pooled-x";
#endif

enum { X_LIMIT = 32768, X_CLASSES = 85 };

const size_t ancestor_limit = X_LIMIT;
const bool ancestor_headless = false;
const bool ancestor_uses_libc = false;

struct cell {
    struct cell *next;
};

// Each class cuts new cells from a chunk of its own; a chunk is never given back.
struct bin {
    struct cell *free;
    char *at, *end;
};

struct heap {
    pthread_mutex_t mutex;
    struct bin bins[X_CLASSES];
} __attribute__((aligned(64)));

// A static initialiser, because the first call comes before any constructor.
static struct heap heaps[X_HEAPS] = {[0 ... X_HEAPS - 1] = {.mutex = PTHREAD_MUTEX_INITIALIZER}};
static _Atomic(uint32_t) thread_count;
static __thread uint32_t thread_number __attribute__((tls_model("initial-exec")));

static struct heap *my_heap(void) {
    if (X_HEAPS == 1) {
        return &heaps[0];
    }
    if (thread_number == 0) {
        thread_number = atomic_fetch_add(&thread_count, 1) + 1;
    }
    return &heaps[thread_number % X_HEAPS];
}

static void *cut(struct bin *bin, size_t size) {
    if ((size_t)(bin->end - bin->at) < size) {
        char *chunk = (char *)window_chunk();
        if (chunk == NULL) {
            return NULL;
        }
        bin->at = chunk;
        bin->end = chunk + CHUNK;
    }
    void *cell = bin->at;
    bin->at += size;
    return cell;
}

void *ancestor_take(size_t size) {
    unsigned class = class_of(size);
    struct heap *heap = my_heap();
    struct bin *bin = &heap->bins[class];
    pthread_mutex_lock(&heap->mutex);
    struct cell *cell = bin->free;
    if (cell != NULL) {
        bin->free = cell->next;
    } else {
        cell = (struct cell *)cut(bin, class_size(class));
    }
    pthread_mutex_unlock(&heap->mutex);
    return cell;
}

void ancestor_give(void *block, size_t size) {
    struct heap *heap = my_heap();
    struct bin *bin = &heap->bins[class_of(size)];
    struct cell *cell = (struct cell *)block;
    pthread_mutex_lock(&heap->mutex);
    cell->next = bin->free;
    bin->free = cell;
    pthread_mutex_unlock(&heap->mutex);
}

size_t ancestor_room(const void *address) {
    (void)address;
    return 0;
}

void ancestor_fork(enum fork_moment moment) {
    for (int i = 0; i < X_HEAPS; i++) {
        if (moment == BEFORE_FORK) {
            pthread_mutex_lock(&heaps[i].mutex);
        } else {
            pthread_mutex_unlock(&heaps[i].mutex);
        }
    }
}
