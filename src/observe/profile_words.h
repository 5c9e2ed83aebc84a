/* The profile file's fields as the library sees them: plain numbers in profile.h, for readers in other languages; words
 * that threads and processes share here. */
#ifndef FH_OBSERVE_PROFILE_WORDS_H
#define FH_OBSERVE_PROFILE_WORDS_H

#include "base/atomic.h"
#include "observe/profile.h"

static inline fh_word *fh_profile_word(uint64_t *field) {
    return (fh_word *)field;
}

/* The control words of a file, and the answer to a scan, which follow its header. */
static inline fh_profile_control *fh_profile_controls(fh_profile_header *profile) {
    return (fh_profile_control *)((char *)profile + FH_PROFILE_CONTROL_OFFSET);
}

static inline fh_profile_scan *fh_profile_answer(fh_profile_header *profile) {
    return (fh_profile_scan *)((char *)profile + FH_PROFILE_SCAN_OFFSET);
}

#endif
