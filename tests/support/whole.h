/* A heap at rest of which the test holds nothing: all equations hold, and no block is out. A block that is lost is like one
 * that the program holds, so only a test that knows what it holds can find it.
 *
 * For tests over the embedding library, beside which the system's malloc serves everybody else. Elsewhere the blocks of the
 * C library are in the same heap, and only the equations are checked. */
#ifndef FREEHOLD_TESTS_WHOLE_H
#define FREEHOLD_TESTS_WHOLE_H

#include "alloc.h"
#include "check.h"

#if defined(T_EMBED)
#include "check/verify.h"

static inline void check_whole_and_empty(void) {
    size_t live;
    CHECK(fh_check_all(fh_check_say, &live) == 0, "the heap is not whole");
    CHECK(live == 0, "all is freed, and %zu blocks are out", live);
    CHECK(fh_mallinfo2().hblks == 0, "all is freed, and %zu huge blocks are out", fh_mallinfo2().hblks);
}
#else
static inline void check_whole_and_empty(void) {
    CHECK(t_verify() == 0, "the heap is not whole");
}
#endif

#endif
