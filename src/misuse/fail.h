/* Option fail: allocations fail on purpose, so that a program can be seen to survive it. Only in a checked program (check.h),
 * which it turns on: there each allocation comes by, with its call stack, and what the program does wrong next is found.
 *
 *     fail=7             the 7th allocation of the process
 *     fail=every:1000    each 1,000th
 *     fail=after:64m     all, once 64 MiB were asked for
 *     fail=site:1A2B3C4D all of one call stack
 *     fail=none          none; for fail_log
 *
 * A site's number is made of the stack's modules (the names of their files) and of the offsets in them. So it is the same in
 * each run, wherever the kernel maps things. It has 32 bits: two sites of a program may share one, and fail together.
 *
 * fail_log=FILE: lines are appended, with tabs between the words. Each is one write, so processes may share the file.
 *
 *     site  PID  HASH  SIZE  OFFSET  PATH  OFFSET  PATH …     a site that was not seen before, innermost frame first
 *     fail  PID  HASH  SIZE                                   an allocation failed here; of each site the first 16
 *     live  PID  HASH  BLOCKS  BYTES                          at exit: what the site's blocks that are live take
 *
 * Thread-safety: any thread. A child of a fork goes on counting, and has seen what its parent had. Does not allocate. */
#ifndef FH_MISUSE_FAIL_H
#define FH_MISUSE_FAIL_H

#include "base/atomic.h"
#include "base/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern fh_word fh_fail_on FH_HIDDEN; /* 1: each allocation asks */

/* True if the words are a value of the option. */
bool fh_fail_is_valid(const char *value, size_t length);

/* Follows options fail and fail_log, of which one is set at least. At the start, before the program is checked, as it has to be. */
void fh_fail_start(void);

/* An allocation of n bytes with that stack (stacks.h) is about to be made. True: it fails, and errno is ENOMEM. */
bool fh_fail_asked(size_t n, uint32_t stack);

static inline bool fh_fails(size_t n, uint32_t stack) {
    return FH_UNLIKELY(fh_load(&fh_fail_on)) && fh_fail_asked(n, stack);
}

/* The process ends: writes the lines of what is live. */
void fh_fail_end(void);

#endif
