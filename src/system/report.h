/* What the library says on stderr. No part of the seam: a port takes it as it is.
 *
 * Thread-safety: any thread, any time; one write(2) a message. Does not allocate. Blocks only as write does. errno
 * is kept. */
#ifndef FH_SYSTEM_REPORT_H
#define FH_SYSTEM_REPORT_H

#include "base/text.h"

#include <stddef.h>

/* ── A line ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A line that begins with "freehold: ", in a buffer of the caller's; and its end. Text for which there is no room is cut off,
 * the end of the line never. */
fh_text fh_line_begin(char *buffer, size_t size);
void fh_line_write(fh_text *t);

/* The same of texts alone, of 4 KiB together. The list ends with NULL. */
void fh_report_line(const char *const parts[]);
#define FH_REPORT_LINE(...) fh_report_line((const char *const[]){__VA_ARGS__, NULL})

/* ── Misuse ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef enum {
    FH_FAULT_FOREIGN,     /* p is not from this allocator */
    FH_FAULT_INSIDE,      /* p points into a block that begins at `a` and has `b` bytes */
    FH_FAULT_DOUBLE_FREE, /* the block of `b` bytes at p is free already */
    FH_FAULT_WRONG_SIZE,  /* a sized free said `a` bytes, the block has `b` */
    FH_FAULT_HEAP_OVER,   /* its heap was destroyed; `a` is the address of its name, which ends with a 0 */
    FH_FAULT_HEAP_ENDS,   /* another thread resets or destroys its heap */
    FH_FAULT_HEAP_USED,   /* the heap at p cannot be reset or destroyed: a call is on it */
} fh_fault;

/* Says what is wrong, where, and what to do about it; then aborts, or returns if on_error=report.
 * `call` is the name of the function that the program called ("free", "realloc", …), or NULL when it was some earlier
 * free whose block is only now on its way back. Returns only with on_error=report. */
void fh_report_fault(fh_fault fault, const char *call, const void *p, size_t a, size_t b);

#endif
