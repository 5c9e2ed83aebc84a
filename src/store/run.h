/* Runs of slots: where slabs and large blocks come from. One word a chunk says which slots are free; a run is claimed by
 * compare-and-swap and given back by fetch_or, and is one with its free neighbours from that instruction on.
 *
 * Best fit: chunks are kept by the length of their longest free run (the room marks); the search begins with the
 * shortest that will do, lowest address first, and takes the shortest run of that chunk that will do.
 *
 * Thread-safety: any thread. Progress: lock-free; the kernel may block when a new chunk is mapped. */
#ifndef FH_STORE_RUN_H
#define FH_STORE_RUN_H

#include "base/types.h"

/* Claims n slots (1 … 64) beginning at a multiple of `align` slots (a power of two up to 64). Returns the first slot, or
 * FH_NONE when the system has no more memory. *clean: the memory reads as zero. */
size_t fh_run_claim(unsigned n, unsigned align, bool *clean);

/* Claims exactly these slots if they are free (all in one chunk): how a run grows in place. */
bool fh_run_extend(size_t slot, unsigned n);

/* Gives slots back. They may have been written to. */
void fh_run_release(size_t slot, unsigned n);

/* Gives chunks back of which no slot is in use: their address space too, for those who cannot have any. Returns bytes. */
size_t fh_run_drop_free_chunks(void);

/* Large blocks, 64 KiB < size ≤ 2 MiB: a run with its length in the state of its first slot. */
void *fh_large_alloc(size_t size, size_t align, bool *clean);
void fh_large_free(void *p);

/* Frees the block at p that comes out of a magazine of run class c, after checking that it is one. */
void fh_large_give(unsigned c, void *p);

/* Length in bytes of the large block that begins at p, 0 if none does. */
size_t fh_large_size(const void *p);

/* The large block that p points into (its beginning), or NULL. Slow; for messages. */
void *fh_large_around(const void *p);

/* Makes the large block n bytes (of the same order: 64 KiB < n ≤ 2 MiB) without moving it, if that can be done. */
bool fh_large_resize(void *p, size_t n);

#endif
