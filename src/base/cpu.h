/* What the core wants to know of the CPU, in one place. x86-64 and arm64 differ in one point only. */
#ifndef FH_BASE_CPU_H
#define FH_BASE_CPU_H

#include <stdatomic.h>
#include <stdint.h>

/* Bytes that two CPUs pass to each other as one. Structures that different threads write are kept apart by it. */
#define FH_CACHE_LINE 64

/* A full barrier between an atomic read-modify-write before it and a load after it. On x86-64 the locked instruction is
 * that barrier already, so only the compiler is to be held back; elsewhere it is a real fence. */
static inline void fh_fence_after_rmw(void) {
#if defined(__x86_64__)
    atomic_signal_fence(memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* `word` with its low 16 bits replaced by those in memory: one instruction where the CPU has it. */
static inline uintptr_t fh_with_low_half(uintptr_t word, const uint16_t *low) {
#if defined(__x86_64__)
    __asm__("movw %1, %w0" : "+r"(word) : "m"(*low));
    return word;
#else
    return (word & ~(uintptr_t)UINT16_MAX) | *low;
#endif
}

#endif
