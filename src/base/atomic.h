/* Atomics: every word that two threads may touch goes through the functions of this file, and through nothing else.
 *
 * One type, a 64-bit word, because all that the threads share is bitmaps, packed states and slots. The functions name
 * their memory order; each call site says in a comment why that one is enough. A model checker replaces this file by
 * one with the same functions that ask it before each step, and runs the same C code (see docs/concurrency.md).
 *
 * Thread-safety: all of them. Cost on x86-64: a load or store is a plain move; everything that reads, changes and
 * writes is one locked instruction, 5 to 8 ns. */
#ifndef FH_BASE_ATOMIC_H
#define FH_BASE_ATOMIC_H

#include "base/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A shared word. There is no initialiser: static memory and memory fresh from the OS are zero, which is where each begins. */
typedef struct {
    _Atomic(uint64_t) value;
} fh_word;

/* A byte of the class map, which is read a few times a nanosecond: relaxed loads and stores are plain moves. */
typedef struct {
    _Atomic(uint8_t) value;
} fh_byte;

static inline uint8_t fh_byte_load(const fh_byte *b) {
    return atomic_load_explicit(&b->value, memory_order_relaxed);
}

static inline void fh_byte_store(fh_byte *b, uint8_t v) {
    atomic_store_explicit(&b->value, v, memory_order_relaxed);
}

/* Relaxed: a hint, or a word that only this thread can be changing. */
static inline uint64_t fh_load(const fh_word *w) {
    return atomic_load_explicit(&w->value, memory_order_relaxed);
}

static inline uint64_t fh_load_acquire(const fh_word *w) {
    return atomic_load_explicit(&w->value, memory_order_acquire);
}

static inline void fh_store(fh_word *w, uint64_t v) {
    atomic_store_explicit(&w->value, v, memory_order_relaxed);
}

static inline void fh_store_release(fh_word *w, uint64_t v) {
    atomic_store_explicit(&w->value, v, memory_order_release);
}

/* Compare-and-swap, strong: false means that another thread succeeded; `*seen` then holds what it left. */
static inline bool fh_cas_acquire(fh_word *w, uint64_t *seen, uint64_t v) {
    return atomic_compare_exchange_strong_explicit(&w->value, seen, v, memory_order_acquire, memory_order_acquire);
}

static inline bool fh_cas_acq_rel(fh_word *w, uint64_t *seen, uint64_t v) {
    return atomic_compare_exchange_strong_explicit(&w->value, seen, v, memory_order_acq_rel, memory_order_acquire);
}

static inline bool fh_cas_relaxed(fh_word *w, uint64_t *seen, uint64_t v) {
    return atomic_compare_exchange_strong_explicit(&w->value, seen, v, memory_order_relaxed, memory_order_relaxed);
}

static inline uint64_t fh_or_relaxed(fh_word *w, uint64_t bits) {
    return atomic_fetch_or_explicit(&w->value, bits, memory_order_relaxed);
}

static inline uint64_t fh_and_relaxed(fh_word *w, uint64_t bits) {
    return atomic_fetch_and_explicit(&w->value, bits, memory_order_relaxed);
}

static inline uint64_t fh_or_release(fh_word *w, uint64_t bits) {
    return atomic_fetch_or_explicit(&w->value, bits, memory_order_release);
}

static inline uint64_t fh_or_acq_rel(fh_word *w, uint64_t bits) {
    return atomic_fetch_or_explicit(&w->value, bits, memory_order_acq_rel);
}

static inline uint64_t fh_and_acq_rel(fh_word *w, uint64_t bits) {
    return atomic_fetch_and_explicit(&w->value, bits, memory_order_acq_rel);
}

static inline uint64_t fh_add_relaxed(fh_word *w, uint64_t n) {
    return atomic_fetch_add_explicit(&w->value, n, memory_order_relaxed);
}

static inline uint64_t fh_sub_relaxed(fh_word *w, uint64_t n) {
    return atomic_fetch_sub_explicit(&w->value, n, memory_order_relaxed);
}

static inline uint64_t fh_add_acq_rel(fh_word *w, uint64_t n) {
    return atomic_fetch_add_explicit(&w->value, n, memory_order_acq_rel);
}

static inline uint64_t fh_sub_acq_rel(fh_word *w, uint64_t n) {
    return atomic_fetch_sub_explicit(&w->value, n, memory_order_acq_rel);
}

static inline uint64_t fh_sub_release(fh_word *w, uint64_t n) {
    return atomic_fetch_sub_explicit(&w->value, n, memory_order_release);
}

static inline uint64_t fh_swap_acq_rel(fh_word *w, uint64_t v) {
    return atomic_exchange_explicit(&w->value, v, memory_order_acq_rel);
}

/* Sets or clears bit i, and says whether it was set: one instruction that never tries again. Of a whole word there is no such
 * instruction on x86-64, and not every compiler finds this one by itself. Acquire and release. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define FH_ATOMIC_BIT(name, instruction)                                                                               \
    static inline bool name(fh_word *w, unsigned i) {                                                                  \
        bool was;                                                                                                      \
        __asm__ volatile("lock " instruction " %2, %0"                                                                 \
                         : "+m"(*(uint64_t *)(void *)&w->value), "=@ccc"(was)                                          \
                         : "r"((uint64_t)i)                                                                            \
                         : "memory");                                                                                  \
        return was;                                                                                                    \
    }
FH_ATOMIC_BIT(fh_bit_set, "btsq")
FH_ATOMIC_BIT(fh_bit_clear, "btrq")
#undef FH_ATOMIC_BIT
#else
static inline bool fh_bit_set(fh_word *w, unsigned i) {
    return fh_or_acq_rel(w, UINT64_C(1) << i) >> i & 1;
}

static inline bool fh_bit_clear(fh_word *w, unsigned i) {
    return fh_and_acq_rel(w, ~(UINT64_C(1) << i)) >> i & 1;
}
#endif

#endif
