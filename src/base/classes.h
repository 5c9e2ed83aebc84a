/* Size → class, class → size. Up to 1 KiB by a shift, above by arithmetic; no table on the way in. */
#ifndef FH_BASE_CLASSES_H
#define FH_BASE_CLASSES_H

#include "base/types.h"

/* Indexed by class; 0 and the run classes have only a size. Read-only. */
extern const fh_class_info fh_class_table[FH_CLASSES] FH_HIDDEN;

/* Class of a request of 1 … 1 KiB bytes. 0 bytes give class 0, which sends malloc to its slow path. */
static inline unsigned fh_class_fine(size_t n) {
    return (unsigned)((n + 15) >> 4);
}

/* Class of a request above 1 KiB and up to 64 KiB: eight classes a doubling.
 *     1025 … 1152 → 65,  …  61441 … 65536 → 112 */
static inline unsigned fh_class_coarse(size_t n) {
    unsigned top = fh_highest_bit(n - 1); /* 10 … 15 */
    return (top << 3) + (unsigned)((n - 1) >> (top - 3)) - 23;
}

/* Class of a large block of 64 KiB < n ≤ 1 MiB: sixteen classes a doubling.
 *     65537 … 69632 → 113,  …  1015809 … 1048576 → 176 */
static inline unsigned fh_class_run(size_t n) {
    unsigned top = fh_highest_bit(n - 1); /* 16 … 19 */
    return (top << 4) + (unsigned)((n - 1) >> (top - 4)) - 159;
}

static inline unsigned fh_class_of(size_t n) {
    if (n <= FH_FINE_MAX) return n ? fh_class_fine(n) : 1;
    if (n <= FH_SMALL_MAX) return fh_class_coarse(n);
    return n <= FH_RUN_CACHED_MAX ? fh_class_run(n) : FH_CLASS_SPECIAL;
}

static inline size_t fh_class_size(unsigned c) {
    return fh_class_table[c].size;
}

/* Class of a sampled block of n ≤ 64 KiB bytes. A power of two is aligned by nature. */
static inline unsigned fh_class_sample(size_t n) {
    return n <= 64 ? FH_CLASS_SAMPLE : FH_CLASS_SAMPLE + fh_highest_bit(n - 1) - 5;
}

static inline bool fh_class_is_sample(unsigned c) {
    return c >= FH_CLASS_SAMPLE && c <= FH_SAMPLE_LAST;
}

static inline bool fh_class_is_run(unsigned c) {
    return c >= FH_RUN_FIRST && c <= FH_RUN_LAST;
}

/* Index of the block that `offset` bytes into a slab of class c are in. */
static inline unsigned fh_block_index(unsigned c, size_t offset) {
    return (unsigned)((offset * fh_class_table[c].reciprocal) >> 40);
}

#endif
