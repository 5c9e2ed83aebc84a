/* When statistics are taken for the profile file, and the timeline of them: by a thread that is in a slow path.
 *
 * Taking them costs 0.1 ms and about 1.5 ms more for each GiB of heap, a third of it the kernel's answers. So the next
 * ones are due after 1,000 times what the last ones cost, at least 100 ms; earlier, after 500 times that, when the
 * memory in use has changed by a 64th; at once when control.refresh asks for them. The list of modules is read along
 * with the first ones, with the last, with those that were asked for, and else every half second.
 *
 * The timeline is a ring of points. They are at least a 256th of the time since the beginning apart. So its 1,024
 * places always hold the last 98 % of the program's life, whether that was a second or a month. */
#ifndef FH_OBSERVE_REFRESH_H
#define FH_OBSERVE_REFRESH_H

#include "observe/profile_words.h"

/* True if control.refresh asks for statistics. */
static inline bool fh_refresh_is_asked(const fh_profile_control *control) {
    return fh_load((const fh_word *)&control->refresh) != fh_load((const fh_word *)&control->refreshed);
}

/* SOON: there is a reason, if it is not just a moment since the last ones. */
typedef enum { FH_REFRESH_IF_ASKED, FH_REFRESH_IF_DUE, FH_REFRESH_SOON, FH_REFRESH_NOW } fh_refresh_when;

/* Takes statistics, if it is time. One thread at a time: another that comes meanwhile does without. Any thread. */
void fh_refresh(fh_profile_header *profile, fh_refresh_when when);

/* The file is a new one, in the child of a fork. */
void fh_refresh_clear(void);

#endif
