/* Classes that nobody wants any more. A program whose sizes drift leaves slabs behind in which one block in ten is alive:
 * no request of that size comes, so nobody fills the holes, and no slab gets all free. What can go back is the pages of
 * them on which nothing is alive, and it should go as soon as the heap grows for other sizes.
 *
 *     wanted ──▶ waiting 1 … patience ──▶ purged + bytes given back since
 *        ▲  a look │        looks             │      │ ▲  a look, when much was given back since
 *        │         │                          │      └─┘
 *        └─────────┴──────────────────────────┘
 *         somebody takes a block from a slab of the class
 *
 * A look is taken when the heap has grown by a thirty-second, and when as much was taken from slabs. One step a
 * look, so a class must have gone unwanted for the whole of what happened between two of them. One that is wanted again after
 * it was purged has its patience doubled: a program whose phases take turns pays a few times, and then no more.
 *
 * Thread-safety: any thread. Progress: lock-free, but for what the kernel does. Cost: a load for each batch of blocks that
 * goes to slabs or comes from them; a look reads a word for each class, and walks only the marks of classes that have just
 * become idle. */
#ifndef FH_STORE_IDLE_H
#define FH_STORE_IDLE_H

#include "base/types.h"

#define FH_IDLE_WANTED UINT64_C(0)
#define FH_IDLE_PURGED UINT64_C(64) /* + bytes given back since. Below: looks that it has gone unwanted */
#define FH_IDLE_PATIENCE 32u

/* Relaxed throughout: hints. One that is lost to a race costs a purge that was not needed, or a later one. Class
 * FH_CLASS_SUBLET stands for all that is let. */
extern fh_word fh_idle_class[FH_CLASSES] FH_HIDDEN;

/* Looks taken so far. */
extern fh_word fh_idle_looks FH_HIDDEN;

void fh_idle_wanted_again(unsigned c);

/* Somebody takes blocks of class c from slabs. Written only when it changes: readers share the line. */
static inline void fh_idle_wanted(unsigned c) {
    if (FH_UNLIKELY(fh_load(&fh_idle_class[c]) != FH_IDLE_WANTED)) fh_idle_wanted_again(c);
}

/* So many bytes of class c go back to slabs. */
static inline void fh_idle_given(unsigned c, size_t bytes) {
    if (FH_UNLIKELY(fh_load(&fh_idle_class[c]) >= FH_IDLE_PURGED)) fh_add_relaxed(&fh_idle_class[c], bytes);
}

/* So many bytes were taken, of whatever class. Looks around when that is due: the caller holds nothing but these. */
void fh_idle_taken(size_t bytes);

/* The heap is about to grow to so many chunks: takes a look if it is due. */
void fh_idle_grown(size_t chunks);

#endif
