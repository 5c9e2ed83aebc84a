/* A guard was touched: finds out which block was meant, and tells the profile file and stderr. */
#ifndef FH_MISUSE_GUARD_TOUCH_H
#define FH_MISUSE_GUARD_TOUCH_H

#include "system/inspect.h"

#include <stdbool.h>

/* In the signal handler. False: the address is none of ours, or another thread is telling of a touch at this moment. Only
 * what may be called in a signal handler is called: no lock, no memory of any heap. Takes some 4 KiB of stack. */
bool fh_guard_touched(const fh_touch *touch);

#endif
