// SPDX-License-Identifier: MIT OR Apache-2.0
// The allocator that comes next.
//
// Some allocators call functions of the malloc family by their names: an operator new calls malloc. Those calls are not the
// program's. For such a function the one here is a wrapper that holds `at` meanwhile, so that nothing is recorded. A quiet
// allocator does not: Freehold, and glibc's malloc. Then the one here is the allocator's own, and what a new_handler or a
// callback of the program does within is recorded, before the call that it is in. A realloc is held by who calls it: its two
// records are side by side.
#ifndef FREEHOLD_RECORDER_NEXT_H
#define FREEHOLD_RECORDER_NEXT_H

#include "raw.h"

#include <pthread.h>
#include <sys/types.h>
#include <threads.h>

#pragma GCC visibility push(hidden)

struct next {
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
    int (*thrd_create)(thrd_t *, thrd_start_t, void *);
    pid_t (*fork_alone)(void); // _Fork; glibc has it since 2.34
};
extern struct next next;

bool next_make_ready(void); // True when `next` can be used; false for the calls that come from finding it.
extern _Atomic int next_stage;

static inline bool ready(void) {
    return __builtin_expect(atomic_load_explicit(&next_stage, memory_order_acquire) == 2, 1) || next_make_ready();
}

// Answers while the first name is looked up. Its bytes are zero, as it is used once.
void *next_from_arena(size_t size);
bool next_in_arena(const void *block);

bool next_is_quiet(const void *function); // one of a quiet allocator, which the wrapper is not needed for
bool next_has(const void *code);          // Freehold itself, if it comes next
void *next_find(const char *name);        // NULL: there is none

// While one of these lives nothing is recorded, also when an exception passes.
static inline raw_word *recorder_hold(void) {
    raw_word *at = recorder_self.at;
    recorder_self.at = RECORDER_HELD;
    return at;
}

static inline void recorder_let_go(raw_word **at) {
    recorder_self.at = *at;
}

#define RECORDER_HOLDS __attribute__((cleanup(recorder_let_go), unused)) raw_word *held_ = recorder_hold()

// The wrapper NAME_held of a function. `returns` is the keyword, or nothing for a function that returns nothing.
#define RECORDER_WRAPPER(type, returns, name, function, parameters, ...)                                               \
    static type name##_held parameters {                                                                               \
        RECORDER_HOLDS;                                                                                                \
        returns(function)(__VA_ARGS__);                                                                                \
    }

#pragma GCC visibility pop
#endif
