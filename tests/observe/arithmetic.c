/* The sampler's own logarithm and exponential against the C library's, and what its distances and weights add up to. */
#include "observe/profile.h"
#include "observe/sampling.h"

#include "../support/check.h"

#include <math.h>

#define CLOSE 1e-15

static double off(double is, double should) {
    return should == 0 ? fabs(is) : fabs(is - should) / fabs(should);
}

/* Over all of (0, 1], the smallest number that is drawn, and near 1, where the logarithm is near 0. */
static void logarithm(void) {
    double worst = 0;
    uint64_t state = 1;
    for (int i = 0; i < 2000000; i++) {
        double u = ((double)(fh_random(&state) >> 11) + 1) * 0x1p-53;
        if (i % 3 == 1) u = ldexp(u, -(int)(fh_random(&state) % 60));
        if (i % 3 == 2) u = 1 - ldexp(u, -(int)(fh_random(&state) % 50)) / 2;
        worst = fmax(worst, off(fh_minus_log(u), -log(u)));
    }
    CHECK(fh_minus_log(1) == 0, "-ln 1 is %g", fh_minus_log(1));
    CHECK(off(fh_minus_log(0x1p-53), 53 * M_LN2) < CLOSE, "-ln 2^-53 is %g", fh_minus_log(0x1p-53));
    CHECK(worst < CLOSE, "-ln u is off by %g", worst);
}

static void exponential(void) {
    double worst = 0;
    uint64_t state = 2;
    for (int i = 0; i < 2000000; i++) {
        double x = ldexp((double)(fh_random(&state) >> 11), -53 + (int)(fh_random(&state) % 60) - 52);
        worst = fmax(worst, off(fh_one_minus_exp(x), -expm1(-x)));
    }
    CHECK(fh_one_minus_exp(0) == 0 && fh_one_minus_exp(1e9) == 1, "at the ends");
    CHECK(worst < CLOSE, "1 - exp(-x) is off by %g", worst);
}

/* Mean T, variance T², and as many below the median as above it; each within 5 sigma. */
static void distances(void) {
    const uint64_t intervals[] = {2, 100, 4096, 524288, UINT64_C(1) << 40};
    const int n = 1000000;
    for (int k = 0; k < 5; k++) {
        uint64_t state = 3, below = 0;
        double t = (double)intervals[k], sum = 0, squares = 0;
        for (int i = 0; i < n; i++) {
            double d = (double)fh_sampling_distance(&state, intervals[k]);
            sum += d;
            squares += d * d;
            below += d < floor(t * M_LN2);
        }
        /* ⌊E⌋ of an exponential is geometric: mean q/p, variance q/p², with q = exp(−1/T). */
        double q = exp(-1 / t), p = -expm1(-1 / t), mean = q / p, deviation = sqrt(q) / p;
        CHECK(fabs(sum / n - mean) < 5 * deviation / sqrt(n), "T = %g: mean %g", t, sum / n);
        CHECK(off(sqrt(squares / n - sum / n * sum / n), deviation) < 0.02, "T = %g: deviation", t);
        double half = -expm1(-floor(t * M_LN2) / t);
        CHECK(fabs((double)below / n - half) < 5 * sqrt(half * (1 - half) / n) + 1e-12, "T = %g: median", t);
    }
    uint64_t state = 4;
    for (int i = 0; i < 1000000; i++) CHECK(fh_sampling_distance(&state, UINT64_MAX) <= INT64_MAX, "T = 2^64");
    for (int i = 0; i < 1000; i++) CHECK(fh_sampling_distance(&state, 1) == 0, "T = 1 passes over nothing");
}

/* A block that is drawn by itself has the probability of one that is counted down, to within 5 sigma. */
static void draws(void) {
    const uint64_t sizes[] = {1, 16, 1000, 4096, 100000};
    const int n = 1000000;
    uint64_t state = 7;
    for (int k = 0; k < 5; k++) {
        double p = -expm1(-(double)sizes[k] / 4096);
        int drawn = 0;
        for (int i = 0; i < n; i++) drawn += fh_sampling_draws(&state, sizes[k], 4096);
        CHECK(fabs(drawn - n * p) <= 5 * sqrt(n * p * (1 - p)) + 1, "%d of %g expected", drawn, n * p);
    }
    CHECK(fh_sampling_draws(&state, 1, 1) && !fh_sampling_draws(&state, 0, 1), "T = 1: every block that has a byte");
    CHECK(!fh_sampling_draws(&state, 0, 4096) && !fh_sampling_draws(&state, 1, UINT64_MAX), "nearly never");
}

/* Two threads' generators, seeded one apart, have nothing in common. */
static void generators(void) {
    uint64_t one = 5, two = 6;
    int alike = 0;
    for (int i = 0; i < 100000; i++) alike += __builtin_popcountll(fh_random(&one) ^ fh_random(&two));
    CHECK(abs(alike - 3200000) < 5 * 1265, "%d of 6,400,000 bits differ", alike);
}

static void weights(void) {
    const uint64_t sizes[] = {1, 16, 100, 4096, 524288, 1 << 30};
    for (int k = 0; k < 6; k++) {
        double s = (double)sizes[k], p = -expm1(-s / 524288);
        fh_weight w = fh_sampling_weight(sizes[k], sizes[k], 524288);
        CHECK(fabs((double)w.bytes - s / p) <= 0.5 + 1e-9 * s / p, "%g bytes stand for %g", s, (double)w.bytes);
        CHECK(fabs((double)w.blocks - FH_PROFILE_BLOCK_UNIT / p) <= 0.51, "%g bytes: blocks", s);
        double variance = s * s * (1 - p) / (p * p) / (1 << FH_PROFILE_VARIANCE_SHIFT);
        CHECK(fabs((double)w.variance - variance) <= 0.51 + 1e-9 * variance, "%g bytes: variance", s);
    }
    for (uint64_t size = 1; size < 100; size += 47) {
        fh_weight all = fh_sampling_weight(size, size, 1);
        CHECK(all.bytes == size && all.blocks == 256 && all.variance == 0, "sampled for certain");
    }
    /* Realloc made 48 bytes of 96: drawn with P(96), half of what it stood for. */
    fh_weight whole = fh_sampling_weight(96, 96, 4096), half = fh_sampling_weight(48, 96, 4096);
    CHECK(half.blocks == whole.blocks && llabs((long long)(2 * half.bytes - whole.bytes)) <= 2, "resized");
    fh_weight huge = fh_sampling_weight(UINT64_C(1) << 46, 1, UINT64_C(1) << 60);
    CHECK(huge.bytes > 0 && huge.variance > 0, "too large for a word, and still a number");
}

int main(void) {
    logarithm();
    exponential();
    distances();
    draws();
    generators();
    weights();
    return 0;
}
