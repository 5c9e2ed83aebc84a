// SPDX-License-Identifier: MIT OR Apache-2.0
// Records each call of the malloc family, over whatever allocator comes next: libfreehold-record.so, preloaded in front.
//
// The order at each address needs no lock. A release is stamped before the call, an allocation after it. Between the two
// the block was free, so the stamp of a block's release always precedes that of its next owner.
//
// A stamp costs more than malloc and free together. Most records share one: see is_mine.
//
// A call that the allocator itself makes, such as operator new calling malloc, is not the program's: `at` is held.
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

static inline uint64_t clock_now(void) {
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks)::"memory");
    return ticks;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

// Waits for all before it: the call is not to pay for what the program did before, and is to pay for what it did itself.
static inline uint64_t clock_after_all(void) {
#if defined(__x86_64__)
    _mm_lfence();
#endif
    return clock_now();
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

// So that no fast path takes what is here for a block of the allocator.
static void keep_off(const char *first, size_t bytes) {
    for (size_t offset = 0; offset <= bytes; offset += RECORDER_LINE) {
        atomic_store(recorder_region_of(first + offset), RECORDER_SEVERAL);
        atomic_store(recorder_line_of(first + offset), recorder_line_word(first + offset, RECORDER_SEVERAL));
    }
}

void recorder_keep_off(void) {
    keep_off(NULL, 0);
    keep_off(arena, sizeof arena);
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
    while (recorder_self.at != RECORDER_HELD && atomic_load_explicit(&stage, memory_order_acquire) != 2) {
    }
    return true;
}

static inline bool ready(void) {
    return __builtin_expect(atomic_load_explicit(&stage, memory_order_acquire) == 2, 1) || make_ready();
}

static inline bool recording(void) {
    return recorder_self.at != RECORDER_HELD &&
           (__builtin_expect(atomic_load_explicit(&recorder_on, memory_order_relaxed), 1) ||
            (recorder_asked != NULL && atomic_load_explicit(recorder_asked, memory_order_relaxed) == RAW_ASKED &&
             recorder_wake()));
}

// ── The slow path: a call that is timed, or needs more than one word ─────────────────────────────────────────

// Beyond LONG_CALL ticks the thread may have been off its CPU, and its own CPU time is counted instead. One timed call
// in LONG_EACH reads that clock, and stands for all the long ones of them.
enum { LONG_CALL = 1 << 17 };

static uint64_t thread_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// A call under way: where its thread's next word is, and when it began if it is timed.
struct call {
    raw_word *at;
    uint64_t began, cpu_began, empty; // empty: what a call of nothing took just before it
};

// What it costs to time a call: all that is read and called here is as rarely used as in a timed call.
static __attribute__((noinline)) void *nothing(size_t size) {
    return (void *)size;
}
static void *(*volatile call_nothing)(size_t) = nothing;

// `written` is 1 if the call's own record has been written already.
static struct call enter(int written) {
    struct recorder_thread *self = &recorder_self;
    struct call call = {self->at, 0, 0, 0};
    if (self->block != NULL && self->at - written >= self->timed_at) {
        self->timed_at = self->at - written + RECORDER_TIMED_EACH;
        if (self->until_long-- == 0) {
            self->until_long = RECORDER_LONG_EACH - 1;
            call.cpu_began = thread_cpu_ns();
        }
        uint64_t before = clock_after_all();
        call_nothing(1);
        call.began = clock_after_all();
        call.empty = call.began - before;
    }
    self->at = RECORDER_HELD;
    return call;
}

static void count_time(const struct call *call, uint64_t ticks) {
    struct raw_block *block = recorder_self.block;
    block->timed_calls++;
    if (ticks < LONG_CALL) {
        block->timed_ticks += ticks;
        block->empty_ticks += call->empty < ticks ? call->empty : ticks;
    } else if (call->cpu_began != 0) {
        block->timed_ns += (thread_cpu_ns() - call->cpu_began) * RECORDER_LONG_EACH;
    }
}

static void leave(const struct call *call) {
    recorder_self.at = call->at;
    if (call->began != 0) {
        count_time(call, clock_after_all() - call->began);
    }
}

static inline unsigned log2_of(size_t alignment) {
    return alignment < 2 ? 0 : (unsigned)(63 - __builtin_clzll(alignment));
}

#define ALLOCATES_SLOWLY(op, size, align, expression)                                                                  \
    do {                                                                                                               \
        if (!recording()) {                                                                                            \
            return expression;                                                                                         \
        }                                                                                                              \
        struct call call_ = enter(0);                                                                                  \
        void *block_ = expression;                                                                                     \
        leave(&call_);                                                                                                 \
        recorder_put(op, block_, size, align);                                                                         \
        return block_;                                                                                                 \
    } while (0)

static __attribute__((noinline)) void *malloc_slowly(size_t size) {
    if (!ready()) {
        return from_arena(size);
    }
    ALLOCATES_SLOWLY(RAW_MALLOC, size, 0, next.malloc(size));
}

static __attribute__((noinline)) void *calloc_slowly(size_t count, size_t size) {
    if (!ready()) {
        return from_arena(count * size); // the arena is used once, so it is zero
    }
    ALLOCATES_SLOWLY(RAW_CALLOC, count * size, 0, next.calloc(count, size));
}

static __attribute__((noinline)) void release_slowly(enum raw_op op, void *block, size_t size, unsigned align) {
    if (block == NULL || in_arena(block) || !ready()) {
        return;
    }
    if (!recording()) {
        next.free(block);
        return;
    }
    recorder_put(op, block, size, align);
    struct call call = enter(1);
    next.free(block);
    leave(&call);
}

static __attribute__((noinline)) void *realloc_slowly(void *old, size_t size) {
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
    recorder_put(RAW_REALLOC_FROM, old, 0, 0);
    struct call call = enter(1);
    recorder_self.timed_at++; // two records, and one call
    void *block = next.realloc(old, size);
    leave(&call);
    recorder_put(RAW_REALLOC_TO, block, size, 0);
    return block;
}

// ── The fast path: a record is one word, and shares the last stamp ───────────────────────────────────────────

// Whether this thread owns the region of the block, or its line: then no other one has had to do with the block since the
// last stamp, which is good enough. Until another thread comes, this one's calls there have one order, its own. Another
// thread that comes takes it over before it stamps: its stamp is younger than ours on all that we did without seeing it.
// And what it releases we allocate only after we can see that. So this is asked after an allocation, and before a release.
static inline bool is_mine(const struct recorder_thread *self, const void *block) {
#if !defined(__x86_64__)
    atomic_thread_fence(memory_order_acquire); // there, loads keep their order
#endif
    atomic_signal_fence(memory_order_seq_cst);
    return ((uintptr_t)block & 15) == 0 &&
           (__builtin_expect(atomic_load_explicit(recorder_region_of(block), memory_order_relaxed) == self->mine, 1) ||
            atomic_load_explicit(recorder_line_of(block), memory_order_relaxed) ==
                recorder_line_word(block, self->mine));
}

// Whether nothing is due: no stamp, no timing, no new block.
static inline bool is_common(const struct recorder_thread *self) {
    return __builtin_expect(self->at < self->stop, 1);
}

static inline void put_word(raw_word *at, enum raw_op op, const void *block, size_t size) {
    // The three have no bit in common. A sum of them takes one instruction where the CPU can add two numbers and a constant.
    atomic_store_explicit(at, ((uint64_t)size << 48) + (uintptr_t)block + op, memory_order_release);
}

static inline void *allocated(struct recorder_thread *self, raw_word *at, enum raw_op op, void *block, size_t size) {
    if (__builtin_expect(!is_mine(self, block) || size >= RAW_LARGE, 0)) {
        self->at = at;
        return recorder_put(op, block, size, 0);
    }
    put_word(at, op, block, size);
    self->at = at + 1;
    return block;
}

EXPORT void *malloc(size_t size) {
    struct recorder_thread *self = &recorder_self;
    if (!is_common(self)) {
        return malloc_slowly(size);
    }
    raw_word *at = self->at;
    self->at = RECORDER_HELD;
    return allocated(self, at, RAW_MALLOC, next.malloc(size), size);
}

EXPORT void *calloc(size_t count, size_t size) {
    struct recorder_thread *self = &recorder_self;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || !is_common(self)) {
        return calloc_slowly(count, size);
    }
    raw_word *at = self->at;
    self->at = RECORDER_HELD;
    return allocated(self, at, RAW_CALLOC, next.calloc(count, size), bytes);
}

static inline void release(enum raw_op op, void *block, size_t size) {
    struct recorder_thread *self = &recorder_self;
    if (!is_common(self) || !is_mine(self, block) || size >= RAW_LARGE) {
        release_slowly(op, block, size, 0);
        return;
    }
    raw_word *at = self->at;
    put_word(at, op, block, size);
    self->at = RECORDER_HELD;
    next.free(block);
    self->at = at + 1;
}

EXPORT void free(void *block) {
    release(RAW_FREE, block, 0);
}

EXPORT void free_sized(void *block, size_t size) {
    release(RAW_FREE_SIZED, block, size);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
    release_slowly(RAW_FREE_SIZED, block, size, log2_of(alignment));
}

EXPORT void *realloc(void *old, size_t size) {
    struct recorder_thread *self = &recorder_self;
    if (!is_common(self) || !is_mine(self, old)) {
        return realloc_slowly(old, size);
    }
    raw_word *at = self->at;
    put_word(at, RAW_REALLOC_FROM, old, 0);
    self->at = RECORDER_HELD;
    void *block = next.realloc(old, size);
    self->timed_at++; // two records, and one call
    return allocated(self, at + 1, RAW_REALLOC_TO, block, size);
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
    ALLOCATES_SLOWLY(RAW_ALIGNED, size, log2_of(alignment), next.memalign(alignment, size));
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    if (!ready() || next.aligned_alloc == NULL) {
        return NULL;
    }
    ALLOCATES_SLOWLY(RAW_ALIGNED, size, log2_of(alignment), next.aligned_alloc(alignment, size));
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size) {
    if (!ready() || next.posix_memalign == NULL) {
        return ENOMEM;
    }
    if (!recording()) {
        return next.posix_memalign(block, alignment, size);
    }
    struct call call = enter(0);
    int error = next.posix_memalign(block, alignment, size);
    leave(&call);
    recorder_put(RAW_ALIGNED, error == 0 ? *block : NULL, size, log2_of(alignment));
    return error;
}

EXPORT void *valloc(size_t size) {
    if (!ready() || next.valloc == NULL) {
        return NULL;
    }
    ALLOCATES_SLOWLY(RAW_ALIGNED, size, 12, next.valloc(size));
}

EXPORT void *pvalloc(size_t size) {
    if (!ready() || next.pvalloc == NULL) {
        return NULL;
    }
    ALLOCATES_SLOWLY(RAW_ALIGNED, size, 12, next.pvalloc(size));
}

EXPORT int malloc_trim(size_t pad) {
    if (!ready() || next.trim == NULL) {
        return 0;
    }
    if (recording()) {
        recorder_put_event(RAW_TRIM, pad);
    }
    return next.trim(pad);
}

// ── operator new and delete ──────────────────────────────────────────────────────────────────────────────────

// An exception of operator new passes through here, so what is undone is undone by a cleanup.
static inline void let_go(raw_word **at) {
    recorder_self.at = *at;
}

// The addresses are found once each, on first use. Two threads that find the same one write the same.
static __attribute__((noinline)) void *find_operator(_Atomic(void *) *where, const char *name) {
    ready();
    raw_word *at = recorder_self.at;
    recorder_self.at = RECORDER_HELD;
    void *function = dlsym(RTLD_NEXT, name);
    recorder_self.at = at;
    if (function == NULL) {
        abort(); // a program that calls operator new has a library with one
    }
    atomic_store_explicit(where, function, memory_order_relaxed);
    return function;
}

static inline void *found(_Atomic(void *) *where, const char *name) {
    void *function = atomic_load_explicit(where, memory_order_relaxed);
    return __builtin_expect(function != NULL, 1) ? function : find_operator(where, name);
}

#define OPERATOR_NEW(name, op, align, parameters, ...)                                                                 \
    EXPORT void *name parameters {                                                                                     \
        static _Atomic(void *) where;                                                                                  \
        void *(*inner)parameters;                                                                                      \
        *(void **)&inner = found(&where, #name);                                                                       \
        struct recorder_thread *self = &recorder_self;                                                                 \
        raw_word *from = self->at;                                                                                     \
        void *block;                                                                                                   \
        if ((align) == 0 && is_common(self)) {                                                                         \
            {                                                                                                          \
                __attribute__((cleanup(let_go), unused)) raw_word *at = from;                                          \
                self->at = RECORDER_HELD;                                                                              \
                block = inner(__VA_ARGS__);                                                                            \
            }                                                                                                          \
            return allocated(self, from, op, block, size);                                                             \
        }                                                                                                              \
        if (!recording()) {                                                                                            \
            return inner(__VA_ARGS__);                                                                                 \
        }                                                                                                              \
        struct call call;                                                                                              \
        {                                                                                                              \
            __attribute__((cleanup(let_go), unused)) raw_word *at = from;                                              \
            call = enter(0);                                                                                           \
            block = inner(__VA_ARGS__);                                                                                \
        }                                                                                                              \
        leave(&call);                                                                                                  \
        recorder_put(op, block, size, log2_of(align));                                                                 \
        return block;                                                                                                  \
    }

#define OPERATOR_DELETE(name, op, bytes, align, parameters, ...)                                                       \
    EXPORT void name parameters {                                                                                      \
        static _Atomic(void *) where;                                                                                  \
        void(*inner) parameters;                                                                                       \
        *(void **)&inner = found(&where, #name);                                                                       \
        struct recorder_thread *self = &recorder_self;                                                                 \
        if ((align) == 0 && is_common(self) && is_mine(self, block) && (bytes) < RAW_LARGE) {                          \
            raw_word *at = self->at;                                                                                   \
            put_word(at, op, block, bytes);                                                                            \
            self->at = RECORDER_HELD;                                                                                  \
            inner(__VA_ARGS__);                                                                                        \
            self->at = at + 1;                                                                                         \
            return;                                                                                                    \
        }                                                                                                              \
        if (!recording() || block == NULL) {                                                                           \
            inner(__VA_ARGS__);                                                                                        \
            return;                                                                                                    \
        }                                                                                                              \
        recorder_put(op, block, bytes, log2_of(align));                                                                \
        struct call call = enter(1);                                                                                   \
        inner(__VA_ARGS__);                                                                                            \
        leave(&call);                                                                                                  \
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
    recorder_put_event(RAW_THREAD_START, birth->number);
    int error = next.pthread_create(thread, attributes, begin_thread, birth);
    if (error != 0) {
        atomic_store_explicit(&birth_taken[birth - births], false, memory_order_release);
    }
    return error;
}
