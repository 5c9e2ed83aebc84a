#include "observe/sampling.h"

#include "observe/profile.h"

#include <string.h>

#define LN2 0.693147180559945309417232

/* A double's exponent and fraction, taken apart and put together by its bits (IEEE 754). */
static double from_bits(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static uint64_t to_bits(double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

#define FRACTION_BITS 52
#define FRACTION ((UINT64_C(1) << FRACTION_BITS) - 1)
#define BIAS 1023

/* u = m · 2^e with m between √½ and √2; ln m = 2 artanh(z), z = (m − 1)/(m + 1), whose series ends soon as |z| < 0.172:
 * after twelve terms the rest is below 2^−56 of the sum. */
double fh_minus_log(double u) {
    uint64_t bits = to_bits(u);
    int e = (int)(bits >> FRACTION_BITS) - BIAS;
    double m = from_bits((bits & FRACTION) | (uint64_t)BIAS << FRACTION_BITS);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double z = (m - 1) / (m + 1), square = z * z, sum = 0;
    for (int n = 23; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
    return -(e * LN2 + 2 * z * sum);
}

/* exp(−r) − 1 for 0 ≤ r ≤ ln 2, by its own series. 20 terms: ln 2^21 / 21! is below 2^−76. */
static double exp_minus_one(double r) {
    double sum = 0;
    for (int n = 20; n >= 1; n--) sum = (sum + 1) * (-r / n);
    return sum;
}

/* x = k · ln 2 + r: exp(−x) = 2^−k · exp(−r). Small x keep all their digits, as nothing is subtracted from 1 then. */
double fh_one_minus_exp(double x) {
    if (x >= 64) return 1;
    unsigned k = (unsigned)(x / LN2);
    double rest = exp_minus_one(x - k * LN2);
    if (k == 0) return -rest;
    double scale = from_bits((uint64_t)(BIAS - k) << FRACTION_BITS);
    return (1 - scale) - scale * rest;
}

uint64_t fh_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* A whole number of a double that may be too large for one. */
static uint64_t whole(double d) {
    return d >= 4e18 ? UINT64_C(4000000000000000000) : (uint64_t)d;
}

uint64_t fh_sampling_distance(uint64_t *state, uint64_t interval) {
    if (interval <= 1) return 0;
    /* 53 bits, and never 0: the longest distance is 37 T. */
    double u = ((double)(fh_random(state) >> 11) + 1) * 0x1p-53;
    return whole((double)interval * fh_minus_log(u));
}

/* P is below s/T: for small blocks that is the whole answer nearly always. */
bool fh_sampling_draws(uint64_t *state, uint64_t size, uint64_t interval) {
    if (interval <= 1) return size > 0;
    double u = (double)(fh_random(state) >> 11) * 0x1p-53, x = (double)size / (double)interval;
    return u < x && u < fh_one_minus_exp(x);
}

fh_weight fh_sampling_weight(uint64_t size, uint64_t drawn, uint64_t interval) {
    double p = interval <= 1 ? 1 : fh_one_minus_exp((double)drawn / (double)interval), bytes = (double)size / p;
    return (fh_weight){
        .bytes = whole(bytes + 0.5),
        .blocks = whole(FH_PROFILE_BLOCK_UNIT / p + 0.5),
        .variance = whole(bytes * bytes * (1 - p) / (double)(1u << FH_PROFILE_VARIANCE_SHIFT) + 0.5),
    };
}
