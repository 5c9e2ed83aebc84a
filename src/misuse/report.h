/* What a checked program is told: one block of text, written by one call. What is wrong and what to do in the first line;
 * then the block, and by which calls it was allocated, freed and found; then the bytes around the place. */
#ifndef FH_MISUSE_REPORT_H
#define FH_MISUSE_REPORT_H

#include "base/text.h"
#include "misuse/block.h"

typedef enum {
    FH_MISUSE_DOUBLE_FREE,
    FH_MISUSE_USE_AFTER_FREE, /* realloc or malloc_usable_size of a block that is free */
    FH_MISUSE_WRITTEN_FREE,   /* a block that is free was written to */
    FH_MISUSE_BEHIND,         /* bytes behind the block were written */
    FH_MISUSE_BEFORE,         /* bytes before it */
    FH_MISUSE_SIZE,           /* the call said another size */
    FH_MISUSE_ALIGN,          /* or another alignment */
    FH_MISUSE_FAMILY,         /* free of what came from new, and so on */
    FH_MISUSE_INSIDE,         /* p points into the block */
    FH_MISUSE_FOREIGN,        /* p is no block of ours */
} fh_misuse;

typedef struct {
    fh_misuse what;
    const char *call;    /* "free"; NULL: not in a call with that pointer */
    const char *found;   /* without a call: where ("in quarantine", …) */
    const void *p;       /* the pointer that the call got, or the block's */
    size_t said;         /* the size or alignment that the call said */
    unsigned family;     /* of the call */
    const fh_checked *h; /* the block; NULL: none is known */
    const char *at;      /* the first byte that is wrong; NULL: no bytes are shown, or of BEFORE all of the header */
    const void *frame;   /* of the function where it was found */
} fh_misuse_report;

/* Writes it; then aborts, or returns with on_error=report. Any thread. Does not allocate from the heap. */
void fh_misuse_say(const fh_misuse_report *r);

/* The same, and always returns. */
void fh_misuse_tell(const fh_misuse_report *r);

/* ── Parts, for the other reports of the layer ───────────────────────────────────────────────────────────────────── */

/* A report is long, and a thread's stack may be short, a signal's more so: the text is in pages of its own, or, where there are
 * none, in the few bytes here, and cut off. */
typedef struct {
    fh_text text;
    char *mapped;
    char few[1024];
} fh_misuse_message;

void fh_misuse_begin(fh_misuse_message *m);
void fh_misuse_write(fh_misuse_message *m);

/* "1 byte", "40 bytes". */
void fh_misuse_put_size(fh_text *t, size_t n);

/* "  found at" and a line a frame, of a stack of misuse/stacks.h or of addresses; three rows of 16 bytes, of which the byte at `at` is in the
 * middle one, in brackets. */
void fh_misuse_put_noted(fh_text *t, const char *what, uint32_t stack);
void fh_misuse_put_stack(fh_text *t, const char *what, const uint64_t *addresses, unsigned n);
void fh_misuse_put_bytes(fh_text *t, const char *at);

#endif
