/* The library for a whole system (libfreehold-global.so): whether this program gets Freehold. See linux_global.c. */
#ifndef FH_SYSTEM_GLOBAL_H
#define FH_SYSTEM_GLOBAL_H

#include "base/atomic.h"
#include "base/bits.h"

/* What the first call has found; 0 before that. Relaxed: every thread finds the same. */
#define FH_TAKES_OVER 1u
#define FH_STANDS_ASIDE 2u
extern fh_word fh_global_answer FH_HIDDEN;

#endif
