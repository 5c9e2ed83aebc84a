/* Purging free slots: their memory returns to the OS, their addresses stay. The slots are claimed like an allocation first,
 * so a purge never meets another thread. When to purge, and how much, is the policy's (reclaim/idle.h).
 *
 * Thread-safety: any thread. Progress: lock-free, except what the kernel does. */
#ifndef FH_STORE_PURGE_H
#define FH_STORE_PURGE_H

#include "base/types.h"

/* How much of a chunk on huge pages is taken: what is a whole huge page; or also parts of one, where it pays; or all. */
typedef enum { FH_PURGE_WHOLE_ONES, FH_PURGE_WHERE_IT_PAYS, FH_PURGE_EVERYTHING } fh_purge_extent;

/* Purges the dirty free slots of one chunk. With FH_PURGE_WHOLE_ONES of its upper half only, where there are some, if half a
 * chunk is as much as is `wanted`. Returns the slots purged. */
unsigned fh_chunk_purge(size_t index, fh_purge_extent most, size_t wanted);

/* Where the chunk is all free, the memory of its slots' metadata goes: nine pages, which are all zero. Threads with a stale hint
 * may read them meanwhile, and nobody writes to them, because all slots are claimed first. Cost: a system call. */
void fh_chunk_forget(size_t index);

/* Moves the pages of n slots to n others that have no memory, with their contents; both are the caller's. Afterwards the first
 * have no memory, and read as zero. It is done a chunk at a time, because chunks may be in mappings of different advice; what
 * the kernel does not move is copied, so that never more than a chunk is there twice.
 *
 * False: the place is lost (fh_system_move), and the contents are where they were.
 *
 * What was moved is a mapping of its own from then on (the kernel joins neighbours only if neither was moved), of which there
 * may be 65,530. `moved` says of which slots that may be so. Purging them maps them afresh, and then they are joined again.
 * Those between others that were moved only lose their memory, until one of these can be mapped afresh too. */
bool fh_purge_move(size_t from, size_t n, size_t to);

/* Copies whole pages, and writes none that are zero already: what was never touched has no memory in the copy either. clean: the
 * place reads as zero. */
void fh_purge_copy(char *to, const char *from, size_t bytes, bool clean);

/* The caller has all of a chunk, which is mapped afresh. */
void fh_purge_forget_moved(size_t chunk);

/* True if so few chunks have moved pages that there may be more. */
bool fh_purge_may_move(void);

#endif
