/* What stall.c (the mechanism) and stall_scenarios.c (what the victim does) tell each other. */
#ifndef FREEHOLD_TESTS_STALL_H
#define FREEHOLD_TESTS_STALL_H

#include "freehold/freehold.h"
#include "../support/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The victim's program is run to its end, or to the step at which it is parked. */
typedef struct {
    const char *name;
    void (*prepare)(void); /* before the victim begins, in the main thread; may be NULL */
    void (*victim)(void);
    /* What a second thread does, from beginning to end, between two steps of the victim: each two of them in turn. NULL:
     * nothing interferes. */
    void (*other)(void);
    /* Makes the process fit for the threads that come after the victim was parked: faults and limits end. */
    void (*clear)(void);
    bool own_thread; /* the library's own thread is there, and may be at work at the end */
    bool forks;      /* the victim's program is run in the child of a fork, from within the call on */
} stall_scenario;

/* By one thread, and with a second one. */
extern const stall_scenario stall_scenarios[], stall_meetings[];
extern const size_t stall_scenario_count, stall_meeting_count;

/* The steps of the calling thread count, and one of them may be its last. */
extern __thread int stall_is_victim;

/* Bytes of the blocks that the scenario's threads have, and of the one that they are about to get or give; and the size of
 * the block that the victim deals with. */
extern volatile size_t stall_live, stall_size;

/* Slots that the scenario's threads have claimed and made nothing of. */
extern volatile size_t stall_slots;

/* ── Faults of the system, for the victim alone: the linker puts these in front of the library's calls ──────────────── */

typedef enum {
    STALL_CHUNK = 1,     /* nothing can be mapped at a place in the window */
    STALL_MAP = 2,       /* no new mapping */
    STALL_PLACE = 4,     /* no place for a window */
    STALL_MOVE = 8,      /* pages cannot be moved */
    STALL_SHARE = 16,    /* the file of the observer cannot grow */
    STALL_SLOW = 32,     /* huge pages take milliseconds to come */
    STALL_ALWAYS = 128,  /* huge pages come without being asked for */
    STALL_LOSE = 64,     /* pages cannot be moved, and the place is another thread's mapping now */
    STALL_GUARD = 256,   /* no mapping without access */
    STALL_APART = 1024,  /* pages are not gathered into a huge one */
    STALL_FOREIGN = 512, /* there is a foreign mapping at stall_foreign */
} stall_fault;

extern __thread unsigned stall_faults;
extern __thread char *stall_foreign;
extern uint64_t stall_clock;    /* nanoseconds that the clock is ahead */
extern unsigned stall_pressure; /* percent of a made-up control group's limit that are used; 0: no group */
extern __thread unsigned stall_near;
extern char stall_folder[]; /* for the files that a scenario makes; emptied after each run */

/* ── Blocks that are accounted for ──────────────────────────────────────────────────────────────────────────────────── */

static inline void *get(size_t n) {
    __atomic_fetch_add(&stall_live, n, __ATOMIC_RELAXED);
    stall_size = n;
    void *p = fh_malloc(n);
    if (p) memset(p, 0x5A, n < 64 ? n : 64);
    if (!p) __atomic_fetch_sub(&stall_live, n, __ATOMIC_RELAXED);
    return p;
}

static inline void drop(void *p, size_t n) {
    if (!p) return;
    stall_size = n;
    fh_free(p);
    __atomic_fetch_sub(&stall_live, n, __ATOMIC_RELAXED);
}

static inline void some_seconds_pass(uint64_t seconds) {
    __atomic_fetch_add(&stall_clock, seconds << 30, __ATOMIC_RELAXED);
}

/* ── The child of a fork, of stall_fork.c ───────────────────────────────────────────────────────────────────────────── */

/* What is wrong with it, as a status; the others are in stall.c. */
typedef enum {
    STALL_HAS_ALL = 0,
    STALL_CHILD_DIED = 10,    /* or a thread waits in it */
    STALL_NO_PARKED = 11,     /* caches that were parked keep their blocks */
    STALL_NO_ORPHANS = 12,    /* so do those of threads that it does not have */
    STALL_NOT_ITS_LIMIT = 13, /* it cannot have all of a limit of its own */
} stall_answer;

/* Forks, with parked caches and idle threads beside what there is, and asks the child. *left_caches: so many of the two
 * kinds had something in them. */
stall_answer stall_ask_child(unsigned seconds, unsigned *left_caches);

/* ── Scenarios of stall_background.c ────────────────────────────────────────────────────────────────────────────────── */

void stall_background(void);
void stall_background_without_thread(void);
void stall_no_background(void);

/* ── Scenarios of stall_observed.c ──────────────────────────────────────────────────────────────────────────────────── */

void stall_ask_figures(void);
void stall_begin_to_observe(void);
void stall_observed_once(void);
void stall_observed_much(void);
void stall_observed_child(void);
void stall_observed_before_fork(void);
void stall_two_observed(void);

/* stall_heaps.c */
void stall_heap_before(void);
void stall_heap_blocks(void);
void stall_stripes_before(void);
void stall_stripes(void);
void stall_stripes_life(void);
void stall_stable_large(void);
void stall_bounded_before(void);
void stall_bounded_blocks(void);
void stall_bounded_life(void);
void stall_heap_life(void);
void stall_heap_scope(void);
void stall_heap_private(void);
void stall_spans_before(void);
void stall_spans_blocks(void);
void stall_spans_life(void);
void stall_paged_before(void);
void stall_paged_blocks(void);
void stall_paged_life(void);
void stall_given_before(void);
void stall_given_blocks(void);
void stall_given_life(void);

/* stall_harden.c */
void stall_types_before(void);
void stall_types(void);
void stall_types_refused(void);
void stall_hardened_before(void);
void stall_hardened(void);

/* stall_pages.c */
void stall_ends_of_slabs(void);

#endif
