/* The table of last places, as the hot path uses it: cache/twice.h says what it is for. */
#ifndef FH_CACHE_PLACE_H
#define FH_CACHE_PLACE_H

#include "base/cpu.h"
#include "base/types.h"

/* Keeps gcc from computing an entry's address by itself, where it can be part of an instruction that is there anyway. */
#define FH_HIDE(number) __asm__ volatile("" : "+r"(number))

/* Which entry is that of the block at p, by the golden ratio: those of neighbours are far apart. */
static inline size_t fh_place_index(const void *p) {
    uint32_t hash = (uint32_t)(uintptr_t)p * UINT32_C(0x9E3779B1);
    size_t i = hash >> (32 - FH_PLACE_BITS);
    FH_HIDE(i);
    return i;
}

/* An entry of the thread whose bins these are. */
static inline uint16_t *fh_last_place(fh_bin *bins, size_t i) {
    return (uint16_t *)((char *)bins + (offsetof(fh_thread, last_place) - offsetof(fh_thread, bin))) + i;
}

/* The place that an entry names, if it is in the same 64 KiB as `near`. */
static inline void *const *fh_place_near(void *const *near, const uint16_t *last) {
    return (void *const *)fh_with_low_half((uintptr_t)near, last);
}

/* Inlined into a function that the thread sanitizer follows, it would be followed too. */
#if defined(__SANITIZE_THREAD__)
#define FH_UNTRACED __attribute__((noipa, unused, no_sanitize("thread"))) static
#else
#define FH_UNTRACED static inline
#endif

/* May read a place that another thread writes to. A plain load, which the compiler can compare in one instruction with: its
 * value is only a reason to look closely. */
FH_UNTRACED bool fh_place_holds(void *const *place, const void *p) {
    return *place == p;
}

#endif
