// SPDX-License-Identifier: MIT OR Apache-2.0
// Replays one prepared trace on whatever allocator was preloaded: freehold-replayer FILE [FILM]
//
// `freehold replay` prepares the file and reads the answer, one line of JSON on stdout. One thread runs for each
// recorded one. A thread is created where the program created it, and waits only where the file says so.
//
// All that the replayer needs is mapped shared, so what it has itself is not counted among the allocator's pages.
#define _GNU_SOURCE
#include "film.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
enum { PAGE = 4096, BUCKETS = 64 * 16, POINTS = 1024, SPINS = 64, BEDS = 4096 };

struct operation {
    uint8_t kind, align, unused[2];
    uint32_t slot;
    uint64_t size, at; // at: its number in the one order, or its time in nanoseconds
};

struct prepared {
    char magic[8]; // "FHPREP1\n"
    uint32_t threads, slots, order, touch, verify, latency;
    uint64_t operations, every; // every: operations between two points of the curve, in total order
    uint64_t seed;              // 0, or which blocks are allocated before the first operation
};

struct part { // of the file, one for each thread, behind the header
    uint64_t offset, count, starts_itself;
};

struct thread {
    _Alignas(64) _Atomic uint64_t done;
    uint64_t calls, bytes, worst;
    uint64_t times[BUCKETS];
    pthread_t itself;
};

struct point { // of the curve: at this operation in total order, or so many nanoseconds after the beginning
    uint64_t at, bytes;
};

static const struct prepared *file;
static const struct part *parts;
static struct thread *threads;
static struct slot *slots;
static _Atomic uint64_t turn, running, failed, wrong;
static _Atomic bool sampling;
static uint64_t began, peak, live, peak_live;
static struct point points[POINTS];
static uint64_t point_count, point_every = 1, point_number;
static bool filming;
static uint64_t addresses = 0xCBF29CE484222325u; // a sum of those of all blocks, in total order
static int statm = -1;

// In total order a thread has ended before the next operation: what the allocator does at its end has one place in the order.
static sem_t leaving;
static uint32_t leaver;
static uint64_t leaver_at;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void *shared(size_t bytes) {
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

// When there is no room, every second point goes, and only every second one is noted from then on.
static void note_point(uint64_t at) {
    uint64_t bytes = resident();
    if (bytes > peak) {
        peak = bytes;
    }
    if (point_number++ % point_every != 0) {
        return;
    }
    if (point_count == POINTS) {
        for (point_count = 0; point_count < POINTS / 2; point_count++) {
            points[point_count] = points[2 * point_count];
        }
        point_every *= 2;
    }
    points[point_count++] = (struct point){at, bytes};
}

static void note_state(uint64_t at) {
    note_point(at);
    if (filming) {
        film_frame(at, slots, file->slots);
    }
}

static void *sample(void *unused) {
    struct timespec pause = {0, 1000000};
    while (sampling) {
        note_point(now_ns() - began);
        nanosleep(&pause, NULL);
    }
    return unused;
}

static void pause_for(unsigned *tries) {
    if (++*tries % SPINS == 0) {
        sched_yield();
    }
}

// In total order a thread sleeps until its turn: a thousand threads that look again and again would leave no CPU to the one
// that may go on. Turns share beds; who is woken for another one's turn sleeps on.
static struct { _Atomic uint32_t word, sleepers; } beds[BEDS];

static void await_turn(uint64_t number) {
    for (unsigned tries = 0; tries < SPINS; tries++) {
        if (atomic_load_explicit(&turn, memory_order_acquire) == number) {
            return;
        }
    }
    _Atomic uint32_t *word = &beds[number % BEDS].word, *sleepers = &beds[number % BEDS].sleepers;
    // Either this thread sees the turn, or who takes it there sees the sleeper: both are in one order of all threads.
    atomic_fetch_add(sleepers, 1);
    for (;;) {
        uint32_t before = atomic_load(word);
        if (atomic_load(&turn) == number) {
            break;
        }
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, before, NULL, NULL, 0);
    }
    atomic_fetch_sub(sleepers, 1);
}

static void pass_turn(uint64_t to) {
    atomic_store(&turn, to);
    if (atomic_load(&beds[to % BEDS].sleepers) != 0) {
        atomic_fetch_add(&beds[to % BEDS].word, 1);
        syscall(SYS_futex, &beds[to % BEDS].word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
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
        addresses = (addresses ^ (uintptr_t)block) * 0x100000001B3u;
    }
    if (frees(op)) {
        *slot = (struct slot){0};
        return;
    }
    if (block == NULL) {
        failed += op->size != 0;
        // A size of zero has freed it; after any other refusal it is as it was.
        if (op->kind == REALLOC && slot->block != NULL && op->size != 0) {
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
    bool is_joined = file->order == BY_TOTAL;
    pthread_attr_setdetachstate(&attributes, is_joined ? PTHREAD_CREATE_JOINABLE : PTHREAD_CREATE_DETACHED);
    pthread_t *thread = &threads[number].itself;
    if (parts[number].count == 0) {
        return;
    }
    running++;
    int error = pthread_create(thread, &attributes, run_thread, (void *)(uintptr_t)number);
    if (error != 0) {
        // Others would wait for its operations, and for ever.
        fprintf(stderr, "freehold-replayer: thread %u cannot be created: %s\n", number, strerror(error));
        _exit(3);
    }
}

static void wait_for(const struct operation *op) {
    unsigned tries = 0;
    if (op->kind == WAIT) {
        while (atomic_load_explicit(&threads[op->slot].done, memory_order_acquire) < op->size) {
            pause_for(&tries);
        }
    } else if (file->order == BY_TOTAL) {
        await_turn(op->at);
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
                note_state(op->at);
            }
            if (i + 1 == parts[number].count) {
                leaver = number;
                leaver_at = op->at;
                sem_post(&leaving);
                return NULL;
            }
            pass_turn(op->at + 1);
        }
    }
    running--;
    return NULL;
}

static void await_end(void) {
    struct timespec pause = {0, 100000};
    while (running != 0) {
        if (file->order != BY_TOTAL) {
            nanosleep(&pause, NULL);
        } else if (sem_wait(&leaving) == 0) {
            pthread_join(threads[leaver].itself, NULL);
            running--;
            pass_turn(leaver_at + 1);
        }
    }
}

// An allocator may choose by the CPU, and in total order one is enough: the first that is allowed.
static void stay_on_one_cpu(void) {
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
    }
}

// With a seed addresses must not be random: started again, if they are.
static void fix_addresses(char **argv) {
    if (file->seed == 0) {
        return;
    }
    stay_on_one_cpu();
    int persona = personality(UINT32_MAX); // only asks
    if (persona >= 0 && (persona & ADDR_NO_RANDOMIZE) != 0) {
        return;
    }
    if (persona < 0 || personality((unsigned long)persona | ADDR_NO_RANDOMIZE) < 0) {
        perror("freehold-replayer: addresses cannot be fixed here, so leave out the seed: personality");
        exit(2);
    }
    execv("/proc/self/exe", argv);
    perror("freehold-replayer: exec");
    exit(2);
}

// Blocks of some sizes that stay: another seed is another layout, and the same one is the same.
static void prepare_heap(void) {
    uint64_t state = file->seed;
    for (unsigned i = 0; i < 64 && state != 0; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char *volatile block = malloc(state % 1024);
        if (block == NULL) {
            failed++;
        }
    }
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

static uint64_t cpu_ns(void) {
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
}

static void say(uint64_t took, uint64_t cpu, uint64_t before, uint64_t after) {
    uint64_t calls = 0, bytes = 0, worst = 0, sum[BUCKETS] = {0};
    for (uint32_t i = 0; i < file->threads; i++) {
        calls += threads[i].calls;
        bytes += threads[i].bytes;
        worst = threads[i].worst > worst ? threads[i].worst : worst;
        for (unsigned b = 0; b < BUCKETS; b++) {
            sum[b] += threads[i].times[b];
        }
    }
    printf("{\"ns\":%lu,\"cpu_ns\":%lu,\"calls\":%lu,\"bytes\":%lu,\"failed\":%lu,\"wrong\":%lu,\"peak_live\":%lu,"
           "\"peak\":%lu,\"before\":%lu,\"after\":%lu,\"worst\":%lu,\"addresses\":%lu,\"points\":[",
           took, cpu, calls, bytes, (uint64_t)failed, (uint64_t)wrong, peak_live, peak, before, after, worst,
           file->order == BY_TOTAL ? addresses : 0);
    for (uint64_t i = 0; i < point_count; i++) {
        printf("%s[%lu,%lu]", i == 0 ? "" : ",", points[i].at, points[i].bytes);
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
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "freehold-replayer is started by freehold replay\n");
        return 2;
    }
    statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    map_file(argv[1]);
    fix_addresses(argv);
    prepare_heap();
    filming = argc == 3;
    if (filming) {
        film_begin(argv[2]);
    }
    sem_init(&leaving, 0, 0);
    uint64_t before = resident();
    pthread_t sampler;
    uint64_t cpu_before = cpu_ns(); // what the loader and the preparation took
    began = now_ns();
    sampling = file->order != BY_TOTAL; // before the sampler looks at it
    bool sampled = sampling && pthread_create(&sampler, NULL, sample, NULL) == 0;
    // What is created here and what the first thread does would race for their places.
    turn = UINT64_MAX;
    for (uint32_t i = 0; i < file->threads; i++) {
        if (parts[i].starts_itself) {
            start_thread(i);
        }
    }
    pass_turn(0);
    await_end();
    uint64_t took = now_ns() - began, cpu = cpu_ns() - cpu_before;
    sampling = false;
    if (sampled) {
        pthread_join(sampler, NULL);
    }
    point_every = 1;
    note_state(file->order == BY_TOTAL ? file->operations : took);
    say(took, cpu, before, resident());
    return 0;
}
