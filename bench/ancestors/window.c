// SPDX-License-Identifier: MIT OR Apache-2.0
// The window of the ancestors: 8 GiB of reserved addresses in chunks of 64 KiB. New chunks come from a
// counter; returned ones wait on a stack whose links lie in an array beside the window, so that a chunk
// without pages stays without.
#define _GNU_SOURCE
#include "ancestor.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

char *window_base;
static _Atomic(char *) reserved;
static _Atomic(uint32_t) fresh;
static _Atomic(uint64_t) returned; // tag << 32 | chunk number + 1
static _Atomic(uint32_t) links[WINDOW_CHUNKS];

_Noreturn void ancestor_die(const char *message) {
    static const char colon[] = ": ";
    (void)!write(2, ancestor_name, strlen(ancestor_name));
    (void)!write(2, colon, 2);
    (void)!write(2, message, strlen(message));
    (void)!write(2, "\n", 1);
    abort();
}

// The first to come reserves; whoever loses the race gives its reservation back. This may be called before
// any constructor has run, hence no once-guard of a library.
static char *window(void) {
    char *base = atomic_load_explicit(&reserved, memory_order_acquire);
    if (__builtin_expect(base != NULL, 1)) {
        return base;
    }
    size_t bytes = (size_t)WINDOW_CHUNKS * CHUNK;
    char *raw =
        (char *)mmap(NULL, bytes + CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) {
        ancestor_die("cannot reserve its window of 8 GiB; this baseline does not run under such a limit");
    }
    char *mine = (char *)(((uintptr_t)raw + CHUNK - 1) & ~(uintptr_t)(CHUNK - 1));
    if (!atomic_compare_exchange_strong(&reserved, &base, mine)) {
        munmap(raw, bytes + CHUNK);
        return base;
    }
    window_base = mine;
    return mine;
}

bool window_holds(const void *address) {
    const char *base = atomic_load_explicit(&reserved, memory_order_acquire);
    return base != NULL && (uintptr_t)address - (uintptr_t)base < (size_t)WINDOW_CHUNKS * CHUNK;
}

// Some of the old designs grow without limit. Said once, since the program only sees a NULL.
static void say_full(void) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    static const char message[] = ": its window of 8 GiB is used up\n";
    if (!atomic_flag_test_and_set(&said)) {
        (void)!write(2, ancestor_name, strlen(ancestor_name));
        (void)!write(2, message, sizeof message - 1);
    }
}

void *window_run(size_t chunks) {
    char *base = window();
    window_base = base;
    uint32_t at = atomic_load(&fresh);
    do {
        if (at + chunks > WINDOW_CHUNKS) {
            say_full();
            return NULL;
        }
    } while (!atomic_compare_exchange_weak(&fresh, &at, at + (uint32_t)chunks));
    return base + (size_t)at * CHUNK;
}

void *window_chunk(void) {
    uint64_t head = atomic_load(&returned), next;
    do {
        uint32_t number = (uint32_t)head;
        if (number == 0) {
            return window_run(1);
        }
        // The tag makes a stale link harmless: it counts every change of the head.
        next = ((head >> 32) + 1) << 32 | atomic_load(&links[number - 1]);
    } while (!atomic_compare_exchange_weak(&returned, &head, next));
    return window_base + (size_t)((uint32_t)head - 1) * CHUNK;
}

void window_return(void *chunk) {
    uint32_t number = (uint32_t)(((char *)chunk - window_base) / CHUNK);
    madvise(chunk, CHUNK, MADV_DONTNEED);
    uint64_t head = atomic_load(&returned), next;
    do {
        atomic_store(&links[number], (uint32_t)head);
        next = ((head >> 32) + 1) << 32 | (number + 1);
    } while (!atomic_compare_exchange_weak(&returned, &head, next));
}
