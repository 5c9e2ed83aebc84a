/* M_PERTURB: freed blocks are filled with a byte, and new ones with its complement, so that a program that reads what it has not
 * written, or what it has freed, behaves in another way.
 *
 * A thread of such a program has no bins, as in a checked one (cache/observed.h): each call takes the slow half, and there it is
 * filled. Otherwise nothing costs an instruction. What other threads have in their bins when it is switched on they allocate and
 * free as before, until each has taken a slow path.
 *
 * Thread-safety: any thread. Progress: wait-free. */
#ifndef FH_CACHE_PERTURB_H
#define FH_CACHE_PERTURB_H

#include <stddef.h>

/* The byte that freed blocks are filled with, its lowest 8 bits; 0: blocks are no longer filled. */
void fh_perturb_set(unsigned byte);

/* n bytes of a new block. */
void fh_perturb_new(void *p, size_t n);

/* The block at p is about to be freed, if it is one. */
void fh_perturb_freed(void *p);

#endif
