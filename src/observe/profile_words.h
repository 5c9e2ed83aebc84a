/* The profile file's fields as the library sees them: plain numbers in profile.h, for readers in other languages; words
 * that threads and processes share here. */
#ifndef FH_OBSERVE_PROFILE_WORDS_H
#define FH_OBSERVE_PROFILE_WORDS_H

#include "base/atomic.h"
#include "observe/profile.h"

#include <stddef.h>

static inline fh_word *fh_profile_word(uint64_t *field) {
    return (fh_word *)field;
}

/* A check word continues over so many words, and ends. See FH_PROFILE_CHECK_FACTOR. */
static inline uint64_t fh_profile_check(uint64_t h, const void *words, size_t bytes) {
    const uint64_t *w = words;
    for (size_t i = 0; i < bytes / sizeof *w; i++) h = (h ^ w[i]) * FH_PROFILE_CHECK_FACTOR;
    return h;
}

static inline uint64_t fh_profile_checked(uint64_t h) {
    return h | 1;
}

/* The fault of a file. */
static inline fh_profile_fault *fh_profile_fault_of(fh_profile_header *profile) {
    return (fh_profile_fault *)((char *)profile + FH_PROFILE_FAULT_OFFSET);
}

/* The control words of a file, and the answer to a scan, which follow its header. */
static inline fh_profile_control *fh_profile_controls(fh_profile_header *profile) {
    return (fh_profile_control *)((char *)profile + FH_PROFILE_CONTROL_OFFSET);
}

static inline fh_profile_scan *fh_profile_answer(fh_profile_header *profile) {
    return (fh_profile_scan *)((char *)profile + FH_PROFILE_SCAN_OFFSET);
}

#endif
