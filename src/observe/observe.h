/* The observer: what ties threads, samples, sites and the page together. Below it is called through base/hooks.h. */
#ifndef FH_OBSERVE_OBSERVE_H
#define FH_OBSERVE_OBSERVE_H

#include <stddef.h>

/* The program ends by itself: the last figures, and the end of its page. */
void fh_observe_end(void);

/* Bytes of private memory that the observer has taken (the page is counted in its own header). */
size_t fh_observe_bytes(void);

#endif
