/* Assertions about the allocator itself, in two levels. A claim of a comment that a line of code can test belongs here.
 *
 *     FH_ASSERT(condition)          a few instructions         checked builds and stress builds
 *     FH_ASSERT_COSTLY(condition)   a walk over a structure    stress builds
 *
 * Elsewhere both compile to nothing. The condition is always compiled, so that it cannot go stale, and must have no
 * effect. One that fails prints the file, the line and the condition, and ends the process.
 *
 * A condition must be true at every moment at which other threads may be anywhere. So it is about what the caller holds, or
 * about what an atomic step has returned. The model tries every order of steps with the cheap ones on, in the code of a release
 * build; each shared word that one of them loads is a step more.
 *
 * An assertion is about us. A mistake of the program is reported by system/report.h, with a message for its author. */
#ifndef FH_BASE_ASSERT_H
#define FH_BASE_ASSERT_H

#include "base/settings.h"

/* Defined in system/report.c. Writes one line to stderr and aborts; does not allocate. Any thread. */
_Noreturn void fh_assert_failed(const char *file, unsigned line, const char *condition);

#define FH_ASSERT_IF(active, condition)                                                                                \
    do {                                                                                                               \
        if ((active) && __builtin_expect(!(condition), 0)) fh_assert_failed(__FILE__, __LINE__, #condition);           \
    } while (0)

/* A static analyzer reads all of them: it learns what holds, and that a value which only they look at is used. */
#ifdef __clang_analyzer__
#define FH_ASSERT(condition) FH_ASSERT_IF(1, condition)
#define FH_ASSERT_COSTLY(condition) FH_ASSERT_IF(1, condition)
#else
#define FH_ASSERT(condition) FH_ASSERT_IF(FH_CHECKED || FH_STRESS, condition)
#define FH_ASSERT_COSTLY(condition) FH_ASSERT_IF(FH_STRESS, condition)
#endif

#endif
