/* Which extents of a heap have free blocks, and which are retired: two stacks a class, so that nobody searches.
 *
 *     a word of a stack   changes: 39 bits │ slot of the extent on top, plus 1: 25 bits; 0: the stack is empty
 *     of an extent, `has` 0 on no stack ──(swap: who finds 0)──▶ 1, and it is pushed on the open stack
 *                         1 ──(popped by one who found no free block, then swap)──▶ 0, and one more look at its bits
 *     `retired`           1, and pushed on the idle stack ──(popped: one thread has it)──▶ 2 being charged ──▶ 0, or 1 and pushed
 *
 * Why no free block is forgotten. Who frees sets the bit, has a full barrier and reads `has`. Who takes an extent off clears
 * `has`, has a full barrier and reads the bits. So of two that overlap one at least sees the other, and pushes it again.
 *
 * Why a pop is right. Extents stay where they are until the heap is reset, which no call overlaps. So what is read of one that
 * another thread took off meanwhile is an extent's link, and the count of changes makes the compare-and-swap fail.
 *
 * A thread that is stopped between a pop and the look keeps one extent from the others, of which nothing is lost: they take a
 * new one, and at a limit they look through all. In the child of a fork such an extent stays off, until the heap is at its limit.
 *
 * Rejected: a hint to the extent of the last free, and a search of 16 from there. With 470 extents of which each had a free
 * block now and then, a block took 2 µs.
 *
 * Thread-safety: any thread, except on a private heap. Progress: lock-free. */
#ifndef FH_HEAP_STACKS_H
#define FH_HEAP_STACKS_H

#include "heap/types.h"
#include "store/window.h"

#define FH_STACK_SLOT_BITS 25u

/* The extent on top of what was read of a stack; NULL: none. */
static inline fh_extent *fh_stack_top(uint64_t word) {
    size_t slot = word % (UINT64_C(1) << FH_STACK_SLOT_BITS);
    return slot ? (fh_extent *)(void *)fh_slot_address(slot - 1) : NULL;
}

void fh_stack_push(fh_stack_kind kind, fh_extent *e);

/* Takes off e, which is on top of *seen. False: the stack has changed, and *seen is what it is now. */
bool fh_stack_pop(fh_stack_kind kind, fh_extent *e, uint64_t *seen);

/* After bits of e were set: a search finds them. Who has read `has` after a full barrier need not call it if that was 1. */
void fh_extent_open(fh_extent *e);

/* Bits of e were set by a locked instruction. Its barrier goes before the look at `has`: who clears that looks at the bits then. */
static inline void fh_extent_freed(fh_extent *e) {
    fh_fence_after_rmw();
    if (FH_UNLIKELY(!fh_load(&e->has))) fh_extent_open(e);
}

/* Takes e, in which no free block was found, off the open stack, on top of which it was in *seen. *seen is the stack as it is now. */
void fh_extent_close(fh_extent *e, uint64_t *seen);

#endif
