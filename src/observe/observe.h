/* The observer: it composes threads, samples, sites and the profile file. The layers below call it through base/hooks.h. */
#ifndef FH_OBSERVE_OBSERVE_H
#define FH_OBSERVE_OBSERVE_H

/* The program ends by itself: the last statistics, and the end of its profile file. */
void fh_observe_end(void);

#endif
