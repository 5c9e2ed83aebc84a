// SPDX-License-Identifier: MIT OR Apache-2.0
// Replays one prepared trace on whatever allocator was preloaded: freehold-replayer FILE
//
// `freehold replay` prepares the file and reads the answer, one line of JSON on stdout. One thread runs for each
// recorded one. A thread is created where the program created it, and waits only where the file says so.
//
// All that the replayer needs is mapped shared, so what it has itself is not counted among the allocator's pages.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// Not every libc has it.
extern int malloc_trim(size_t pad) __attribute__((weak));

enum kind {
    MALLOC,
    CALLOC,
    REALLOC,
    ALIGNED,
    FREE,
    FREE_SIZED,
    NEW,
    NEW_ALIGNED,
    DELETE,
    DELETE_SIZED,
    START,
    END,
    TRIM,
    FORK,
    WAIT = 100 // slot: the thread to wait for; size: how many of its operations
};
enum order { BY_WAITS, BY_TOTAL, BY_TIME };
enum touch { TOUCH_NONE, TOUCH_PAGES, TOUCH_ALL };
enum { PAGE = 4096, BUCKETS = 64 * 16, POINTS = 1024, SPINS = 64 };

struct operation {
    uint8_t kind, align, unused[2];
    uint32_t slot;
    uint64_t size, at; // at: its number in the one order, or its time in nanoseconds
};

struct prepared {
    char magic[8]; // "FHPREP1\n"
    uint32_t threads, slots, order, touch, verify, latency;
    uint64_t operations, every; // every: operations between two points of the curve, in total order
};

struct part { // of the file, one for each thread, behind the header
    uint64_t offset, count, starts_itself;
};

struct thread {
    _Alignas(64) _Atomic uint64_t done;
    uint64_t calls, bytes, worst;
    uint64_t times[BUCKETS];
};

struct slot {
    void *block;
    uint64_t size;
};

static const struct prepared *file;
static const struct part *parts;
static struct thread *threads;
static struct slot *slots;
static _Atomic uint64_t turn, running, failed, wrong;
static _Atomic bool sampling;
static uint64_t began, points[POINTS], point_count, peak, live, peak_live;
static int statm = -1;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *shared(size_t bytes) {
    void *map = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        perror("freehold-replayer: mmap");
        exit(2);
    }
    return map;
}

// Private resident bytes: what the replayer itself has is shared.
static uint64_t resident(void) {
    char text[128];
    ssize_t length = pread(statm, text, sizeof text - 1, 0);
    if (length <= 0) {
        return 0;
    }
    text[length] = 0;
    char *at = text;
    strtoull(at, &at, 10);
    uint64_t all = strtoull(at, &at, 10), common = strtoull(at, &at, 10);
    return (all - common) * PAGE;
}

static void note_point(void) {
    uint64_t bytes = resident();
    if (bytes > peak) {
        peak = bytes;
    }
    if (point_count < POINTS) {
        points[point_count++] = bytes;
    }
}

static void *sample(void *unused) {
    struct timespec pause = {0, 1000000};
    while (sampling) {
        note_point();
        nanosleep(&pause, NULL);
    }
    return unused;
}

static void pause_for(unsigned *tries) {
    if (++*tries % SPINS == 0) {
        sched_yield();
    }
}

static void wait_until(uint64_t moment) {
    uint64_t now = now_ns() - began;
    if (now < moment) {
        struct timespec rest = {(time_t)((moment - now) / 1000000000u), (long)((moment - now) % 1000000000u)};
        nanosleep(&rest, NULL);
    }
}

// Sixteen buckets for each doubling.
static unsigned bucket_of(uint64_t ns) {
    if (ns < 16) {
        return (unsigned)ns;
    }
    unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    return (power - 3) * 16 + (unsigned)(ns >> (power - 4) & 15);
}

static unsigned char pattern_of(uint32_t slot) {
    return (unsigned char)(slot * 37 + 11);
}

static void check_block(const struct slot *slot, uint32_t number, uint64_t bytes) {
    const unsigned char *block = slot->block;
    for (uint64_t i = 0; i < bytes; i++) {
        if (block[i] != pattern_of(number)) {
            wrong++;
            return;
        }
    }
}

static void touch_block(const struct operation *op, void *block) {
    if (file->verify) {
        uint64_t alignment = op->align != 0 ? UINT64_C(1) << op->align : op->size >= 16 ? 16 : 1;
        wrong += (uintptr_t)block % alignment != 0;
        for (uint64_t i = 0; op->kind == CALLOC && i < op->size; i++) {
            if (((unsigned char *)block)[i] != 0) {
                wrong++;
                break;
            }
        }
    }
    if (file->touch == TOUCH_ALL || file->verify) {
        memset(block, pattern_of(op->slot), op->size);
    } else if (file->touch == TOUCH_PAGES) {
        for (uint64_t i = 0; i < op->size; i += PAGE) {
            ((volatile char *)block)[i] = 1;
        }
    }
}

static void *call(const struct operation *op, struct slot *slot) {
    uint64_t alignment = UINT64_C(1) << op->align;
    switch (op->kind) {
    case CALLOC:
        return calloc(1, op->size);
    case REALLOC:
        return realloc(slot->block, op->size);
    case ALIGNED:
    case NEW_ALIGNED:
        return op->align > 3 ? memalign(alignment, op->size) : malloc(op->size);
    case FREE:
    case FREE_SIZED:
    case DELETE:
    case DELETE_SIZED:
        free(slot->block);
        return NULL;
    default:
        return malloc(op->size);
    }
}

static bool frees(const struct operation *op) {
    return op->kind >= FREE && op->kind <= DELETE_SIZED && op->kind != NEW && op->kind != NEW_ALIGNED;
}

static void use_block(struct thread *me, const struct operation *op) {
    struct slot *slot = &slots[op->slot];
    if (file->verify && slot->block != NULL) {
        check_block(slot, op->slot, slot->size);
    }
    uint64_t from = file->latency ? now_ns() : 0;
    void *block = call(op, slot);
    if (file->latency) {
        uint64_t ns = now_ns() - from;
        me->times[bucket_of(ns)]++;
        me->worst = ns > me->worst ? ns : me->worst;
    }
    me->calls++;
    if (file->order == BY_TOTAL) {
        live += (frees(op) ? 0 : op->size) - slot->size;
        peak_live = live > peak_live ? live : peak_live;
    }
    if (frees(op)) {
        *slot = (struct slot){0};
        return;
    }
    if (block == NULL) {
        failed += op->size != 0;
        if (op->kind == REALLOC && slot->block != NULL) {
            return;
        }
    } else {
        if (file->verify && op->kind == REALLOC) {
            struct slot moved = {block, 0};
            check_block(&moved, op->slot, slot->size < op->size ? slot->size : op->size);
        }
        touch_block(op, block);
    }
    *slot = (struct slot){block, block != NULL ? op->size : 0};
    me->bytes += op->size;
}

static void *run_thread(void *number);

static void start_thread(uint32_t number) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 * 1024);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    running++;
    if (parts[number].count == 0 || pthread_create(&thread, &attributes, run_thread, (void *)(uintptr_t)number) != 0) {
        failed += parts[number].count != 0;
        running--;
    }
}

static void wait_for(const struct operation *op) {
    unsigned tries = 0;
    if (op->kind == WAIT) {
        while (atomic_load_explicit(&threads[op->slot].done, memory_order_acquire) < op->size) {
            pause_for(&tries);
        }
    } else if (file->order == BY_TOTAL) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != op->at) {
            pause_for(&tries);
        }
    } else if (file->order == BY_TIME) {
        wait_until(op->at);
    }
}

static void *run_thread(void *argument) {
    uint32_t number = (uint32_t)(uintptr_t)argument;
    struct thread *me = &threads[number];
    const struct operation *ops = (const struct operation *)((const char *)file + parts[number].offset);
    uint64_t done = 0;
    for (uint64_t i = 0; i < parts[number].count; i++) {
        const struct operation *op = &ops[i];
        wait_for(op);
        if (op->kind == WAIT) {
            continue;
        }
        if (op->kind == START) {
            start_thread(op->slot);
        } else if (op->kind == TRIM) {
            if (malloc_trim != NULL) {
                malloc_trim(op->size);
            }
        } else if (op->kind < START) {
            use_block(me, op);
        }
        atomic_store_explicit(&me->done, ++done, memory_order_release);
        if (file->order == BY_TOTAL) {
            if (op->at % file->every == 0) {
                note_point();
            }
            atomic_store_explicit(&turn, op->at + 1, memory_order_release);
        }
    }
    running--;
    return NULL;
}

static void map_file(const char *path) {
    struct stat about;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &about) != 0) {
        perror(path);
        exit(2);
    }
    void *map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, descriptor, 0);
    if (map == MAP_FAILED || memcmp(map, "FHPREP1\n", 8) != 0) {
        fprintf(stderr, "freehold-replayer: %s was not prepared by freehold replay\n", path);
        exit(2);
    }
    file = map;
    parts = (const struct part *)(file + 1);
    threads = shared(file->threads * sizeof *threads);
    slots = shared(file->slots * sizeof *slots);
    memset(slots, 0, file->slots * sizeof *slots);
}

static void say(uint64_t took, uint64_t before, uint64_t after) {
    uint64_t calls = 0, bytes = 0, worst = 0, sum[BUCKETS] = {0};
    for (uint32_t i = 0; i < file->threads; i++) {
        calls += threads[i].calls;
        bytes += threads[i].bytes;
        worst = threads[i].worst > worst ? threads[i].worst : worst;
        for (unsigned b = 0; b < BUCKETS; b++) {
            sum[b] += threads[i].times[b];
        }
    }
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    printf("{\"ns\":%lu,\"cpu_ns\":%lu,\"calls\":%lu,\"bytes\":%lu,\"failed\":%lu,\"wrong\":%lu,\"peak_live\":%lu,"
           "\"peak\":%lu,\"before\":%lu,\"after\":%lu,\"worst\":%lu,\"points\":[",
           took, (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec, calls, bytes, (uint64_t)failed,
           (uint64_t)wrong, peak_live, peak, before, after, worst);
    for (uint64_t i = 0; i < point_count; i++) {
        printf("%s%lu", i == 0 ? "" : ",", points[i]);
    }
    printf("],\"times\":[");
    const char *comma = "";
    for (unsigned b = 0; b < BUCKETS; b++) {
        if (sum[b] != 0) {
            printf("%s[%u,%lu]", comma, b, sum[b]);
            comma = ",";
        }
    }
    printf("]}\n");
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "freehold-replayer is started by freehold replay\n");
        return 2;
    }
    statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    map_file(argv[1]);
    uint64_t before = resident();
    pthread_t sampler;
    sampling = file->order != BY_TOTAL && pthread_create(&sampler, NULL, sample, NULL) == 0;
    bool sampled = sampling;
    began = now_ns();
    for (uint32_t i = 0; i < file->threads; i++) {
        if (parts[i].starts_itself) {
            start_thread(i);
        }
    }
    struct timespec pause = {0, 100000};
    while (running != 0) {
        nanosleep(&pause, NULL);
    }
    uint64_t took = now_ns() - began;
    sampling = false;
    if (sampled) {
        pthread_join(sampler, NULL);
    }
    note_point();
    say(took, before, resident());
    return 0;
}
