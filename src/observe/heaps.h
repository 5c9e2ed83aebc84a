/* The names of heaps of which blocks were sampled, in the profile file: a tree, in which each path of names is kept once. So a
 * program that makes a heap for each query has one entry for all of them.
 *
 * Thread-safety: any thread that may use the heap. Progress: lock-free. */
#ifndef FH_OBSERVE_HEAPS_H
#define FH_OBSERVE_HEAPS_H

#include "heap/types.h"

#include <stdbool.h>
#include <stddef.h>

/* The entry of the heap's name; FH_PROFILE_HEAP_NO_ROOM (counted as dropped) when there is none. */
uint32_t fh_heap_name_of(const fh_heap *heap);

/* The heap's number, which no other heap of the process has had: not 0. */
uint32_t fh_heap_number(fh_heap *heap);

/* The child of a fork has a profile file of its own: forgets all entries. No other thread may use the table. */
void fh_heap_names_clear(void);

size_t fh_heap_names_bytes(void); /* of private memory */

#endif
