/* Cold classes: sizes for which there is no demand any more. A program whose sizes drift leaves slabs behind in which one
 * block in ten is alive. No request of that size comes, so nothing fills the holes, and no slab gets all free. What can be
 * done is to purge the pages without a live block, and to open the holes to other sizes (store/holes.h), as soon as the heap
 * grows for these.
 *
 *     in demand ──▶ unused for 1 … back-off rounds ──▶ cold, bytes given since are counted
 *        ▲     a round │       rounds                       │      │ ▲  a round, when much was given since
 *        │             │                                    │      └─┘
 *        └─────────────┴────────────────────────────────────┘
 *         blocks of the class were taken from slabs or the depot since the last round
 *
 * A round is due when the heap has grown by a sixty-fourth, and when as much was taken from slabs. One step a round, so
 * there must have been no demand for the class in all that happened between two of them. A class for which there is demand
 * again after it was cold has its back-off doubled: a program whose phases take turns pays a few times, and then no more.
 *
 * Thread-safety: any thread. Memory orders: relaxed: hints. One that is lost to a race costs a purge that was not needed, or
 * a later one. Progress: lock-free, except what the kernel does. Cost: a round reads two words for each class, and walks
 * only the hints of classes that have just become cold. */
#ifndef FH_RECLAIM_COLD_H
#define FH_RECLAIM_COLD_H

/* The heap has grown, or more was taken from slabs: does a round if one is due. */
void fh_cold_grown(void);
void fh_cold_flowed(void);

#endif
