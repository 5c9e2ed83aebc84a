/* What the inlined hit of freehold/fast.h falls into. The number in the names is that of the layout which the header knows
 * (FH_FAST_LAYOUT), so a program that was compiled with another one does not link. When anything changes that fast.h relies
 * on, tests/fast/ says so, and both get a new number.
 *
 * A checked build, and one with another window, has neither: there everything must be a call. */
#include "cache/cache.h"

/* The path that has just missed is not taken once more: the bin is the same. */
void *fh_fast_2_malloc(size_t n);
void fh_fast_2_free(void *p);

#if !FH_CHECKED && FH_WINDOW_UNITS == 64

void *fh_fast_2_malloc(size_t n) {
    if (FH_UNLIKELY(n > FH_FINE_MAX)) return fh_alloc_coarse(n);
    return fh_alloc_slow(n, (fh_bin *)((char *)fh_bins() + fh_round_up(n, FH_MIN_ALIGN)));
}

/* A bin that is full, a suspect, a foreign pointer, a thread without bins, NULL. */
void fh_fast_2_free(void *p) {
    fh_release(p);
}

#endif
