/* Freehold's hints for programs that defragment themselves. C99 and later, C++98 and later.
 *
 * A cache or a database that can move its values asks which of them are in sparse slabs, and moves those. The slabs become
 * empty and their memory goes back. docs/embedding.md has a program that does it while it serves.
 *
 *     unsigned char worth[64];
 *     fh_defrag_worth(values, 64, worth);
 *     for (i = 0; i < 64; i++) {
 *         void *better = worth[i] ? fh_defrag_malloc(size) : NULL;
 *         if (better) { memcpy(better, values[i], size); swap it in; fh_defrag_free(old); }
 *     }
 *
 * What holds for every function here:
 *   Blocks     of fh_malloc and its family, and of malloc in the drop-in. Blocks above 64 KiB, of heaps (freehold/heap.h),
 *              and those that a profile has sampled are never worth moving. With option check none is.
 *   Threads    any thread at any time. No locks.
 *   Errors     none: a hint may be wrong by what other threads do meanwhile. */
#ifndef FREEHOLD_DEFRAG_H
#define FREEHOLD_DEFRAG_H

#include "freehold/freehold.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For each of the n pointers: worth[i] is 1 if its slab is so much emptier than others of its class that all of its blocks
 * have room in those, else 0. NULL and addresses that are no block's are allowed. Returns how many are worth moving. Cost: some
 * ten to a hundred instructions each. Now and then one pays for a sample of 1,024 slabs at most: once for at least as
 * many pointers as slabs that it looked at. */
FH_API size_t fh_defrag_worth(const void *const *p, size_t n, unsigned char *worth);

/* A block of that size in one of the fuller slabs. NULL without a change of errno: there is none, leave the old one where it is.
 * It is a block as every other. Cost: a search over 32 slabs at most. */
FH_API void *fh_defrag_malloc(size_t size) FH_API_MALLOC FH_API_SIZE(1);

/* Frees a block past the thread's cache, so that no malloc gets it again at once. Any block, from any function. */
FH_API void fh_defrag_free(void *p);

#ifdef __cplusplus
}
#endif

#endif
