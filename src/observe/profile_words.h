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

/* Its upper 16 bits, for a word that has no more room; never 0. */
static inline uint64_t fh_profile_checked_16(uint64_t h) {
    return h >> 48 ? h >> 48 : 1;
}

/* What the words `interval` and `drawn` of a sample say without their checks. */
static inline uint64_t fh_profile_plain(uint64_t word) {
    return word & ((UINT64_C(1) << FH_PROFILE_PLAIN_BITS) - 1);
}

/* Puts the check of a sample with these plain words into both of them. 0: it lives. */
static inline void fh_profile_sign(fh_profile_sample *s, uint64_t freed_ns) {
    const uint64_t place = s->address >> 4, trace[2] = {s->size, freed_ns};
    const uint64_t words[5] = {s->interval, s->born_ns, s->site | (uint64_t)s->thread << 32,
                               s->mark | (uint64_t)s->heap << 32, s->drawn};
    uint64_t h = fh_profile_check(0, words, sizeof words);
    h = freed_ns ? fh_profile_check(h, trace, sizeof trace) : fh_profile_check(h, &place, sizeof place);
    s->drawn |= h >> FH_PROFILE_PLAIN_BITS << FH_PROFILE_PLAIN_BITS;
    s->interval |= h >> 32 << FH_PROFILE_PLAIN_BITS;
}

/* The word `reached` of a living sample: 2 · number of a scan + its verdict, and above it half of a check. */
static inline uint64_t fh_profile_reached_word(uint64_t born_ns, uint64_t verdict) {
    const uint64_t words[2] = {born_ns, (uint32_t)verdict};
    return (uint32_t)verdict | fh_profile_check(0, words, sizeof words) >> 32 << 32;
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
