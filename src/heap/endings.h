/* What a program wants to be told when a heap is reset or ends: its callbacks, the newest first.
 *
 * The list is a word that a compare-and-swap puts a node before, and an exchange takes as a whole. So a callback is called once,
 * and one that is added meanwhile is met in the next turn.
 *
 * Thread-safety: any thread may add, except on a private heap. Progress: lock-free. */
#ifndef FH_HEAP_ENDINGS_H
#define FH_HEAP_ENDINGS_H

#include "heap/types.h"

/* False with errno ENOMEM: there is no memory in the heap for it. */
bool fh_ending_add(fh_heap *h, void (*fn)(void *arg), void *arg);

/* Calls them, until none is left. Nothing is held: they may use the heap. */
void fh_endings_run(fh_heap *h);

#endif
