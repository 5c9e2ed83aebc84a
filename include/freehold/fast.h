/* Freehold inlined: the hit of malloc and free in the caller's own code, without a call. C11, C++14 and later; gcc or clang.
 *
 * For programs that link Freehold statically (libfreehold.a, libfreehold-embed.a), also with LTO. What is no hit is a call into
 * the library, so each function here does what its namesake of freehold.h does. docs/fast.md has the figures.
 *
 * What holds for every function here, beside what freehold.h says of all:
 *   Sizes        in bytes. Inlined up to 1 KiB; a size that the compiler knows, up to 64 KiB. Others are a call.
 *   Alignment    every block begins at a multiple of 16.
 *   Errors       NULL with errno ENOMEM. The C++ functions call the new handler and throw std::bad_alloc.
 *   Threads      any thread at any time; a block may be freed by any thread. Not async-signal-safe.
 *   Mixing       blocks are those of fh_malloc: any of the two interfaces frees what the other allocated.
 *   Observing    with option check, and in an observed thread, no bin has a hit. All calls then reach the library.
 *   Double free  fh_fast_free looks for it as fh_free does. The sized forms do not: what they free twice is found
 *                when the block's magazine is flushed. FH_FAST_LOOK=0 turns the look of fh_fast_free off as well.
 *
 * The header and the library must be of one layout (FH_FAST_LAYOUT). The names of the calls carry its number, so a program that
 * is compiled with another one does not link: "undefined reference to fh_fast_2_malloc". Nor does one that links the shared
 * library, or a checked build. Three macros, to be defined before this header:
 *
 *   FH_FAST_CALLS    everything is a call: for a shared library, a checked build, a sanitizer (found by itself)
 *   FH_FAST_LOOK     1: fh_fast_free looks for double frees at the call, the default; 0: it does not
 *   FH_FAST_TLS      the model of thread-local storage: "local-exec" in code for a program, else "initial-exec" */
#ifndef FREEHOLD_FAST_H
#define FREEHOLD_FAST_H

#include "freehold/freehold.h"

#include <stdint.h>

#define FH_FAST_LAYOUT 2

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define FH_FAST_CALLS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define FH_FAST_CALLS 1
#endif
#endif

#ifndef FH_FAST_CALLS
#define FH_FAST_CALLS 0
#endif
#ifndef FH_FAST_LOOK
#define FH_FAST_LOOK 1
#endif
#ifndef FH_FAST_TLS
#if defined(__PIC__) && !defined(__PIE__)
#define FH_FAST_TLS "initial-exec"
#else
#define FH_FAST_TLS "local-exec"
#endif
#endif

#define FH_FAST_INLINE __attribute__((always_inline, unused)) static inline
#define FH_FAST_LIKELY(x) __builtin_expect(!!(x), 1)
#define FH_FAST_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* What is known of a thread's bins and of the class map. tests/fast/layout.c compares it with the library's own types. */
#define FH_FAST_FINE_MAX 1024u
#define FH_FAST_SMALL_MAX 65536u
#define FH_FAST_SLOT_SHIFT 16
#define FH_FAST_CLASS_MAP ((uintptr_t)1 << 24) /* bytes of the class map, just below the base */
#define FH_FAST_PLACES 7244                    /* bytes from a thread's bins to its last places */
#define FH_FAST_PLACE_BITS 12

#ifdef __cplusplus
extern "C" {
#endif

struct fh_fast_bin {
    void **top;
    void **end;
};

/* Hidden: in the program itself, because that is where a static library is. */
extern __thread struct fh_fast_bin *fh_fast_bins __asm__("fh_self_bins")
    __attribute__((tls_model(FH_FAST_TLS), visibility("hidden")));
extern uintptr_t fh_fast_base __asm__("fh_base") __attribute__((visibility("hidden")));

/* All that is no hit. */
void *fh_fast_2_malloc(size_t size);
void fh_fast_2_free(void *p);

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* what follows is C */
#pragma GCC diagnostic ignored "-Wzero-as-null-pointer-constant"
#endif

/* ── The parts ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The class of 1025 … 65536 bytes, for a size that the compiler knows: then it is a number. */
FH_FAST_INLINE unsigned fh_fast_coarse(size_t size) {
    unsigned top = 63u - (unsigned)__builtin_clzll((unsigned long long)size - 1);
    return (top << 3) + (unsigned)((size - 1) >> (top - 3)) - 23;
}

/* Has a block of that size a bin that is found inline? */
FH_FAST_INLINE int fh_fast_has_bin(size_t size) {
    return __builtin_constant_p(size) ? size <= FH_FAST_SMALL_MAX : size <= FH_FAST_FINE_MAX;
}

/* The bin of that size among these. Of 0 bytes: the first one, which has no hit. */
FH_FAST_INLINE struct fh_fast_bin *fh_fast_bin_of(struct fh_fast_bin *bins, size_t size) {
    if (size > FH_FAST_FINE_MAX) return bins + fh_fast_coarse(size);
    return (struct fh_fast_bin *)(void *)((char *)bins + ((size + 15) & ~(size_t)15));
}

/* Which slot of the window p is in; a large number for what is not in the window. */
FH_FAST_INLINE uintptr_t fh_fast_slot(const void *p, uintptr_t base) {
    return ((uintptr_t)p - base) >> FH_FAST_SLOT_SHIFT;
}

FH_FAST_INLINE unsigned fh_fast_class(uintptr_t base, uintptr_t slot) {
    return __atomic_load_n((const uint8_t *)(base - FH_FAST_CLASS_MAP) + slot, __ATOMIC_RELAXED);
}

/* The bin has room, and top is its top. */
FH_FAST_INLINE void fh_fast_push(struct fh_fast_bin *bin, void **top, void *p) {
    *top = p;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    bin->top++;
}

/* `word` with its low 16 bits replaced by those in memory. */
FH_FAST_INLINE uintptr_t fh_fast_low_half(uintptr_t word, const uint16_t *low) {
#if defined(__x86_64__)
    __asm__("movw %1, %w0" : "+r"(word) : "m"(*low));
    return word;
#else
    return (word & ~(uintptr_t)UINT16_MAX) | *low;
#endif
}

/* Does the place that p went to when it was freed last hold it still? If not, notes that p goes to `top` now. */
FH_FAST_INLINE int fh_fast_is_suspect(struct fh_fast_bin *bins, void **top, const void *p) {
    size_t i = (uint32_t)((uint32_t)(uintptr_t)p * UINT32_C(0x9E3779B1)) >> (32 - FH_FAST_PLACE_BITS);
    __asm__("" : "+r"(i)); /* or the entry's address would be computed by itself */
    uint16_t *last = (uint16_t *)(void *)((char *)bins + FH_FAST_PLACES) + i;
    if (FH_FAST_UNLIKELY(*(void *const *)fh_fast_low_half((uintptr_t)top, last) == p)) return 1;
    *last = (uint16_t)(uintptr_t)top;
    return 0;
}

/* ── Allocating and freeing ──────────────────────────────────────────────────────────────────────────────────────── */

/* fh_malloc. Hit: 7 instructions for a size that the compiler knows, else 11. */
FH_FAST_INLINE FH_API_SIZE(1) void *fh_fast_malloc(size_t size) {
    if (FH_FAST_CALLS) return fh_malloc(size);
    if (FH_FAST_UNLIKELY(!fh_fast_has_bin(size))) return fh_fast_2_malloc(size);
    struct fh_fast_bin *bin = fh_fast_bin_of(fh_fast_bins, size);
    void **top = bin->top;
    void *p = top[-1];
    if (FH_FAST_UNLIKELY(!p)) return fh_fast_2_malloc(size);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    bin->top--;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    top[-1] = NULL;
    return p;
}

/* fh_free. p may be NULL, and may be any block that fh_free takes. Hit: 23 instructions, 17 with FH_FAST_LOOK=0. With the
 * option double_free=flush the form that looks is always a call. */
FH_FAST_INLINE void fh_fast_free(void *p) {
    if (FH_FAST_CALLS) {
        fh_free(p);
        return;
    }
    struct fh_fast_bin *bins = fh_fast_bins;
    const uint64_t *slots =
        (const uint64_t *)(const void *)bins - 2; /* as the thread is watched for double frees, or is not */
    uintptr_t base = __atomic_load_n(&fh_fast_base, __ATOMIC_RELAXED), slot = fh_fast_slot(p, base);
    if (FH_FAST_LIKELY(slot < (FH_FAST_LOOK ? slots[0] : slots[0] | slots[1]))) {
        struct fh_fast_bin *bin = bins + fh_fast_class(base, slot);
        void **top = bin->top;
        if (FH_FAST_LIKELY(top != bin->end) && !(FH_FAST_LOOK && fh_fast_is_suspect(bins, top, p))) {
            fh_fast_push(bin, top, p);
            return;
        }
    }
    fh_fast_2_free(p);
}

/* fh_free_sized: `size` is what was asked for last, by fh_malloc, fh_calloc or fh_realloc. p is a block, and not NULL. A
 * wrong size is harmless: the block's class is compared, and what differs is a call. So is a block of a heap, or a guarded one.
 * Does not look for a double free. Hit: 15 instructions for a size that the compiler knows. */
FH_FAST_INLINE void fh_fast_free_sized(void *p, size_t size) {
    if (FH_FAST_CALLS) {
        fh_free_sized(p, size);
        return;
    }
    if (FH_FAST_LIKELY(fh_fast_has_bin(size))) {
        struct fh_fast_bin *bins = fh_fast_bins, *bin = fh_fast_bin_of(bins, size);
        uintptr_t base = __atomic_load_n(&fh_fast_base, __ATOMIC_RELAXED);
        uintptr_t slot = fh_fast_slot(p, base);
        void **top = bin->top;
        /* A block outside of the window has no byte in the class map: a guarded one, or one of a heap over given memory. */
        if (FH_FAST_LIKELY(slot < FH_FAST_CLASS_MAP) &&
            FH_FAST_LIKELY(fh_fast_class(base, slot) == (unsigned)(bin - bins)) && FH_FAST_LIKELY(top != bin->end)) {
            fh_fast_push(bin, top, p);
            return;
        }
    }
    fh_fast_2_free(p);
}

/* The same for a caller who knows more: p came from fh_malloc, fh_fast_malloc or fh_malloc_batch with exactly this size, outside of
 * any heap's scope, and was neither resized nor aligned, nor NULL; and option guard is not changed while the program runs. Nothing is
 * looked up. A wrong size damages the heap: blocks overlap. Hit: 6 instructions. */
FH_FAST_INLINE void fh_fast_free_exact(void *p, size_t size) {
    if (FH_FAST_CALLS) {
        fh_free_sized(p, size);
        return;
    }
    if (FH_FAST_LIKELY(fh_fast_has_bin(size))) {
        struct fh_fast_bin *bin = fh_fast_bin_of(fh_fast_bins, size);
        void **top = bin->top;
        if (FH_FAST_LIKELY(top != bin->end)) {
            fh_fast_push(bin, top, p);
            return;
        }
    }
    fh_fast_2_free(p);
}

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
#include "freehold/fast.hpp"
#endif

#endif
