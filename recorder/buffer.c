// SPDX-License-Identifier: MIT OR Apache-2.0
// The raw file and its pool of blocks. A thread fills a block of its own and hands it over when it is full.
//
// Nothing here calls malloc, and nothing takes a lock: a block changes hands by one compare-and-swap of its state.
#define _GNU_SOURCE
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

__thread struct recorder_thread recorder_self __attribute__((tls_model("initial-exec")));
_Atomic bool recorder_on;

static struct {
    struct raw_header *header;
    _Atomic uint32_t *states;
    char *blocks;
    size_t bytes, first_block;
    int file;
    uint64_t parent;
    pthread_key_t at_exit;
    bool key_made;
} here = {.file = -1};

static uint64_t ticks_now(void) {
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

static uint64_t number_of(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void complain(const char *what) {
    char line[160];
    int length =
        snprintf(line, sizeof line, "freehold record: %s: %s; this process is not recorded\n", what, strerror(errno));
    (void)!write(STDERR_FILENO, line, (size_t)length);
}

// A process may become several programs, one after the other: each gets the next free name.
static int create_file(const char *directory) {
    char path[4096];
    for (unsigned program = 0; program < 100000; program++) {
        snprintf(path, sizeof path, "%s/%ld-%u.raw", directory, (long)getpid(), program);
        int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0 || errno != EEXIST) {
            return file;
        }
    }
    return -1;
}

static bool map_file(uint64_t blocks) {
    size_t states = (blocks * sizeof(uint32_t) + 4095) & ~(size_t)4095;
    here.first_block = RAW_HEADER_BYTES + states;
    here.bytes = here.first_block + blocks * RAW_BLOCK_BYTES;
    // A file system without room must be an error now and not SIGBUS later; each block is asked for when it is taken.
    if (ftruncate(here.file, (off_t)here.bytes) != 0 || posix_fallocate(here.file, 0, (off_t)here.first_block) != 0) {
        return false;
    }
    char *map = mmap(NULL, here.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, here.file, 0);
    if (map == MAP_FAILED) {
        return false;
    }
    here.header = (struct raw_header *)map;
    here.states = (_Atomic uint32_t *)(map + RAW_HEADER_BYTES);
    here.blocks = map + here.first_block;
    return true;
}

static uint32_t when_full(void) {
    const char *text = getenv("FREEHOLD_RECORD_WHEN_FULL");
    if (text != NULL && strcmp(text, "drop") == 0) {
        return RAW_DROP;
    }
    return text != NULL && strcmp(text, "ring") == 0 ? RAW_RING : RAW_WAIT;
}

static void open_recording(void) {
    const char *directory = getenv("FREEHOLD_RECORD");
    if (directory == NULL || *directory == 0) {
        return;
    }
    uint64_t blocks = number_of("FREEHOLD_RECORD_BLOCKS", 1024);
    here.file = create_file(directory);
    if (here.file < 0 || blocks == 0 || blocks > (1u << 24) || !map_file(blocks)) {
        complain("cannot make the recording");
        if (here.file >= 0) {
            close(here.file);
        }
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct raw_header *h = here.header;
    h->version = 1;
    h->when_full = when_full();
    h->blocks = blocks;
    h->process = (uint64_t)getpid();
    h->parent = here.parent;
    h->reader = number_of("FREEHOLD_RECORD_READER", 0);
    h->begin_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    h->begin_ticks = ticks_now();
    atomic_thread_fence(memory_order_release);
    memcpy(h->magic, "FHRAWREC", 8);
    atomic_store_explicit(&recorder_on, true, memory_order_release);
}

// The kernel copies the mapping into the child as the parent's own: the child must write nothing into it.
static void before_fork(void) {
    struct raw_record record = {ticks_now(), (uint64_t)RAW_FORK << 56, 0};
    if (recorder_on) {
        recorder_put_slow(&record);
    }
}

static void in_child(void) {
    if (!recorder_on) {
        return;
    }
    atomic_store(&recorder_on, false);
    here.parent = here.header->process;
    munmap(here.header, here.bytes);
    close(here.file);
    recorder_self = (struct recorder_thread){.depth = recorder_self.depth + 1};
    open_recording();
    recorder_self.depth--;
}

// Destructors of other keys may still allocate: this one asks to be called again, and the last call hands the block over.
static void at_thread_exit(void *round) {
    uintptr_t next = (uintptr_t)round + 1;
    if (next < 4) {
        pthread_setspecific(here.at_exit, (void *)next);
        return;
    }
    recorder_thread_ends();
}

// Called once, from the first call of the allocator; that call's thread is the only one, or the others wait in it.
void recorder_begin(void) {
    recorder_self.depth++;
    here.key_made = pthread_key_create(&here.at_exit, at_thread_exit) == 0;
    // Registered first: so the last to run before a fork and the first to run in the child.
    pthread_atfork(before_fork, NULL, in_child);
    open_recording();
    recorder_self.depth--;
}

uint32_t recorder_new_thread(void) {
    return atomic_fetch_add_explicit(&here.header->threads, 1, memory_order_relaxed) + 1;
}

static struct raw_block *block_at(uint32_t index) {
    return (struct raw_block *)(here.blocks + (size_t)index * RAW_BLOCK_BYTES);
}

// A free block of the pool, now ours; false if there is none, or the file system has no room for one.
static bool take_block(uint32_t *index) {
    for (uint32_t i = 0; i < here.header->blocks; i++) {
        uint32_t state = atomic_load_explicit(&here.states[i], memory_order_relaxed);
        bool is_new = state == RAW_UNUSED;
        if ((is_new || state == RAW_FREE_BLOCK) &&
            atomic_compare_exchange_strong_explicit(&here.states[i], &state, RAW_OWNED, memory_order_acquire,
                                                    memory_order_relaxed)) {
            off_t offset = (off_t)(here.first_block + (size_t)i * RAW_BLOCK_BYTES);
            if (is_new && posix_fallocate(here.file, offset, RAW_BLOCK_BYTES) != 0) {
                atomic_store_explicit(&here.states[i], RAW_UNUSED, memory_order_release);
                return false;
            }
            *index = i;
            return true;
        }
    }
    return false;
}

// The ring's oldest full block, whose records are lost.
static bool take_oldest(uint32_t *index) {
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < here.header->blocks; i++) {
        uint32_t state = atomic_load_explicit(&here.states[i], memory_order_acquire);
        if (state == RAW_FULL && block_at(i)->sequence < oldest) {
            oldest = block_at(i)->sequence;
            *index = i;
        }
    }
    uint32_t full = RAW_FULL;
    if (oldest == UINT64_MAX || !atomic_compare_exchange_strong(&here.states[*index], &full, RAW_OWNED)) {
        return false;
    }
    atomic_fetch_add_explicit(&here.header->lost, block_at(*index)->count, memory_order_relaxed);
    return true;
}

// A reader that has stopped, or died without a word, makes no room any more.
static bool reader_is_gone(void) {
    uint64_t reader = here.header->reader;
    return atomic_load_explicit(&here.header->closed, memory_order_relaxed) != 0 || reader == 0 ||
           (kill((pid_t)reader, 0) != 0 && errno == ESRCH);
}

static bool find_block(uint32_t *index) {
    while (!take_block(index)) {
        struct timespec pause = {0, 200000};
        switch (here.header->when_full) {
        case RAW_RING:
            return take_oldest(index);
        case RAW_WAIT:
            atomic_fetch_add_explicit(&here.header->waits, 1, memory_order_relaxed);
            if (reader_is_gone()) {
                return false;
            }
            nanosleep(&pause, NULL);
            break;
        default:
            return false;
        }
    }
    return true;
}

static bool begin_block(void) {
    struct recorder_thread *self = &recorder_self;
    if (self->number == 0) {
        self->number = recorder_new_thread();
    }
    if (!self->ended && here.key_made && pthread_getspecific(here.at_exit) == NULL) {
        self->depth++; // may allocate
        pthread_setspecific(here.at_exit, (void *)1);
        self->depth--;
    }
    uint32_t index;
    if (!find_block(&index)) {
        return false;
    }
    struct raw_block *block = block_at(index);
    atomic_store_explicit(&block->count, 0, memory_order_relaxed);
    block->thread = self->number;
    block->timed_calls = block->timed_ticks = block->timed_ns = 0;
    block->sequence = atomic_fetch_add_explicit(&here.header->sequence, 1, memory_order_relaxed);
    self->block = block;
    self->index = index;
    self->count = 0;
    return true;
}

static void hand_over(void) {
    atomic_store_explicit(&here.states[recorder_self.index], RAW_FULL, memory_order_release);
    recorder_self.block = NULL;
}

// The first record of a thread, the last of a block, or one for which there is no room.
void recorder_put_slow(const struct raw_record *record) {
    int error = errno;
    struct recorder_thread *self = &recorder_self;
    if (self->block == NULL && !begin_block()) {
        atomic_fetch_add_explicit(&here.header->lost, 1, memory_order_relaxed);
        errno = error;
        return;
    }
    self->block->records[self->count++] = *record;
    atomic_store_explicit(&self->block->count, self->count, memory_order_release);
    if (self->count == RAW_RECORDS || self->ended) {
        hand_over();
    }
    errno = error;
}

void recorder_thread_ends(void) {
    struct raw_record record = {ticks_now(), (uint64_t)RAW_THREAD_END << 56, 0};
    if (recorder_on) {
        recorder_self.ended = true;
        recorder_put_slow(&record);
    }
}
