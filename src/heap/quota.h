/* The account of a heap, charged where it takes slots, also to each heap above it.
 *
 *     equation, at every moment:  charged ≤ hard, of each heap, unless the program has lowered `hard` below what is charged
 *
 * A charge is added from the heap upwards by compare-and-swap, so no account is beyond its limit for a moment. If one refuses,
 * those below it are told again. So two threads that charge at once may both be refused where one of them had room.
 *
 * What a thread takes is charged before it can be found, and what it frees is returned when it cannot be found any more. So in
 * the child of a fork an account has what other threads were stopped with as well: one piece each at most, and never too little.
 *
 * Memory orders: relaxed. The accounts are numbers, and no memory is read or written because of them.
 * Thread-safety: any thread. Progress: lock-free. */
#ifndef FH_HEAP_QUOTA_H
#define FH_HEAP_QUOTA_H

#include "heap/types.h"

/* Whose soft limit a charge has passed: bit 0 is the heap's own, bit 1 that of its parent, and so on, from bit 64 on as from bit 0. */
typedef uint64_t fh_quota_passed;

/* NULL: charged. Else the heap whose limit is in the way, and nothing is charged. */
fh_heap *fh_quota_charge(fh_heap *h, size_t bytes, fh_quota_passed *passed);

void fh_quota_return(fh_heap *h, size_t bytes);

/* After a charge: calls the callbacks of those. */
void fh_quota_tell(fh_heap *h, size_t bytes, fh_quota_passed passed);

/* Calls the callback of a heap, unless it is running already: what that allocates is refused at once. True: try again. */
bool fh_quota_ask(fh_heap *h, size_t wanted, bool hard);

/* The callback of the heap is running, in a thread of this process. */
bool fh_quota_asks(const fh_heap *h);

/* Nothing up to the root is nearer to its hard limit than that. */
bool fh_quota_has_room(const fh_heap *h, size_t bytes);

#endif
