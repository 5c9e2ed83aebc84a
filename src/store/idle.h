/* Classes that nobody wants any more. A program whose sizes drift leaves slabs behind in which one block in ten is alive:
 * no request of that size comes, so nobody fills the holes, and no slab gets all free. What can go back is the pages of
 * them on which nothing is alive, and it should go as soon as the heap grows for other sizes.
 *
 *     wanted ──▶ waiting ──▶ purged + bytes given back since
 *        ▲  a look     a look        │      │ ▲  a look, when much was given back since
 *        │          │                │      └─┘
 *        └──────────┴────────────────┘
 *         somebody takes a block from a slab of the class
 *
 * A look is taken when the heap has grown by a thirty-second. One step a look, so a class must have gone unwanted for the
 * whole of the growth between two of them.
 *
 * Thread-safety: any thread. Progress: lock-free, but for what the kernel does. Cost: a load for each batch of blocks that
 * goes to slabs or comes from them; a look reads a word for each class, and walks only the marks of classes that have just
 * become idle. */
#ifndef FH_STORE_IDLE_H
#define FH_STORE_IDLE_H

#include "base/types.h"

#define FH_IDLE_WANTED UINT64_C(0)
#define FH_IDLE_WAITING UINT64_C(1)
#define FH_IDLE_PURGED UINT64_C(2) /* + bytes given back since */

/* Relaxed throughout: hints. One that is lost to a race costs a purge that was not needed, or a later one. */
extern fh_word fh_idle_class[FH_CLASSES] FH_HIDDEN;

/* Somebody takes blocks of class c from slabs. Written only when it changes: readers share the line. */
static inline void fh_idle_wanted(unsigned c) {
    if (FH_UNLIKELY(fh_load(&fh_idle_class[c]) != FH_IDLE_WANTED)) fh_store(&fh_idle_class[c], FH_IDLE_WANTED);
}

/* So many bytes of class c go back to slabs. */
static inline void fh_idle_given(unsigned c, size_t bytes) {
    if (FH_UNLIKELY(fh_load(&fh_idle_class[c]) >= FH_IDLE_PURGED)) fh_add_relaxed(&fh_idle_class[c], bytes);
}

/* The heap is about to grow to so many chunks: takes a look if it is due. */
void fh_idle_grown(size_t chunks);

#endif
