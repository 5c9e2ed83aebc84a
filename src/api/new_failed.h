/* The border between the operators (C, new.c) and what they need of C++ when there is no memory (new_failed.cc). */
#ifndef FH_API_NEW_FAILED_H
#define FH_API_NEW_FAILED_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an operator new does after its first attempt failed: calls the program's new handler and tries again, until there
 * is memory or no handler; then throws std::bad_alloc. A handler may also throw, or not come back. align 0: the usual. */
void *fh_new_failed(size_t n, size_t align);

/* The same for the forms that return NULL instead. Whatever a handler throws ends here. */
void *fh_new_failed_nothrow(size_t n, size_t align);

/* What an operator of the program's returns, or NULL if it throws. */
void *fh_new_catch(void *(*new_)(size_t), size_t n);
void *fh_new_catch_aligned(void *(*new_)(size_t, size_t), size_t n, size_t align);

/* new.c: one more attempt. */
void *fh_new_again(size_t n, size_t align);

/* new.c: ends the process with a message, as there is no C++ library to throw and none to catch. */
__attribute__((noreturn)) void fh_new_nobody_catches(size_t n);

#ifdef __cplusplus
}
#endif

#endif
