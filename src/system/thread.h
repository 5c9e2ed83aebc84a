/* A thread of the library's own, of which there is at most one. */
#ifndef FH_SYSTEM_THREAD_H
#define FH_SYSTEM_THREAD_H

#include "base/atomic.h"

/* Makes the thread, which calls run(). All signals are blocked in it. False: the system has none to give. Keeps errno. Makes
 * the C library allocate, so nothing may be held. Nobody waits for its end. */
bool fh_system_thread_start(void (*run)(void));

/* Waits while the lower half of the word is `value`, for `nanoseconds` at most (0: for ever), or shorter: for no reason, or
 * because of fh_system_wake. */
void fh_system_wait(const fh_word *word, uint64_t value, uint64_t nanoseconds);

#endif
