/* The arithmetic of sampling, pure and without the C library's: bytes until the next sample, and what a sample stands for.
 *
 * Every byte that a thread asks for is drawn with probability 1/T, independently of all others. So a block of s bytes is
 * sampled with P(s) = 1 − exp(−s/T). The number of bytes until the next one is exponential with mean T, whatever has been
 * asked for so far: it is drawn once and counted down, and after a sample drawn again. A sample stands for 1/P blocks and
 * s/P bytes: the expected value of the sum over all samples is the sum over all blocks, whatever the sizes are.
 *
 * Thread-safety: each thread has its own generator. Cost: a draw some 20 ns, a weight some 30 ns. */
#ifndef FH_OBSERVE_SAMPLING_H
#define FH_OBSERVE_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

/* −ln(u) for 0 < u ≤ 1, and 1 − exp(−x) for x ≥ 0: both to within 4 units of the last place. */
double fh_minus_log(double u);
double fh_one_minus_exp(double x);

/* The next 64 bits of a generator (splitmix64), whose state may be anything. */
uint64_t fh_random(uint64_t *state);

/* Bytes until sample: how many may be asked for until one is drawn, ⌊−T · ln U⌋. A block of s bytes is sampled when this
 * is below s. A whole number is exact: ⌊E⌋ < s and E < s are the same for a whole s. An interval of 1 asks for every block:
 * the answer is 0 and P is 1, where chance would pass over a block of 2 bytes in seven. */
uint64_t fh_sampling_distance(uint64_t *state, uint64_t interval);

/* True with the probability P(size), by a draw of its own: where no bytes are counted down. */
bool fh_sampling_draws(uint64_t *state, uint64_t size, uint64_t interval);

typedef struct {
    uint64_t bytes;    /* s/P */
    uint64_t blocks;   /* 1/P, in 1/FH_PROFILE_BLOCK_UNIT */
    uint64_t variance; /* s²(1 − P)/P², in units of 2^FH_PROFILE_VARIANCE_SHIFT */
} fh_weight;

/* What a sample stands for: a block of `size` bytes that was drawn as one of `drawn` bytes. */
fh_weight fh_sampling_weight(uint64_t size, uint64_t drawn, uint64_t interval);

#endif
