// SPDX-License-Identifier: MIT OR Apache-2.0
// Records each call of the malloc family, over whatever allocator comes next: libfreehold-record.so, preloaded in front.
//
// The order at each address needs no lock. A release is stamped before the call, an allocation after it. Between the two
// the block was free, so the stamp of a block's release always precedes that of its next owner.
//
// A call that the allocator itself makes, such as operator new calling malloc, is not the program's: `depth` tells.
#define _GNU_SOURCE
#include "raw.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define EXPORT __attribute__((visibility("default")))

// Executed no earlier than all that the program did before: a store that follows cannot be seen before it.
static inline uint64_t stamp_before(void) {
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks)::"memory");
    return ticks;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

// Waits for the loads before it: the block had been released when this is read.
static inline uint64_t stamp_after(void) {
#if defined(__x86_64__)
    _mm_lfence(); // cheaper than rdtscp, and waits for as much
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks)::"memory");
    return ticks;
#else
    return stamp_before();
#endif
}

static inline void put(enum raw_op op, const void *address, uint64_t size, unsigned align, uint64_t stamp) {
    struct recorder_thread *self = &recorder_self;
    struct raw_record record = {
        stamp, ((uint64_t)op << 56) | ((uint64_t)align << 48) | ((uintptr_t)address & 0xFFFFFFFFFFFF), size};
    if (self->block == NULL || self->count + 1 == RAW_RECORDS || self->ended) {
        recorder_put_slow(&record);
        return;
    }
    self->block->records[self->count++] = record;
    atomic_store_explicit(&self->block->count, self->count, memory_order_release);
}

// ── The allocator that comes next ────────────────────────────────────────────────────────────────────────────

// Answers what dlsym itself allocates while the first name is looked up.
static _Alignas(16) char arena[65536];
static _Atomic size_t arena_used;
static __thread bool resolving __attribute__((tls_model("initial-exec")));

static void *from_arena(size_t size) {
    size_t rounded = (size + 31) & ~(size_t)15;
    size_t at = atomic_fetch_add(&arena_used, rounded);
    if (size > sizeof arena || at + rounded > sizeof arena) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(arena + at, &size, sizeof size); // for realloc
    return arena + at + 16;
}

static bool in_arena(const void *block) {
    return (const char *)block >= arena && (const char *)block < arena + sizeof arena;
}

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    void *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    int (*trim)(size_t);
    int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
} next;
static _Atomic int stage; // 0 nothing yet, 1 somebody is at it, 2 ready

#define FIND(member, name) (*(void **)&next.member = dlsym(RTLD_NEXT, name))

static void find_next(void) {
    FIND(malloc, "malloc");
    FIND(calloc, "calloc");
    FIND(realloc, "realloc");
    FIND(free, "free");
    FIND(memalign, "memalign");
    FIND(aligned_alloc, "aligned_alloc");
    FIND(posix_memalign, "posix_memalign");
    FIND(valloc, "valloc");
    FIND(pvalloc, "pvalloc");
    FIND(trim, "malloc_trim");
    FIND(pthread_create, "pthread_create");
}

// True when `next` can be used; false for the calls that come from finding it.
static bool make_ready(void) {
    if (resolving) {
        return false;
    }
    int nothing = 0;
    if (atomic_compare_exchange_strong(&stage, &nothing, 1)) {
        int error = errno;
        resolving = true;
        find_next();
        resolving = false;
        if (next.malloc == NULL || next.free == NULL) {
            abort();
        }
        recorder_begin();
        atomic_store_explicit(&stage, 2, memory_order_release);
        errno = error;
        return true;
    }
    // Calls of recorder_begin itself go through; another thread, in a program this young, waits for the first.
    while (recorder_self.depth == 0 && atomic_load_explicit(&stage, memory_order_acquire) != 2) {
    }
    return true;
}

static inline bool ready(void) {
    return __builtin_expect(atomic_load_explicit(&stage, memory_order_acquire) == 2, 1) || make_ready();
}

static inline bool recording(void) {
    return recorder_self.depth == 0 && atomic_load_explicit(&recorder_on, memory_order_relaxed);
}

// One call in 61 is timed: for the share of the program's time that is spent in the allocator.
// Beyond LONG_CALL ticks the thread may have been off its CPU, and its own CPU time is counted instead.
enum { TIMED_EACH = 61, LONG_CALL = 1 << 15 };
static __thread uint64_t cpu_began __attribute__((tls_model("initial-exec")));

static uint64_t thread_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t enter(void) {
    recorder_self.depth++;
    if (__builtin_expect(recorder_self.until_timed-- == 0, 0)) {
        recorder_self.until_timed = TIMED_EACH - 1;
        cpu_began = thread_cpu_ns();
        return stamp_before();
    }
    return 0;
}

static void count_time(uint64_t began) {
    uint64_t ticks = stamp_after() - began;
    struct raw_block *block = recorder_self.block;
    block->timed_calls++;
    if (ticks < LONG_CALL) {
        block->timed_ticks += ticks;
    } else {
        block->timed_ns += thread_cpu_ns() - cpu_began;
    }
}

static inline void count_if_timed(uint64_t began) {
    if (__builtin_expect(began != 0, 0) && recorder_self.block != NULL) {
        count_time(began);
    }
}

static inline void leave(uint64_t began) {
    recorder_self.depth--;
    count_if_timed(began);
}

static inline unsigned log2_of(size_t alignment) {
    return alignment < 2 ? 0 : (unsigned)(63 - __builtin_clzll(alignment));
}

#define ALLOCATES(op, size, align, call)                                                                               \
    do {                                                                                                               \
        if (!recording()) {                                                                                            \
            return call;                                                                                               \
        }                                                                                                              \
        uint64_t began_ = enter();                                                                                     \
        void *block_ = call;                                                                                           \
        leave(began_);                                                                                                 \
        put(op, block_, size, align, stamp_after());                                                                   \
        return block_;                                                                                                 \
    } while (0)

EXPORT void *malloc(size_t size) {
    if (!ready()) {
        return from_arena(size);
    }
    ALLOCATES(RAW_MALLOC, size, 0, next.malloc(size));
}

EXPORT void *calloc(size_t count, size_t size) {
    if (!ready()) {
        return from_arena(count * size); // the arena is used once, so it is zero
    }
    ALLOCATES(RAW_CALLOC, count * size, 0, next.calloc(count, size));
}

static void release(enum raw_op op, void *block, size_t size, unsigned align) {
    if (block == NULL || in_arena(block) || !ready()) {
        return;
    }
    if (!recording()) {
        next.free(block);
        return;
    }
    put(op, block, size, align, stamp_before());
    uint64_t began = enter();
    next.free(block);
    leave(began);
}

EXPORT void free(void *block) {
    release(RAW_FREE, block, 0, 0);
}

EXPORT void free_sized(void *block, size_t size) {
    release(RAW_FREE_SIZED, block, size, 0);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
    release(RAW_FREE_SIZED, block, size, log2_of(alignment));
}

EXPORT void *realloc(void *old, size_t size) {
    if (old == NULL) {
        return malloc(size);
    }
    if (!ready() || in_arena(old)) {
        void *block = malloc(size);
        if (block != NULL && in_arena(old)) {
            size_t had;
            memcpy(&had, (char *)old - 16, sizeof had);
            memcpy(block, old, had < size ? had : size);
        }
        return block;
    }
    if (!recording()) {
        return next.realloc(old, size);
    }
    put(RAW_REALLOC_FROM, old, 0, 0, stamp_before());
    uint64_t began = enter();
    void *block = next.realloc(old, size);
    leave(began);
    put(RAW_REALLOC_TO, block, size, 0, stamp_after());
    return block;
}

EXPORT void *reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

EXPORT void *memalign(size_t alignment, size_t size) {
    if (!ready() || next.memalign == NULL) {
        return NULL;
    }
    ALLOCATES(RAW_ALIGNED, size, log2_of(alignment), next.memalign(alignment, size));
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    if (!ready() || next.aligned_alloc == NULL) {
        return NULL;
    }
    ALLOCATES(RAW_ALIGNED, size, log2_of(alignment), next.aligned_alloc(alignment, size));
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size) {
    if (!ready() || next.posix_memalign == NULL) {
        return ENOMEM;
    }
    if (!recording()) {
        return next.posix_memalign(block, alignment, size);
    }
    uint64_t began = enter();
    int error = next.posix_memalign(block, alignment, size);
    leave(began);
    put(RAW_ALIGNED, error == 0 ? *block : NULL, size, log2_of(alignment), stamp_after());
    return error;
}

EXPORT void *valloc(size_t size) {
    if (!ready() || next.valloc == NULL) {
        return NULL;
    }
    ALLOCATES(RAW_ALIGNED, size, 12, next.valloc(size));
}

EXPORT void *pvalloc(size_t size) {
    if (!ready() || next.pvalloc == NULL) {
        return NULL;
    }
    ALLOCATES(RAW_ALIGNED, size, 12, next.pvalloc(size));
}

EXPORT int malloc_trim(size_t pad) {
    if (!ready() || next.trim == NULL) {
        return 0;
    }
    if (recording()) {
        put(RAW_TRIM, NULL, pad, 0, stamp_before());
    }
    return next.trim(pad);
}

// ── operator new and delete ──────────────────────────────────────────────────────────────────────────────────

// An exception of operator new passes through here, so what is undone is undone by a cleanup.
static void leave_level(uint32_t *depth) {
    recorder_self.depth = *depth;
}

// The addresses are found once each, on first use. Two threads that find the same one write the same.
static void *found(_Atomic(void *) *where, const char *name) {
    void *function = atomic_load_explicit(where, memory_order_relaxed);
    if (function == NULL) {
        recorder_self.depth++;
        function = dlsym(RTLD_NEXT, name);
        recorder_self.depth--;
        if (function == NULL) {
            abort(); // a program that calls operator new has a library with one
        }
        atomic_store_explicit(where, function, memory_order_relaxed);
    }
    return function;
}

#define OPERATOR_NEW(name, op, align, parameters, ...)                                                                 \
    EXPORT void *name parameters {                                                                                     \
        static _Atomic(void *) where;                                                                                  \
        void *(*inner)parameters;                                                                                      \
        *(void **)&inner = (ready(), found(&where, #name));                                                            \
        if (!recording()) {                                                                                            \
            return inner(__VA_ARGS__);                                                                                 \
        }                                                                                                              \
        uint64_t began;                                                                                                \
        void *block;                                                                                                   \
        {                                                                                                              \
            __attribute__((cleanup(leave_level), unused)) uint32_t depth = recorder_self.depth;                        \
            began = enter();                                                                                           \
            block = inner(__VA_ARGS__);                                                                                \
        }                                                                                                              \
        count_if_timed(began);                                                                                         \
        put(op, block, size, log2_of(align), stamp_after());                                                           \
        return block;                                                                                                  \
    }

#define OPERATOR_DELETE(name, op, bytes, align, parameters, ...)                                                       \
    EXPORT void name parameters {                                                                                      \
        static _Atomic(void *) where;                                                                                  \
        void(*inner) parameters;                                                                                       \
        *(void **)&inner = (ready(), found(&where, #name));                                                            \
        if (!recording() || block == NULL) {                                                                           \
            inner(__VA_ARGS__);                                                                                        \
            return;                                                                                                    \
        }                                                                                                              \
        put(op, block, bytes, log2_of(align), stamp_before());                                                         \
        uint64_t began = enter();                                                                                      \
        inner(__VA_ARGS__);                                                                                            \
        leave(began);                                                                                                  \
    }

// Mangled names: nw and na are new and new[], dl and da are delete and delete[].
// clang-format off
OPERATOR_NEW(_Znwm, RAW_NEW, 0, (size_t size), size)
OPERATOR_NEW(_Znam, RAW_NEW, 0, (size_t size), size)
OPERATOR_NEW(_ZnwmRKSt9nothrow_t, RAW_NEW, 0, (size_t size, const void *tag), size, tag)
OPERATOR_NEW(_ZnamRKSt9nothrow_t, RAW_NEW, 0, (size_t size, const void *tag), size, tag)
OPERATOR_NEW(_ZnwmSt11align_val_t, RAW_NEW_ALIGNED, alignment, (size_t size, size_t alignment), size, alignment)
OPERATOR_NEW(_ZnamSt11align_val_t, RAW_NEW_ALIGNED, alignment, (size_t size, size_t alignment), size, alignment)
OPERATOR_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, RAW_NEW_ALIGNED, alignment,
             (size_t size, size_t alignment, const void *tag), size, alignment, tag)
OPERATOR_NEW(_ZnamSt11align_val_tRKSt9nothrow_t, RAW_NEW_ALIGNED, alignment,
             (size_t size, size_t alignment, const void *tag), size, alignment, tag)
OPERATOR_DELETE(_ZdlPv, RAW_DELETE, 0, 0, (void *block), block)
OPERATOR_DELETE(_ZdaPv, RAW_DELETE, 0, 0, (void *block), block)
OPERATOR_DELETE(_ZdlPvm, RAW_DELETE_SIZED, size, 0, (void *block, size_t size), block, size)
OPERATOR_DELETE(_ZdaPvm, RAW_DELETE_SIZED, size, 0, (void *block, size_t size), block, size)
OPERATOR_DELETE(_ZdlPvRKSt9nothrow_t, RAW_DELETE, 0, 0, (void *block, const void *tag), block, tag)
OPERATOR_DELETE(_ZdaPvRKSt9nothrow_t, RAW_DELETE, 0, 0, (void *block, const void *tag), block, tag)
OPERATOR_DELETE(_ZdlPvSt11align_val_t, RAW_DELETE, 0, alignment, (void *block, size_t alignment), block, alignment)
OPERATOR_DELETE(_ZdaPvSt11align_val_t, RAW_DELETE, 0, alignment, (void *block, size_t alignment), block, alignment)
OPERATOR_DELETE(_ZdlPvmSt11align_val_t, RAW_DELETE_SIZED, size, alignment,
                (void *block, size_t size, size_t alignment), block, size, alignment)
OPERATOR_DELETE(_ZdaPvmSt11align_val_t, RAW_DELETE_SIZED, size, alignment,
                (void *block, size_t size, size_t alignment), block, size, alignment)
// clang-format on

// ── Threads ──────────────────────────────────────────────────────────────────────────────────────────────────

struct birth {
    void *(*start)(void *);
    void *argument;
    uint32_t number;
};

// What a new thread is told before it begins. A place is free again as soon as the thread has read it.
enum { BIRTHS = 4096 };
static struct birth births[BIRTHS];
static _Atomic bool birth_taken[BIRTHS];

static void *begin_thread(void *given) {
    struct birth birth = *(struct birth *)given;
    atomic_store_explicit(&birth_taken[(struct birth *)given - births], false, memory_order_release);
    recorder_self.number = birth.number;
    return birth.start(birth.argument);
}

static struct birth *take_birth(void) {
    for (unsigned i = 0; i < BIRTHS; i++) {
        if (!atomic_exchange_explicit(&birth_taken[i], true, memory_order_acquire)) {
            return &births[i];
        }
    }
    return NULL;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    ready();
    struct birth *birth;
    if (!recording() || (birth = take_birth()) == NULL) {
        return next.pthread_create(thread, attributes, start, argument);
    }
    *birth = (struct birth){start, argument, recorder_new_thread()};
    put(RAW_THREAD_START, (void *)(uintptr_t)birth->number, 0, 0, stamp_before());
    int error = next.pthread_create(thread, attributes, begin_thread, birth);
    if (error != 0) {
        atomic_store_explicit(&birth_taken[birth - births], false, memory_order_release);
    }
    return error;
}
