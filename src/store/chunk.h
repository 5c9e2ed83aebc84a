/* Runs of slots: where slabs and large blocks come from. One word a chunk says which slots are free. A run is claimed by
 * compare-and-swap and released by fetch_or, and joins its free neighbours by that instruction.
 *
 * Best fit: hints keep chunks by the length of their longest free run (the length buckets). The search begins with the
 * shortest bucket that will do, lowest address first, and takes the shortest run of that chunk that will do.
 *
 * Thread-safety: any thread. Progress: lock-free; the kernel may block when a new chunk is mapped. */
#ifndef FH_STORE_CHUNK_H
#define FH_STORE_CHUNK_H

#include "base/types.h"

/* Claims n slots beginning at a multiple of `align` slots, a power of two. Neither is more than FH_CHUNK_OPEN_SLOTS: no new
 * chunk would ever do. Returns the first slot, or FH_NONE when the OS has no more memory. *clean: it reads as zero. */
size_t fh_chunk_claim(unsigned n, unsigned align, bool *clean);

/* Claims exactly these slots if they are free (all in one chunk): how a run grows in place. */
bool fh_chunk_extend(size_t slot, unsigned n);

/* Releases slots. They may have been written to. */
void fh_chunk_release(size_t slot, unsigned n);

/* Returns chunks of which no slot is in use to the OS, with their address space. Returns the bytes. */
size_t fh_chunk_drop_free(void);

/* The chunk's free word was `before`, and this thread has just changed it: keeps the length buckets right. */
void fh_chunk_changed(size_t chunk, uint64_t before);

/* The length bucket of a chunk whose free word is `free`; FH_LENGTHS: it has no free slot. */
unsigned fh_chunk_length(uint64_t free);

#endif
