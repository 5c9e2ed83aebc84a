/* What is said about guarded blocks, found in a call or by a touch: one block of text, written by one call, in the words of
 * report.h. */
#ifndef FH_MISUSE_GUARD_REPORT_H
#define FH_MISUSE_GUARD_REPORT_H

#include "misuse/guard_place.h"
#include "system/inspect.h"

typedef enum {
    FH_GUARD_DOUBLE_FREE,
    FH_GUARD_USED_FREE,      /* realloc or malloc_usable_size of a block that is free */
    FH_GUARD_WRONG_BEGIN,    /* p points into the block */
    FH_GUARD_FOREIGN,        /* p is in the region, and in no block */
    FH_GUARD_WRITTEN_AROUND, /* bytes beside the block were written, and no guard was met */
    FH_GUARD_TOUCHED,        /* a guard was met */
} fh_guard_what;

typedef struct {
    fh_guard_what what;
    fh_guard_side side;
    const char *call; /* "free"; NULL: not in a call */
    uintptr_t p;      /* the pointer that the call got, or what was touched */
    const char *at;   /* the first byte that is wrong; NULL: no bytes are shown */
    fh_guard_view view;
    const void *frame;       /* of the function where it was found; NULL: see `touched` */
    fh_touch_access access;  /* of a touch */
    const uint64_t *touched; /* and its stack */
    unsigned touched_count;
} fh_guard_report;

/* Writes it; then aborts, or returns with on_error=report. Of a touch it always returns. Any thread, also in a signal handler. Does
 * not allocate. */
void fh_guard_say(const fh_guard_report *r);

#endif
