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
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

__thread struct recorder_thread recorder_self;
__thread size_t recorder_simple_below;
_Atomic bool recorder_on;
_Atomic uint32_t *recorder_asked;

// Two stamps, two prefixes and two records: no call puts more.
enum { MOST_WORDS = 6 };

// More threads than blocks have one each of these.
enum { MORE_BLOCKS = 8192 };

static struct {
    struct raw_header *header;
    _Atomic uint32_t *states;
    char *blocks;
    size_t bytes, first_block;
    uint64_t room; // blocks; those beyond them are for more threads than that
    int file;
    dev_t device;             // and
    ino_t inode;              // of the file
    _Atomic uint32_t ring_at; // of the ring, the block to take next
    uint64_t parent;
    uint64_t close; // ticks: beyond so many between two stamps the next ones are closer to each other
    pthread_key_t at_exit;
    bool key_made;
    bool goes; // with the program, if that ends as it should
    char path[4096];
} here = {.file = -1};

// Neither the loads before it nor those after it pass it.
static uint64_t ticks_now(void) {
#if defined(__x86_64__)
    _mm_lfence(); // cheaper than rdtscp, and waits for as much
    uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("dsb ishld; isb; mrs %0, cntvct_el0; isb" : "=r"(ticks)::"memory");
    return ticks;
#else
    struct timespec now;
    atomic_thread_fence(memory_order_seq_cst);
    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_thread_fence(memory_order_seq_cst);
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

// A program may have closed our descriptor, and have a file of its own under its number.
static bool is_our_file(void) {
    struct stat about;
    return fstat(here.file, &about) == 0 && about.st_dev == here.device && about.st_ino == here.inode;
}

// A process may become several programs, one after the other: each gets the next free name. To become another one is an
// end as it should be.
static int create_file(const char *directory) {
    for (unsigned program = 0; program < 100000; program++) {
        snprintf(here.path, sizeof here.path, "%s/%ld-%u.raw", directory, (long)getpid(), program);
        if (here.goes) {
            unlink(here.path);
        }
        int file = open(here.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        // Who ended last before has taken the directory with it.
        bool again = file < 0 && errno == ENOENT && here.goes && mkdir(directory, 0700) == 0;
        if (file >= 0 || (errno != EEXIST && !again)) {
            return file;
        }
    }
    return -1;
}

// The file's name goes. What is mapped stays, for the threads that still run. In a child of vfork, which has the parent's
// memory, it is the parent's file.
__attribute__((destructor)) void recorder_program_ends(void) {
    if (!here.goes || here.header == NULL || here.header->process != (uint64_t)getpid()) {
        return;
    }
    here.goes = false;
    unlink(here.path);
    char *slash = strrchr(here.path, '/');
    *slash = 0;
    rmdir(here.path); // if it was the last one in it
}

// The kernel would end the program by a signal if the file became larger than it may.
static bool may_be_so_large(size_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) {
        return true;
    }
    errno = EFBIG;
    return false;
}

static bool map_file(uint64_t blocks) {
    size_t states = (blocks * sizeof(uint32_t) + 4095) & ~(size_t)4095;
    here.first_block = RAW_HEADER_BYTES + states;
    here.bytes = here.first_block + blocks * RAW_BLOCK_BYTES;
    // A file system without room must be an error now and not SIGBUS later; each block is asked for when it is taken.
    struct stat about;
    if (!may_be_so_large(here.bytes) || fstat(here.file, &about) != 0 || ftruncate(here.file, (off_t)here.bytes) != 0 ||
        posix_fallocate(here.file, 0, (off_t)here.first_block) != 0) {
        return false;
    }
    char *map = mmap(NULL, here.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, here.file, 0);
    if (map == MAP_FAILED) {
        return false;
    }
    here.device = about.st_dev;
    here.inode = about.st_ino;
    here.header = (struct raw_header *)map;
    here.states = (_Atomic uint32_t *)(map + RAW_HEADER_BYTES);
    here.blocks = map + here.first_block;
    return true;
}

// The tables become empty ones, and shared. A child must not share its parent's: their threads have the same numbers.
static bool empty_tables(void) {
    enum { HOW = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED };
    void *regions = mmap(order_regions, sizeof order_regions, PROT_READ | PROT_WRITE, HOW, -1, 0);
    void *notes = mmap(order_notes, sizeof order_notes, PROT_READ | PROT_WRITE, HOW, -1, 0);
    if (regions == MAP_FAILED || notes == MAP_FAILED) {
        return false; // who does not record does not look at them
    }
    recorder_keep_off();
    return true;
}

// Private resident bytes, as the reader will count them; 0 if the kernel does not say.
static uint64_t resident(void) {
    char text[128];
    int statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t length = statm < 0 ? 0 : read(statm, text, sizeof text - 1);
    if (statm >= 0) {
        close(statm);
    }
    text[length > 0 ? length : 0] = 0;
    char *at = text;
    strtoull(at, &at, 10);
    uint64_t all = strtoull(at, &at, 10), common = strtoull(at, &at, 10);
    return (all - common) * (uint64_t)sysconf(_SC_PAGESIZE);
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
    here.goes = number_of("FREEHOLD_RECORD_KEEP", 1) == 0;
    here.file = create_file(directory);
    here.room = blocks;
    blocks += when_full() == RAW_RING ? 0 : MORE_BLOCKS;
    if (here.file < 0 || here.room == 0 || blocks > (1u << 24) || !map_file(blocks) || !empty_tables()) {
        complain("cannot make the recording");
        if (here.file >= 0) {
            close(here.file);
        }
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct raw_header *h = here.header;
    h->version = 3;
    here.close = number_of("FREEHOLD_RECORD_CLOSE", 8192);
    h->when_full = when_full();
    h->blocks = blocks;
    h->process = (uint64_t)getpid();
    h->parent = here.parent;
    h->later = number_of("FREEHOLD_RECORD_LATER", 0) != 0;
    atomic_store_explicit(&h->reader, number_of("FREEHOLD_RECORD_READER", 0), memory_order_relaxed);
    const char *allocator = getenv("FREEHOLD_RECORD_ON");
    snprintf(h->allocator, sizeof h->allocator, "%s", allocator != NULL ? allocator : "");
    h->begin_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    h->base_resident = resident();
    h->begin_ticks = ticks_now();
    atomic_thread_fence(memory_order_release);
    memcpy(h->magic, "FHRAWREC", 8);
    recorder_asked = h->later ? &h->asked : NULL;
    atomic_store_explicit(&recorder_on, !h->later, memory_order_release);
}

// The reader has written what it wants before it asked.
bool recorder_wake(void) {
    atomic_thread_fence(memory_order_acquire);
    atomic_store_explicit(&recorder_on, true, memory_order_release);
    return true;
}

static bool is_over(void) {
    return recorder_asked != NULL && atomic_load_explicit(recorder_asked, memory_order_relaxed) == RAW_OVER;
}

// The kernel copies the mapping into the child as the parent's own: the child must write nothing into it.
void recorder_before_fork(void) {
    if (recorder_on && recorder_self.at != RECORDER_HELD) {
        recorder_put_event(RAW_FORK, 0);
    }
}

void recorder_in_child(void) {
    if (!recorder_on && recorder_asked == NULL) {
        return;
    }
    atomic_store(&recorder_on, false);
    recorder_asked = NULL;
    here.parent = here.header->process;
    munmap(here.header, here.bytes);
    here.header = NULL; // there may be no other one
    if (is_our_file()) {
        close(here.file);
    }
    bool held = recorder_self.at == RECORDER_HELD;
    recorder_self = (struct recorder_thread){.at = RECORDER_HELD};
    recorder_simple_below = 0;
    open_recording();
    recorder_self.at = held ? RECORDER_HELD : NULL;
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
    recorder_self.at = RECORDER_HELD;
    here.key_made = pthread_key_create(&here.at_exit, at_thread_exit) == 0;
    // Registered first: so the last to run before a fork and the first to run in the child.
    pthread_atfork(recorder_before_fork, NULL, recorder_in_child);
    open_recording();
    recorder_self.at = NULL;
}

uint32_t recorder_new_thread(void) {
    return atomic_fetch_add_explicit(&here.header->threads, 1, memory_order_relaxed) + 1;
}

static struct raw_block *block_at(uint32_t index) {
    return (struct raw_block *)(here.blocks + (size_t)index * RAW_BLOCK_BYTES);
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // since Linux 5.14
#endif

// Asks for the room of a block that was never used: without it a store would be a SIGBUS. Its pages come all at once.
static bool ask_for_room(uint32_t index) {
    size_t offset = here.first_block + (size_t)index * RAW_BLOCK_BYTES;
    if (madvise((char *)here.header + offset, RAW_BLOCK_BYTES, MADV_POPULATE_WRITE) == 0) {
        return true;
    }
    bool is_known = errno != EINVAL;
    return !is_known && is_our_file() && posix_fallocate(here.file, (off_t)offset, RAW_BLOCK_BYTES) == 0;
}

// A block is all zero when it is taken, because its first word of zero is its end.
static bool make_ours(uint32_t index, uint32_t was) {
    if (was != RAW_UNUSED) {
        struct raw_block *block = block_at(index);
        memset((char *)block + RAW_BLOCK_HEADER, 0, RAW_BLOCK_BYTES - RAW_BLOCK_HEADER);
        return true;
    }
    if (!ask_for_room(index)) {
        atomic_store_explicit(&here.states[index], RAW_UNUSED, memory_order_release);
        return false;
    }
    return true;
}

static bool claim(uint32_t index, uint32_t state) {
    return atomic_compare_exchange_strong_explicit(&here.states[index], &state, RAW_OWNED, memory_order_acquire,
                                                   memory_order_relaxed);
}

// A free block of the pool, now ours; false if there is none, or the file system has no room for one. If threads have all the room
// and nothing of it is the reader's, nobody will make any. Then a thread has one of the others.
static bool take_block(uint32_t *index, bool *reader_has_some) {
    bool may_wait = false;
    for (uint32_t i = 0; i < here.header->blocks; i++) {
        if (i == here.room && may_wait) {
            break;
        }
        uint32_t state = atomic_load_explicit(&here.states[i], memory_order_relaxed);
        may_wait = may_wait || state == RAW_FULL;
        if ((state == RAW_UNUSED || state == RAW_FREE_BLOCK) && claim(i, state)) {
            *index = i;
            return make_ours(i, state);
        }
    }
    *reader_has_some = may_wait;
    return false;
}

// The ring's next block that is unused or full. What is in a full one is among the oldest, and is lost.
// (To compare the numbers of all full blocks costs two cache misses a block of the ring: 14 ns a record in one of 64 MiB.)
static bool take_from_ring(uint32_t *index) {
    for (uint32_t tries = 0; tries < here.room; tries++) {
        uint32_t i = (uint32_t)(atomic_fetch_add_explicit(&here.ring_at, 1, memory_order_relaxed) % here.room);
        uint32_t state = atomic_load_explicit(&here.states[i], memory_order_relaxed);
        if ((state != RAW_UNUSED && state != RAW_FULL) || !claim(i, state)) {
            continue;
        }
        if (state == RAW_FULL) {
            atomic_fetch_add_explicit(&here.header->lost, block_at(i)->count, memory_order_relaxed);
        }
        *index = i;
        if (make_ours(i, state)) {
            return true;
        }
    }
    return false;
}

// A reader that has stopped, or died without a word, makes no room any more.
static bool reader_is_gone(void) {
    uint64_t reader = atomic_load_explicit(&here.header->reader, memory_order_relaxed);
    return atomic_load_explicit(&here.header->closed, memory_order_relaxed) != 0 || reader == 0 ||
           (kill((pid_t)reader, 0) != 0 && errno == ESRCH);
}

static bool find_block(uint32_t *index) {
    if (here.header->when_full == RAW_RING) {
        return take_from_ring(index);
    }
    bool reader_has_some = false;
    while (!take_block(index, &reader_has_some)) {
        struct timespec pause = {0, 200000};
        if (here.header->when_full != RAW_WAIT || !reader_has_some) {
            return false;
        }
        atomic_fetch_add_explicit(&here.header->waits, 1, memory_order_relaxed);
        if (reader_is_gone()) {
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

// The slow path begins where the first of these is due.
static void set_stop(void) {
    struct recorder_thread *self = &recorder_self;
    raw_word *stop = self->block->words + RAW_WORDS - MOST_WORDS;
    stop = self->stamp_at < stop ? self->stamp_at : stop;
    // A timing that is owed is the next allocation's: releases before it need not look.
    self->stop = self->timed_at < stop && !self->owes_allocation ? self->timed_at : stop;
    recorder_simple_below = self->owes_allocation ? 0 : RAW_LARGE;
}

static void put_word(uint64_t word) {
    atomic_store_explicit(recorder_self.at++, word, memory_order_release);
}

// A word that is no call. What is due after some calls is due one word later.
static void put_other(uint64_t word) {
    put_word(word);
    recorder_self.stamp_at++;
    recorder_self.timed_at++;
}

// Stamps are close together in time and not in calls: a thread that allocates rarely has one at nearly every call.
static void put_stamp(uint64_t ticks) {
    enum { MOST = RECORDER_TIMED_EACH };
    struct recorder_thread *self = &recorder_self;
    self->run = ticks - self->stamped > here.close ? (self->run + 1) / 2 : 2 * self->run < MOST ? 2 * self->run : MOST;
    self->stamped = ticks;
    order_set_date(&self->dates, ticks);
    put_other(ticks << 4 | RAW_STAMP);
    self->others++;
    self->stamp_at = self->at + self->run;
}

static void begin_thread(void) {
    struct recorder_thread *self = &recorder_self;
    if (self->number == 0) {
        self->number = recorder_new_thread();
    }
    if (self->run == 0) {
        self->run = 1;
        // A thread's first calls are slow, and are not to be timed more often than others.
        self->until_timed = (int32_t)(97 * (uint64_t)self->number % RECORDER_TIMED_EACH);
        self->until_long = self->number % RECORDER_LONG_EACH;
    }
    order_begin_thread(&self->dates, self->number);
    if (!self->ended && here.key_made && pthread_getspecific(here.at_exit) == NULL) {
        self->at = RECORDER_HELD; // may allocate
        pthread_setspecific(here.at_exit, (void *)1);
    }
}

static bool begin_block(void) {
    struct recorder_thread *self = &recorder_self;
    begin_thread();
    self->at = NULL;
    if (!find_block(&self->index)) {
        return false;
    }
    struct raw_block *block = block_at(self->index);
    block->thread = self->number;
    block->timed_calls = block->timed_ticks = block->timed_ns = block->empty_ticks = 0;
    block->sequence = atomic_fetch_add_explicit(&here.header->sequence, 1, memory_order_relaxed);
    self->block = block;
    self->others = 0;
    self->at = block->words;
    self->timed_at = self->at + self->until_timed;
    put_stamp(ticks_now());
    return true;
}

static void hand_over(void) {
    struct recorder_thread *self = &recorder_self;
    self->block->count = (uint32_t)(self->at - self->block->words) - self->others;
    atomic_store_explicit(&here.states[self->index], RAW_FULL, memory_order_release);
    self->until_timed = (int32_t)(self->timed_at - self->at);
    self->block = NULL;
    self->at = self->stop = NULL;
}

// Room for all that one call may need: two stamps, two prefixes, two records. If there is none, a record is lost.
static bool has_room(void) {
    struct recorder_thread *self = &recorder_self;
    if (self->block != NULL && self->at > self->block->words + RAW_WORDS - MOST_WORDS) {
        hand_over();
    }
    // A thread notices the end when its block is full: until then its words go where nobody reads any more.
    if (self->block == NULL && is_over()) {
        atomic_store_explicit(&recorder_on, false, memory_order_relaxed);
        return false;
    }
    if (self->block == NULL && !begin_block()) {
        atomic_fetch_add_explicit(&here.header->lost, 1, memory_order_relaxed);
        return false;
    }
    return true;
}

static void end_record(void) {
    if (recorder_self.ended) {
        hand_over();
    } else {
        set_stop();
    }
}

// After an allocation and before a release: the order of what several threads do at this address.
static void stamp_if_due(const void *address) {
    struct order_dates *dates = &recorder_self.dates;
    if (order_owns_region(dates, address) || order_needs_no_stamp(dates, address)) {
        return;
    }
    put_stamp(ticks_now());
    if (order_has_note(address)) {
        order_write_note(dates, address);
    }
}

// Any record, whatever it needs beside its word.
void *recorder_put(enum raw_op op, void *address, uint64_t size, unsigned align) {
    int error = errno;
    struct recorder_thread *self = &recorder_self;
    if (has_room()) {
        uint64_t low = (uintptr_t)address & 15, middle = (uintptr_t)address & 0xFFFFFFFFFFF0;
        if (self->at >= self->stamp_at) {
            put_stamp(ticks_now());
        }
        stamp_if_due(address);
        if (low != 0 || size >= RAW_LARGE || align != 0) {
            put_other(size >> 16 << 16 | (uint64_t)align << 8 | low << 4 | RAW_PREFIX);
            self->others++;
        }
        put_word(size << 48 | middle | op);
        end_record();
    }
    errno = error;
    return address;
}

void recorder_put_event(enum raw_event event, uint64_t value) {
    int error = errno;
    if (has_room()) {
        put_stamp(ticks_now());
        put_other(value << 8 | (uint64_t)event << 4 | RAW_EVENT);
        end_record();
    }
    errno = error;
}

void recorder_thread_ends(void) {
    if (recorder_on && recorder_self.at != RECORDER_HELD) {
        recorder_self.ended = true;
        recorder_put_event(RAW_THREAD_END, 0);
    }
}
