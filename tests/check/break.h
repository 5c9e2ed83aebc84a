/* What breaks an equation. Each function finds something to break in the heap that break_build has built, and changes one
 * word or two of it; it fails the test if there is nothing. */
#ifndef FREEHOLD_TESTS_BREAK_H
#define FREEHOLD_TESTS_BREAK_H

#include "check/report.h"

typedef struct {
    fh_equation equation; /* the one that must be named */
    const char *what;     /* what is done, in words */
    void (*how)(void);
} breakage;

extern const breakage break_shared[], break_own[];
extern const unsigned break_shared_count, break_own_count;

/* Makes a heap with something of everything in it: slabs, runs, free slots, full and empty magazines, depots, a cache that a
 * thread has left behind, runs over several chunks. */
void break_build(void);

/* The size of most blocks of it, and their class. */
#define BREAK_SIZE 64
#define BREAK_CLASS 4

#endif
