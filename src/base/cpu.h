/* What the core wants to know of the CPU, in one place. x86-64 and arm64 differ in one point only. */
#ifndef FH_BASE_CPU_H
#define FH_BASE_CPU_H

#include <stdatomic.h>

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

#endif
