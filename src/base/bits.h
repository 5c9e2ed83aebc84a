/* Bits of a 64-bit word: the only data structure of this library. Pure functions, no memory. */
#ifndef FH_BASE_BITS_H
#define FH_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline unsigned fh_lowest_bit(uint64_t w) {
    return (unsigned)__builtin_ctzll(w);
}

static inline unsigned fh_highest_bit(uint64_t w) {
    return 63u - (unsigned)__builtin_clzll(w);
}

/* In arithmetic, as the instruction for it is not on every x86-64 and the compiler would call a function instead. */
static inline unsigned fh_count_bits(uint64_t w) {
    w -= w >> 1 & UINT64_C(0x5555555555555555);
    w = (w & UINT64_C(0x3333333333333333)) + (w >> 2 & UINT64_C(0x3333333333333333));
    w = (w + (w >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return (unsigned)(w * UINT64_C(0x0101010101010101) >> 56);
}

/* The lowest n bits set, 0 <= n <= 64. */
static inline uint64_t fh_low_mask(unsigned n) {
    return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
}

/* n bits set from bit i on, i + n <= 64. */
static inline uint64_t fh_run_mask(unsigned i, unsigned n) {
    return fh_low_mask(n) << i;
}

/* The lowest `want` set bits of w (all of them if there are fewer). */
static inline uint64_t fh_lowest_bits(uint64_t w, unsigned want) {
    if (want >= 64 || fh_count_bits(w) <= want) return w;
    uint64_t rest = w;
    for (; want > 0; want--) rest &= rest - 1;
    return w ^ rest;
}

/* Bit i of the result is set where bits i … i+n-1 of w all are: the places where a run of n can begin. O(log n). */
static inline uint64_t fh_run_starts(uint64_t w, unsigned n) {
    unsigned have = 1;
    while (have < n && w) {
        unsigned step = have < n - have ? have : n - have;
        w &= w >> step;
        have += step;
    }
    return w;
}

/* Length of the longest run of set bits, by its binary digits, the highest first. In registers and without a branch: a claim of
 * slots asks four times, and with an array and loops it took 125 instructions instead of 55. */
static inline unsigned fh_longest_run(uint64_t w) {
    /* Where runs of 1, 2, 4 … 32 bits begin. */
    uint64_t of_2 = w & w >> 1, of_4 = of_2 & of_2 >> 2, of_8 = of_4 & of_4 >> 4, of_16 = of_8 & of_8 >> 8;
    uint64_t of_32 = of_16 & of_16 >> 16, starts = ~UINT64_C(0); /* of runs of n bits */
    unsigned n = 0;
    if (w == ~UINT64_C(0)) return 64;
#define FH_LONGER(bits, more)                                                                                          \
    do {                                                                                                               \
        uint64_t longer = starts & (bits) >> n;                                                                        \
        starts = longer ? longer : starts;                                                                             \
        n = longer ? n + (more) : n;                                                                                   \
    } while (0)
    FH_LONGER(of_32, 32);
    FH_LONGER(of_16, 16);
    FH_LONGER(of_8, 8);
    FH_LONGER(of_4, 4);
    FH_LONGER(of_2, 2);
    FH_LONGER(w, 1);
#undef FH_LONGER
    return n;
}

static inline bool fh_is_power_of_two(size_t n) {
    return n != 0 && (n & (n - 1)) == 0;
}

static inline size_t fh_round_up(size_t n, size_t unit) {
    return (n + unit - 1) & ~(unit - 1);
}

/* Data of the library that is reached without the detour over the global offset table. */
#define FH_HIDDEN __attribute__((visibility("hidden")))

#define FH_LIKELY(x) __builtin_expect(!!(x), 1)
#define FH_UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif
