/* Checked blocks for a tool that watches memory (system/tools.h). It is told of each block, and the header, the guard and what
 * the class has beyond them are hidden from the program. So are freed blocks, while they wait in the quarantine.
 *
 *     begin        p            p + n             end of the store's block
 *       │  hidden  │   shown    │     hidden      │        live
 *       │                 hidden                  │        in quarantine
 *       │                  shown                  │        free in the store, which may put words of its own there
 *
 * All of it does nothing without a tool. Any thread; wait-free. */
#ifndef FH_MISUSE_WATCHED_H
#define FH_MISUSE_WATCHED_H

#include "misuse/block.h"
#include "system/tools.h"

#include <stdbool.h>

/* The block at h is live from now on; zeroed: all of it reads as 0. */
void fh_watched_tell_allocated(const fh_checked *h, bool zeroed);
static inline void fh_watched_allocated(const fh_checked *h, bool zeroed) {
    if (FH_UNLIKELY(fh_tool())) fh_watched_tell_allocated(h, zeroed);
}

/* It waits in the quarantine from now on; and its memory returns to the store. */
void fh_watched_tell_freed(const fh_checked *h);
static inline void fh_watched_freed(const fh_checked *h) {
    if (FH_UNLIKELY(fh_tool())) fh_watched_tell_freed(h);
}
void fh_watched_tell_left(const fh_checked *h);
static inline void fh_watched_left(const fh_checked *h) {
    if (FH_UNLIKELY(fh_tool())) fh_watched_tell_left(h);
}

/* A live block gets n bytes where it is. */
void fh_watched_resized(const fh_checked *h, size_t old, size_t n);

/* The allocator looks at the bytes around a block, and in a free one, by memcpy and its kin; and has looked. */
void fh_watched_tell_open(const fh_checked *h);
static inline void fh_watched_open(const fh_checked *h) {
    if (FH_UNLIKELY(fh_tool() == FH_TOOL_SANITIZER)) fh_watched_tell_open(h);
}
void fh_watched_close(const fh_checked *h);

#endif
