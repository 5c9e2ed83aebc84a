/* Reachability on demand: which live blocks can the program still find? A fork of the process searches its frozen
 * copy and writes the answer into the profile file (profile.h, fh_profile_scan). */
#ifndef FH_OBSERVE_REACH_REACHABLE_H
#define FH_OBSERVE_REACH_REACHABLE_H

#include "observe/profile_words.h"

#include <stdbool.h>

/* Where the table of live samples is mapped: its extents, and how many slots each has. */
typedef struct {
    unsigned extents;
    fh_profile_sample *extent[FH_PROFILE_EXTENTS];
    uint64_t slots[FH_PROFILE_EXTENTS];
} fh_reach_samples;

/* True if a scan is wanted that has not begun. */
static inline bool fh_reachable_is_asked(const fh_profile_header *profile) {
    fh_profile_header *p = (fh_profile_header *)profile;
    return fh_load(fh_profile_word(&fh_profile_controls(p)->scan)) !=
           fh_load(fh_profile_word(&fh_profile_answer(p)->number));
}

/* True if a scan is wanted or under way: then fh_reachable_poll has something to do. Two loads and one more. */
bool fh_reachable_is_due(const fh_profile_header *profile);

/* Answers control.scan if it was raised, and finds out about a copy that was killed. To be called in a slow path of a
 * thread, while fh_reachable_is_due. The thread is held up for as long as a fork takes: 14 µs for each MiB of page tables
 * that the heap needs, or some 60 ms for a heap of 4 GiB. The scan itself is another process's. Any thread; never waits
 * for another one; keeps errno. */
void fh_reachable_poll(fh_profile_header *profile, const fh_reach_samples *samples);

#endif
