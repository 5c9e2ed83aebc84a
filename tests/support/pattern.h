/* Filling a block with bytes that only this block holds, and finding any byte that changed.
 *
 * Word i of a block with key k is k + i × an odd constant: neighbouring words differ, two blocks with
 * different keys differ in every word, and a stretch that slid by any distance does not match itself. */
#ifndef FREEHOLD_TESTS_PATTERN_H
#define FREEHOLD_TESTS_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PATTERN_STEP UINT64_C(0x9e3779b97f4a7c15)

static inline void pattern_fill(void *block, size_t size, uint64_t key) {
    unsigned char *at = (unsigned char *)block;
    size_t i = 0;
    for (; i + 8 <= size; i += 8, key += PATTERN_STEP) {
        memcpy(at + i, &key, 8);
    }
    memcpy(at + i, &key, size - i);
}

/* The offset of the first wrong byte, or -1 when all `size` bytes are as they were filled. */
static inline long pattern_wrong(const void *block, size_t size, uint64_t key) {
    const unsigned char *at = (const unsigned char *)block;
    uint64_t word;
    size_t i = 0;
    for (; i + 8 <= size; i += 8, key += PATTERN_STEP) {
        memcpy(&word, at + i, 8);
        if (word != key) {
            break;
        }
    }
    for (size_t end = i + 8 <= size ? i + 8 : size, j = 0; i < end; i++, j++) {
        if (at[i] != (unsigned char)(key >> (8 * j))) {
            return (long)i;
        }
    }
    return -1;
}

/* The offset of the first byte that is not zero, or -1. */
static inline long first_not_zero(const void *block, size_t size) {
    const unsigned char *at = (const unsigned char *)block;
    size_t i = 0;
    uint64_t word;
    for (; i + 8 <= size; i += 8) {
        memcpy(&word, at + i, 8);
        if (word) {
            break;
        }
    }
    for (; i < size; i++) {
        if (at[i]) {
            return (long)i;
        }
    }
    return -1;
}

#endif
