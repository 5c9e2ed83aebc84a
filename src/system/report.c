#include "system/report.h"

#include "base/assert.h"
#include "base/settings.h"
#include "base/text.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

/* ── A line ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

fh_text fh_line_begin(char *buffer, size_t size) {
    fh_text t = fh_text_in(buffer, size - 1); /* a byte is kept for the end of the line */
    fh_text_string(&t, "freehold: ");
    return t;
}

void fh_line_write(fh_text *t) {
    t->end++;
    fh_text_char(t, '\n');
    fh_system_write(2, t->begin, fh_text_length(t));
}

void fh_report_line(const char *const parts[]) {
    char buffer[4096 + 256]; /* with the longest path */
    fh_text t = fh_line_begin(buffer, sizeof buffer);
    for (; *parts; parts++) fh_text_string(&t, *parts);
    fh_line_write(&t);
}

/* ── Misuse ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* "free(0x7f…): ", with the size too where the caller gave one. A block that is only found to be bad on its
 * way back from the thread's cache was released by some form of free. */
static void say_call(fh_text *t, fh_fault fault, const char *call, const void *p, size_t a) {
    fh_text_string(t, call ? call : "free");
    fh_text_char(t, '(');
    fh_text_pointer(t, p);
    if (fault == FH_FAULT_WRONG_SIZE) {
        fh_text_string(t, ", ");
        fh_text_number(t, a);
    }
    fh_text_string(t, "): ");
}

/* What is wrong, the facts, and what to do about it: one line, so that a log keeps it together. */
static void say_fault(fh_text *t, fh_fault fault, size_t a, size_t b) {
    switch (fault) {
    case FH_FAULT_FOREIGN:
        fh_text_string(t, "foreign pointer: no live block of this allocator begins there; release it with the library "
                          "that made it, once, or look for an overwritten pointer");
        break;
    case FH_FAULT_INSIDE:
        fh_text_string(t, "pointer into the middle of a block: the block of ");
        fh_text_number(t, b);
        fh_text_string(t, " bytes begins at ");
        fh_text_hex(t, a);
        fh_text_string(t, "; pass the pointer that the allocation returned");
        break;
    case FH_FAULT_DOUBLE_FREE:
        fh_text_string(t, "double free: ");
        if (b > 0) {
            fh_text_string(t, "this block of ");
            fh_text_number(t, b);
            fh_text_string(t, " bytes is free already");
        } else {
            /* Its slab or run went with it, and it is no longer known what it was. */
            fh_text_string(t, "no live block is left around it");
        }
        fh_text_string(t, "; look for a second owner, or set the pointer to NULL where it is "
                          "released first");
        break;
    case FH_FAULT_WRONG_SIZE:
        fh_text_string(t, "wrong size: ");
        fh_text_number(t, a);
        fh_text_string(t, " bytes do not belong to a block of ");
        fh_text_number(t, b);
        fh_text_string(t, "; pass the size that was asked for, and delete an object through its own type or a virtual "
                          "destructor");
        break;
    case FH_FAULT_HEAP_OVER:
        fh_text_string(t, "use after destroy: the heap \"");
        fh_text_string(t, (const char *)a);
        fh_text_string(t, "\" was destroyed, and its blocks with it; look for a pointer that outlived it");
        break;
    case FH_FAULT_HEAP_ENDS:
        fh_text_string(t,
                       "use during destroy: another thread resets or destroys this heap at the moment; let all calls "
                       "on a heap and its blocks return before");
        break;
    case FH_FAULT_HEAP_USED:
        fh_text_string(t, "heap in use: another call on it or on one of its blocks has not returned; let all of them "
                          "return before a heap is reset or destroyed");
        break;
    }
}

void fh_report_fault(fh_fault fault, const char *call, const void *p, size_t a, size_t b) {
    int saved = errno;
    char buffer[384];
    fh_text t = fh_line_begin(buffer, sizeof buffer);
    say_call(&t, fault, call, p, a);
    say_fault(&t, fault, a, b);
    if (!call) fh_text_string(&t, " (found when the thread's cache was flushed, not in the call that did it)");
    fh_line_write(&t);
    if (FH_SETTING(on_error) == FH_ON_ERROR_ABORT) fh_system_abort();
    errno = saved;
}

/* ── Mistakes of ours ────────────────────────────────────────────────────────────────────────────────────────────── */

/* The path from "src/" on, wherever the sources were when the compiler read them. */
static const char *below_root(const char *file) {
    const char *at = file;
    for (const char *next; (next = strstr(at, "src/")) != NULL;) at = next + 1;
    return at == file ? file : at - 1;
}

void fh_assert_failed(const char *file, unsigned line, const char *condition) {
    char buffer[384];
    fh_text t = fh_line_begin(buffer, sizeof buffer);
    fh_text_string(&t, "internal: ");
    fh_text_string(&t, below_root(file));
    fh_text_char(&t, ':');
    fh_text_number(&t, line);
    fh_text_string(&t, ": ");
    fh_text_string(&t, condition);
    fh_line_write(&t);
    fh_system_abort();
}
