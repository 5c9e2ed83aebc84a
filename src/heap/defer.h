/* Deferred free: a block that other threads may still be reading is freed when all of them have let go (QSBR).
 *
 *     writer    unlinks p ─▶ fh_defer(p) ─▶ its open batch ── full ─▶ stamped with the next epoch ─▶ a slot of the queue
 *     reader    reads … fh_reader_pass: "I hold nothing now": its word := the epoch
 *     anyone    takes a batch out of its slot. Each reader online has passed its stamp?  freed : put back
 *
 * A participant is a thread that reads or defers. Its record is found through a list that only grows, and a record whose thread has
 * ended is taken by the next one.
 *
 *     equations:  [defer.bytes] backlog = bytes of the batches that are in slots or just taken out of one
 *                 a batch is freed  ⇒  seen of each reader online ≥ its stamp
 *
 * Why it is right. The stamp is the epoch that the writer itself made, after it had unlinked the block. A reader whose word has
 * that stamp read the epoch after that (acquire), so whatever it reads later does not find the block. What it read before is
 * over, because its word was written with release. A reader that comes online stores its word, then has a full barrier, then
 * reads. Who frees reads the epoch, then has a full barrier, then looks for readers. So one of the two sees the other. It
 * frees no batch that was stamped after it read the epoch: a reader of that may have come when it had looked.
 *
 * Rejected: one list of batches for all threads. A thread that is stopped while it has the list would hold all of the backlog.
 * From a slot it takes one batch.
 *
 * Thread-safety: any thread. Progress: lock-free; a reader that is stopped holds the backlog back, which is bounded. */
#ifndef FH_HEAP_DEFER_H
#define FH_HEAP_DEFER_H

#include "cache/observed.h"

#include <stdbool.h>
#include <stddef.h>

/* A stamp for what was unlinked until now; and whether each reader that was online then has passed since. */
uint64_t fh_defer_stamp(void);
bool fh_defer_has_passed(uint64_t stamp);

/* Frees p, a block of `bytes`, when all readers have passed. False with errno EAGAIN: the backlog is at its bound, or all slots are
 * taken; or ENOMEM. p is still the caller's. Where no reader is online there is neither: then p is freed at once. */
bool fh_defer(void *p, size_t bytes);

/* The same if the calling thread's batch has a place and room for it; else false, and nothing has happened. 0 bytes: false. No
 * atomic read-modify-write: the batch is the thread's own until it is handed in. */
static inline bool fh_defer_hit(fh_deferring *d, void *p, size_t bytes) {
    if (FH_UNLIKELY(bytes - 1 >= d->room)) return false;
    void **top = d->top;
    if (FH_UNLIKELY(top == d->end)) return false;
    *top = p;
    d->top = top + 1;
    d->room -= bytes;
    return true;
}

/* The calling thread reads from now on, and no more. A name is cut to 15 bytes; NULL is none. False: no memory. */
bool fh_reader_begin(const char *name);
void fh_reader_end(void);

/* The calling thread holds nothing; or holds nothing until it is online again. Nothing for a thread that is no reader. */
void fh_reader_pass(void);
void fh_reader_leave(void);
void fh_reader_return(void);

/* No reader holds anything: the caller has stopped them. Frees all batches. */
void fh_defer_safepoint(void);

/* Hands in what the calling thread has deferred, passes if it is a reader, and frees what can be freed. Returns the bytes that are left of all threads
 * whose batches are in the queue. */
size_t fh_defer_flush(void);

/* Bytes that wait, except in open batches of other threads. */
size_t fh_deferred_bytes(void);

/* The same without the calling thread's: what was handed in. One load, for any thread at any time. */
size_t fh_defer_waiting(void);

#endif
