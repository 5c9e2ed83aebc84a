/* Reachability on demand: which live blocks can the program still find? A fork of the process looks through its frozen copy
 * and writes the answer into the page (page.h, fh_page_scan). */
#ifndef FH_SEE_REACHABLE_H
#define FH_SEE_REACHABLE_H

/* Answers control.scan if it was raised. To be called in a slow path of a thread, when the page is there; costs one load
 * and a compare if there is nothing to do. The thread is held up for as long as a fork takes (14 µs a MiB of page tables'
 * worth of heap, or some 60 ms for 4 GiB); the scan itself is another process's. Keeps errno. */
void fh_reachable_poll(void);

#endif
