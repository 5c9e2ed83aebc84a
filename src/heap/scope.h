/* The heap out of which a thread's plain calls are served: malloc and its family, and operator new, between enter and leave.
 *
 * A thread in a scope has no bins. It sees those that threads without a cache share, which are empty and full for ever, as in
 * a checked program (cache/observed.h). So each of its calls takes the slow half, and there is one question more, only while
 * FH_MODE_SCOPE is set. No other thread pays for it, and the hot path has not one instruction for it.
 *
 * A heap counts the scopes that are open on it, so that it is not destroyed within one. The count carries the generation of the
 * process: in the child of a fork the other threads' scopes do not exist, and count as none.
 *
 * Thread-safety: the scopes of a thread are its own; the count is shared. Progress: lock-free. */
#ifndef FH_HEAP_SCOPE_H
#define FH_HEAP_SCOPE_H

#include "heap/types.h"

/* False with errno ENOMEM: no memory, or the thread is about to end. */
bool fh_scope_enter(fh_heap *h);

/* False: the thread is in no scope. */
bool fh_scope_leave(void);

/* The heap of the innermost scope of the calling thread; NULL: it is in none. */
fh_heap *fh_scope_heap(void);

/* True if a thread of this process is in a scope of that heap. */
bool fh_scope_is_open(const fh_heap *h);

/* The calling thread ends, or is the only one in the child of a fork. */
void fh_scope_thread_ends(void);
void fh_scope_forked(void);

#endif
