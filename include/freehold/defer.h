/* Freehold's deferred free: memory that lock-free readers may still look at. C99 and later, C++98 and later.
 *
 * A writer takes a block out of a shared structure and calls fh_defer_free. The block is freed when every reader has passed a
 * quiescent point since: a call by which the reader says that it holds no pointer into the structure (QSBR). docs/defer.md
 * has an example.
 *
 * What holds for every function here:
 *   Sizes      in bytes; a block counts with what it holds.
 *   Errors     0 or NULL with errno: EAGAIN the backlog is at its bound, ENOMEM no memory. Nothing is freed early, ever.
 *   Threads    any thread at any time; the functions for readers speak of the calling thread. None takes a lock, none waits. A
 *              thread that ends is no reader any more. In the child of a fork only the thread that forked may be one.
 *              Not async-signal-safe.
 *   Bound      the backlog has at most as many bytes as the option `defer` says (64m), each thread looks at
 *              it every 256 KiB. It has some two million blocks at most, which is less than 64m where they have 16 bytes. At the
 *              bound one line on stderr names the reader that is furthest behind, and its thread.
 *   Blocks     of fh_malloc and its family, and of malloc in the drop-in. Of heaps too (freehold/heap.h), except private ones: before
 *              a heap's reset or destroy fh_defer_barrier has returned 0. */
#ifndef FREEHOLD_DEFER_H
#define FREEHOLD_DEFER_H

#include "freehold/freehold.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ── For writers ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Frees the block at p when all readers have passed. 1: it is no longer the caller's. NULL: 1, and nothing happens. 0 with errno
 * EAGAIN or ENOMEM: it still is the caller's, who may try again, keep it, or let its readers pass. A block above the bound is freed
 * only where no reader is online. Cost: 25 instructions; each 508th call, and one for each 256 KiB,
 * stamps the batch, and frees what is ripe. */
FH_API int fh_defer_free(void *p);

/* A new block of `size` bytes with the content of the one at p, which readers may read until they have passed. The caller
 * publishes the new one. Never in place; of a heap's block it is of the same heap. NULL with errno: the
 * block at p is as it was. size 0 is an error, EINVAL. */
FH_API void *fh_defer_realloc(void *p, size_t size) __attribute__((warn_unused_result)) FH_API_SIZE(2);

/* ── For readers ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The calling thread is a reader from now on, online, under this name (15 bytes are kept; NULL for none). Again: changes the
 * name. 1, or 0 with errno ENOMEM. Then it is none, and must not read. */
FH_API int fh_reader_register(const char *name);
FH_API void fh_reader_unregister(void);

/* The calling thread holds no pointer into what others may free. To be called often: a reader that does not holds all of the
 * backlog. Cost: two plain instructions of memory, no fence. */
FH_API void fh_quiescent(void);

/* For a reader that will hold nothing for a while, because it waits or sleeps: it holds nothing back until it is online again.
 * Online has a full memory barrier. */
FH_API void fh_reader_offline(void);
FH_API void fh_reader_online(void);

/* ── For both ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* For runtimes that stop the world: no reader holds a pointer, because the caller has stopped them all at such a point. Counts as
 * a pass of each reader, and frees what was handed in. */
FH_API void fh_safepoint(void);

/* Hands in what the calling thread has deferred and frees what can be freed; it does not wait. A quiescent point if the thread is a reader. Returns the bytes that still
 * wait: 0 when all is done. For shutdown: to be called until it is 0, after each reader has passed or ended. */
FH_API size_t fh_defer_barrier(void);

/* Bytes that wait: all that was handed in, and what the calling thread has not handed in yet. */
FH_API size_t fh_defer_backlog(void);

#ifdef __cplusplus
}
#endif

#endif
