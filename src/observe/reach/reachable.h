/* Reachability on demand: which live blocks can the program still find? A fork of the process looks through its frozen copy
 * and writes the answer into the page (page.h, fh_profile_scan). */
#ifndef FH_OBSERVE_REACHABLE_H
#define FH_OBSERVE_REACHABLE_H

#include "base/atomic.h"
#include "observe/profile.h"

#include <stdbool.h>

/* Somebody wants a scan that has not begun. */
static inline bool fh_reachable_is_asked(const fh_profile_header *page) {
    const fh_profile_control *control = (const fh_profile_control *)((const char *)page + FH_PROFILE_CONTROL_OFFSET);
    const fh_profile_scan *answer = (const fh_profile_scan *)((const char *)page + FH_PROFILE_SCAN_OFFSET);
    return fh_load((const fh_word *)&control->scan) != fh_load((const fh_word *)&answer->number);
}

/* Answers control.scan if it was raised. To be called in a slow path of a thread, when the page is there, now and then
 * also when nobody has asked: a copy that was killed is found that way. The thread is held up for as long as a fork takes (14 µs a MiB of page tables'
 * worth of heap, or some 60 ms for 4 GiB); the scan itself is another process's. Keeps errno. */
void fh_reachable_poll(void);

#endif
