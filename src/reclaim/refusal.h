/* The program gets NULL for want of memory: once for each limit a line says which one was met, with the numbers and what
 * to do. */
#ifndef FH_RECLAIM_REFUSAL_H
#define FH_RECLAIM_REFUSAL_H

#include <stddef.h>

/* There was no memory for a block of n bytes. Nothing of the allocator's is held. Keeps errno, needs 4 KiB of stack, and
 * does not allocate. After the first message it reads the clock, and the OS is asked once a second. */
void fh_refusal_report(size_t n);

#endif
