// A loop that the compiler cannot shorten: each step needs the one before.
#ifndef BURN_H
#define BURN_H

enum { BURN_WORK = 2000, BURN_WASTE = BURN_WORK / 8 };

static inline void burn(int steps) {
    unsigned long long x = 88172645463325252ull;
    for (int i = 0; i < steps; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        __asm__ volatile("" : "+r"(x));
    }
}

#endif
