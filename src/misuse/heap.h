/* A walk over all checked blocks. */
#ifndef FH_MISUSE_HEAP_H
#define FH_MISUSE_HEAP_H

#include "base/settings.h"
#include "misuse/report.h"

/* Looks at each live checked block, and tells `say` of those whose surroundings were written. Returns how many. Any thread;
 * blocks that are allocated or freed meanwhile are seen or not. Cost: some 10 ns a block with one thread, 300 with more. */
size_t fh_heap_check_all(void (*say)(const fh_misuse_report *r));

/* Calls `each` for every live checked block, with the stack of its allocation and its size. As fh_heap_check_all. */
void fh_heap_each_live(void (*each)(uint32_t stack, size_t size));

/* For fh_heap_check: the same with reports that never end the process. 0 in a program that is not checked. Keeps errno. */
size_t fh_heap_check_tell(void);

/* The end of a call of a checked program. With check=2 verifies the heap: the calling thread's cache each time when it was
 * refilled or flushed eight times more; and if there is no other thread, once in 1,024 calls, and 1,024 more for each
 * chunk of 4 MiB, all equations of fh_verify and all live blocks. Keeps errno. */
void fh_misuse_check_edge(void);
static inline void fh_misuse_edge(void) {
    if (FH_UNLIKELY(FH_SETTING(check) >= 2)) fh_misuse_check_edge();
}

#endif
