/* The arithmetic on the bits of a word, which everything free is found by, against counting bit by bit. */
#include "base/bits.h"

#include "../support/check.h"

enum { ROUNDS = 300000 };

static unsigned longest_run(uint64_t w) {
    unsigned longest = 0, here = 0;
    for (unsigned i = 0; i < 64; i++) {
        here = w >> i & 1 ? here + 1 : 0;
        if (here > longest) longest = here;
    }
    return longest;
}

static unsigned bits_of(uint64_t w) {
    unsigned n = 0;
    for (unsigned i = 0; i < 64; i++) n += w >> i & 1;
    return n;
}

/* True if n bits of w are set from bit i on. */
static bool is_run(uint64_t w, unsigned i, unsigned n) {
    for (unsigned k = 0; k < n; k++) {
        if (i + k >= 64 || !(w >> (i + k) & 1)) return false;
    }
    return true;
}

static void check(uint64_t w) {
    unsigned longest = longest_run(w);
    CHECK(fh_longest_run(w) == longest, "the longest run of %016lx is %u, not %u", w, longest, fh_longest_run(w));
    CHECK(fh_count_bits(w) == bits_of(w), "%016lx has %u bits, not %u", w, bits_of(w), fh_count_bits(w));
    for (unsigned n = 1; n <= 64; n += n < 8 ? 1 : 7) {
        uint64_t starts = fh_run_starts(w, n);
        for (unsigned i = 0; i < 64; i++)
            CHECK((starts >> i & 1) == is_run(w, i, n), "a run of %u at %u of %016lx: %016lx", n, i, w, starts);
    }
}

int main(void) {
    uint64_t random = random_seed();
    check(0);
    for (unsigned i = 0; i < 64; i++) {
        for (unsigned n = 1; i + n <= 64; n++) {
            check(fh_run_mask(i, n));
            check(~fh_run_mask(i, n));
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t w = random_next(&random), v = random_next(&random);
        check(round % 3 == 0 ? w : round % 3 == 1 ? w | v : w & v & w >> 7);
    }
    puts("ok");
    return 0;
}
