/* Numbers that an attacker of the program cannot foresee: where in its slab a block of a hardened program is. They come from a
 * key that is drawn when the program starts, and a counter. Good enough to guess wrong; not for cryptography.
 *
 * Thread-safety: any thread. Progress: wait-free. */
#ifndef FH_STORE_RANDOM_H
#define FH_STORE_RANDOM_H

#include "base/types.h"

/* Draws the key. Before that the numbers are the same in each process. Keeps errno. */
void fh_random_start(void);

/* 64 bits. Threads near different CPUs (shard) count for themselves. */
uint64_t fh_random_next(unsigned shard);

#endif
