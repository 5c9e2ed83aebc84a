// SPDX-License-Identifier: MIT OR Apache-2.0
// Records each call of the malloc family, over whatever allocator comes next: libfreehold-record.so, preloaded in front.
//
// The order at each address needs no lock. A release is stamped before the call, an allocation after it. Between the two
// the block was free, so the stamp of a block's release always precedes that of its next owner.
//
// A stamp costs more than malloc and free together. Most records share one: see order.h.
#define _GNU_SOURCE
#include "next.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

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

// A call under way: when it began if it is timed.
struct call {
    uint64_t began, cpu_began, empty; // empty: what a call of nothing took just before it
};

// What it costs to time a call: all that is read and called here is as rarely used as in a timed call.
static __attribute__((noinline)) void *nothing(size_t size) {
    return (void *)size;
}
static void *(*volatile call_nothing)(size_t) = nothing;

// `written` is 1 if the call's own record has been written already: it releases.
static struct call enter(int written) {
    struct recorder_thread *self = &recorder_self;
    struct call call = {0, 0, 0};
    if (self->block != NULL && self->at - written >= self->timed_at && !(self->owes_allocation && written != 0)) {
        self->timed_at = self->at - written + RECORDER_TIMED_EACH;
        self->owes_allocation = false;
        if (self->until_long-- == 0) {
            self->until_long = RECORDER_LONG_EACH - 1;
            call.cpu_began = thread_cpu_ns();
        }
        uint64_t before = clock_after_all();
        call_nothing(1);
        call.began = clock_after_all();
        call.empty = call.began - before;
    }
    return call;
}

static void count_time(const struct call *call, uint64_t ticks) {
    struct raw_block *block = recorder_self.block;
    if (block == NULL) {
        return; // what was called within had no room
    }
    block->timed_calls++;
    if (ticks < LONG_CALL) {
        block->timed_ticks += ticks;
        block->empty_ticks += call->empty < ticks ? call->empty : ticks;
    } else if (call->cpu_began != 0) {
        block->timed_ns += (thread_cpu_ns() - call->cpu_began) * RECORDER_LONG_EACH;
    }
}

static void leave(const struct call *call) {
    if (call->began != 0) {
        count_time(call, clock_after_all() - call->began);
    }
}

static inline unsigned log2_of(size_t alignment) {
    return alignment < 2 ? 0 : (unsigned)(63 - __builtin_clzll(alignment));
}

static void *allocated_large(enum raw_op op, void *block, size_t size);
static bool put_noted_release(enum raw_op op, const void *block, size_t size);

#define ALLOCATES_SLOWLY(op, size, align, expression)                                                                  \
    do {                                                                                                               \
        if ((align) == 0 && (size) >= RAW_LARGE && recorder_simple_below != 0) {                                       \
            return allocated_large(op, expression, size);                                                              \
        }                                                                                                              \
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
        return next_from_arena(size);
    }
    ALLOCATES_SLOWLY(RAW_MALLOC, size, 0, next.malloc(size));
}

static __attribute__((noinline)) void *calloc_slowly(size_t count, size_t size) {
    if (!ready()) {
        return next_from_arena(count * size); // the arena is used once, so it is zero
    }
    ALLOCATES_SLOWLY(RAW_CALLOC, count * size, 0, next.calloc(count, size));
}

static __attribute__((noinline)) void release_slowly(enum raw_op op, void *block, size_t size, unsigned align) {
    if (align == 0 && put_noted_release(op, block, size)) {
        next.free(block);
        return;
    }
    if (block == NULL || next_in_arena(block) || !ready()) {
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
    if (!ready() || next_in_arena(old)) {
        void *block = malloc(size);
        if (block != NULL && next_in_arena(old)) {
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
    raw_word *at = recorder_hold();
    void *block = next.realloc(old, size);
    recorder_let_go(&at);
    leave(&call);
    recorder_put(RAW_REALLOC_TO, block, size, 0);
    return block;
}

// ── The fast path: a record is one word, and shares the last stamp ───────────────────────────────────────────

// Whether this thread owns the region of the block: then its last stamp is good enough.
static inline bool is_mine(const struct recorder_thread *self, const void *block) {
#if !defined(__x86_64__)
    atomic_thread_fence(memory_order_acquire); // there, loads keep their order
#endif
    atomic_signal_fence(memory_order_seq_cst);
    return ((uintptr_t)block & 15) == 0 && __builtin_expect(order_owns_region(&self->dates, block), 1);
}

// The same where several threads have blocks.
static inline bool is_dated(const struct recorder_thread *self, const void *block) {
    return ((uintptr_t)block & 15) == 0 && order_is_dated(&self->dates, block);
}

// Whether nothing is due: no stamp, no timing, no new block.
static inline bool is_common(const struct recorder_thread *self, const raw_word *at) {
    return __builtin_expect(at < self->stop, 1);
}

static inline void put_word(raw_word *at, enum raw_op op, const void *block, size_t size) {
    // The three have no bit in common. A sum of them takes one instruction where the CPU can add two numbers and a constant.
    atomic_store_explicit(at, ((uint64_t)size << 48) + (uintptr_t)block + op, memory_order_release);
}

static inline void put(raw_word *at, enum raw_op op, const void *block, size_t size) {
    put_word(at, op, block, size);
    recorder_self.at = at + 1;
}

// An allocation that is timed must be so from its beginning. When it is due is seen at the end, and so it is the next one.
static __attribute__((noinline)) void *allocated_rarely(enum raw_op op, void *block, size_t size) {
    struct recorder_thread *self = &recorder_self;
    if (size < RAW_LARGE && is_common(self, self->at) && is_dated(self, block)) {
        put(self->at, op, block, size);
        return block;
    }
    if (!recording()) {
        return block;
    }
    self->owes_allocation = self->owes_allocation || (self->block != NULL && self->at >= self->timed_at);
    return recorder_put(op, block, size, 0);
}

// What is called within an allocation, a new_handler, may have written before: `at` is read after it.
static inline void *allocated(enum raw_op op, void *block, size_t size) {
    struct recorder_thread *self = &recorder_self;
    raw_word *at = self->at;
    if (!is_common(self, at) || __builtin_expect(!is_mine(self, block), 0)) {
        return allocated_rarely(op, block, size);
    }
    put(at, op, block, size);
    return block;
}

// The same with a prefix for a large size.
static __attribute__((noinline)) void *allocated_large(enum raw_op op, void *block, size_t size) {
    struct recorder_thread *self = &recorder_self;
    raw_word *at = self->at;
    if (!is_common(self, at) || !(is_mine(self, block) || is_dated(self, block))) {
        return allocated_rarely(op, block, size);
    }
    atomic_store_explicit(at, (uint64_t)size >> 16 << 16 | RAW_PREFIX, memory_order_release);
    put_word(at + 1, op, block, size);
    self->at = at + 2;
    self->stamp_at++; // what is due after some calls is due one word later
    self->timed_at++;
    self->others++;
    return block;
}

// Whether nothing is to be done before an allocation.
static inline bool is_simple(size_t size) {
    return __builtin_expect(size < recorder_simple_below, 1);
}

EXPORT void *malloc(size_t size) {
    return is_simple(size) ? allocated(RAW_MALLOC, next.malloc(size), size) : malloc_slowly(size);
}

EXPORT void *calloc(size_t count, size_t size) {
    size_t bytes;
    return !__builtin_mul_overflow(count, size, &bytes) && is_simple(bytes)
               ? allocated(RAW_CALLOC, next.calloc(count, size), bytes)
               : calloc_slowly(count, size);
}

// Whether the record of a release is written, and nothing else is to be done before it.
static inline bool put_release(enum raw_op op, const void *block, size_t size) {
    struct recorder_thread *self = &recorder_self;
    raw_word *at = self->at;
    if (!is_common(self, at) || !is_mine(self, block) || size >= RAW_LARGE) {
        return false;
    }
    put(at, op, block, size);
    return true;
}

// The same where several threads have blocks.
static bool put_noted_release(enum raw_op op, const void *block, size_t size) {
    struct recorder_thread *self = &recorder_self;
    raw_word *at = self->at;
    if (!is_common(self, at) || size >= RAW_LARGE || !is_dated(self, block)) {
        return false;
    }
    put(at, op, block, size);
    return true;
}

EXPORT void free(void *block) {
    if (!put_release(RAW_FREE, block, 0)) {
        release_slowly(RAW_FREE, block, 0, 0);
        return;
    }
    next.free(block);
}

EXPORT void free_sized(void *block, size_t size) {
    if (!put_release(RAW_FREE_SIZED, block, size)) {
        release_slowly(RAW_FREE_SIZED, block, size, 0);
        return;
    }
    next.free(block);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
    release_slowly(RAW_FREE_SIZED, block, size, log2_of(alignment));
}

EXPORT void *realloc(void *old, size_t size) {
    if (!put_release(RAW_REALLOC_FROM, old, 0) && !put_noted_release(RAW_REALLOC_FROM, old, 0)) {
        return realloc_slowly(old, size);
    }
    raw_word *at = recorder_hold();
    void *block = next.realloc(old, size);
    recorder_let_go(&at);
    recorder_self.timed_at++; // two records, and one call
    return size < RAW_LARGE ? allocated(RAW_REALLOC_TO, block, size) : recorder_put(RAW_REALLOC_TO, block, size, 0);
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

// Each is found on first use: until then `next` is a function that does so. Two threads that find the same one write the same.
#define FOUND_ON_FIRST_USE(name, type, returns, parameters, ...)                                                       \
    static type name##_first parameters;                                                                               \
    static type(*_Atomic name##_real) parameters;                                                                      \
    static type(*_Atomic name##_next) parameters = name##_first;                                                       \
    RECORDER_WRAPPER(type, returns, name, atomic_load_explicit(&name##_real, memory_order_relaxed), parameters,        \
                     __VA_ARGS__)                                                                                      \
    static type name##_first parameters {                                                                              \
        type(*found) parameters;                                                                                       \
        if ((*(void **)&found = next_find(#name)) == NULL) {                                                           \
            abort(); /* a program that calls operator new has a library with one */                                    \
        }                                                                                                              \
        atomic_store_explicit(&name##_real, found, memory_order_relaxed);                                              \
        bool is_quiet = next_is_quiet(*(void **)&found);                                                               \
        atomic_store_explicit(&name##_next, is_quiet ? found : name##_held, memory_order_release);                     \
        returns(is_quiet ? found : name##_held)(__VA_ARGS__);                                                          \
    }

#define NEXT_OPERATOR(name) atomic_load_explicit(&name##_next, memory_order_acquire)

#define OPERATOR_NEW(name, op, align, parameters, ...)                                                                 \
    FOUND_ON_FIRST_USE(name, void *, return, parameters, __VA_ARGS__)                                                  \
    static __attribute__((noinline)) void *name##_slowly parameters {                                                  \
        ready();                                                                                                       \
        ALLOCATES_SLOWLY(op, size, log2_of(align), NEXT_OPERATOR(name)(__VA_ARGS__));                                  \
    }                                                                                                                  \
    EXPORT void *name parameters {                                                                                     \
        return (align) == 0 && is_simple(size) ? allocated(op, NEXT_OPERATOR(name)(__VA_ARGS__), size)                 \
                                               : name##_slowly(__VA_ARGS__);                                           \
    }

#define OPERATOR_DELETE(name, op, bytes, align, parameters, ...)                                                       \
    FOUND_ON_FIRST_USE(name, void, , parameters, __VA_ARGS__)                                                          \
    static __attribute__((noinline)) void name##_slowly parameters {                                                   \
        if ((align) == 0 && put_noted_release(op, block, bytes)) {                                                     \
            NEXT_OPERATOR(name)(__VA_ARGS__);                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        ready();                                                                                                       \
        if (!recording() || block == NULL) {                                                                           \
            NEXT_OPERATOR(name)(__VA_ARGS__);                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        recorder_put(op, block, bytes, log2_of(align));                                                                \
        struct call call = enter(1);                                                                                   \
        NEXT_OPERATOR(name)(__VA_ARGS__);                                                                              \
        leave(&call);                                                                                                  \
    }                                                                                                                  \
    EXPORT void name parameters {                                                                                      \
        if ((align) != 0 || !put_release(op, block, bytes)) {                                                          \
            name##_slowly(__VA_ARGS__);                                                                                \
            return;                                                                                                    \
        }                                                                                                              \
        NEXT_OPERATOR(name)(__VA_ARGS__);                                                                              \
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
    void *(*start)(void *); // of pthread_create, or
    thrd_start_t starts;    // of thrd_create
    void *argument;
    uint32_t number;
};

// What a new thread is told before it begins. A place is free again as soon as the thread has read it.
enum { BIRTHS = 4096 };
static struct birth births[BIRTHS];
static _Atomic bool birth_taken[BIRTHS];

static struct birth be_born(const struct birth *given) {
    struct birth birth = *given;
    atomic_store_explicit(&birth_taken[given - births], false, memory_order_release);
    recorder_self.number = birth.number;
    return birth;
}

static void *begin_thread(void *given) {
    struct birth birth = be_born(given);
    return birth.start(birth.argument);
}

static int begin_thrd(void *given) {
    struct birth birth = be_born(given);
    return birth.starts(birth.argument);
}

static struct birth *take_birth(void) {
    for (unsigned i = 0; i < BIRTHS; i++) {
        if (!atomic_exchange_explicit(&birth_taken[i], true, memory_order_acquire)) {
            return &births[i];
        }
    }
    return NULL;
}

// The start of a thread is recorded before it begins. NULL: nothing is recorded, or too many threads begin at this moment.
static struct birth *announce(struct birth birth) {
    struct birth *place = recording() ? take_birth() : NULL;
    if (place != NULL) {
        birth.number = recorder_new_thread();
        *place = birth;
        recorder_put_event(RAW_THREAD_START, birth.number);
    }
    return place;
}

// Nobody reads the place of a thread that could not be made.
static int unless_born(struct birth *birth, int error) {
    if (error != 0) {
        atomic_store_explicit(&birth_taken[birth - births], false, memory_order_release);
    }
    return error;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    ready();
    if (next_has(__builtin_return_address(0))) { // a thread of Freehold's own
        RECORDER_HOLDS;
        return next.pthread_create(thread, attributes, start, argument);
    }
    struct birth *birth = announce((struct birth){.start = start, .argument = argument});
    if (birth == NULL) {
        return next.pthread_create(thread, attributes, start, argument);
    }
    return unless_born(birth, next.pthread_create(thread, attributes, begin_thread, birth));
}

static_assert(thrd_success == 0, "as of pthread_create");

EXPORT int thrd_create(thrd_t *thread, thrd_start_t start, void *argument) {
    ready();
    if (next.thrd_create == NULL) {
        return thrd_error;
    }
    struct birth *birth = announce((struct birth){.starts = start, .argument = argument});
    if (birth == NULL) {
        return next.thrd_create(thread, start, argument);
    }
    return unless_born(birth, next.thrd_create(thread, begin_thrd, birth));
}

// Without what atexit and destructors do.
EXPORT __attribute__((noreturn)) void _exit(int status) {
    recorder_program_ends();
    for (;;) {
        syscall(SYS_exit_group, status);
    }
}

EXPORT __attribute__((noreturn)) void _Exit(int status) {
    _exit(status);
}

// The C library's fork calls its own _Fork, and then what pthread_atfork has registered. Who calls this one has neither.
EXPORT pid_t _Fork(void) {
    ready();
    if (next.fork_alone == NULL) {
        errno = ENOSYS;
        return -1;
    }
    recorder_before_fork();
    pid_t child = next.fork_alone();
    if (child == 0) {
        recorder_in_child();
    }
    return child;
}
