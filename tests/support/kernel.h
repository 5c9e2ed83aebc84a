/* A kernel of another kind, for programs over the embedding library (kernel.c): larger pages, or another setting of the
 * huge pages. The machine's own settings are not touched. */
#ifndef FREEHOLD_TESTS_KERNEL_H
#define FREEHOLD_TESTS_KERNEL_H

#include <stddef.h>

/* Purges so far that took a part of a huge page (2 MiB) for which huge pages had been asked, and the bytes of them. */
extern long kernel_split_purges;
extern size_t kernel_split_bytes;

/* And all others. */
extern long kernel_whole_purges;

/* How often a thread's clock was read: twice for each touch of a page that is timed. */
extern long kernel_clock_readings;

/* Bytes of all ranges for which huge pages were asked so far. And bytes that were to be on small pages after that, each time. */
size_t kernel_advised_bytes(void);
extern size_t kernel_refused_bytes;

#endif
