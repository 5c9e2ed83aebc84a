/* Option flight: the program's last calls of the allocator are kept in a file, so that they are there after its death.
 *
 * The recorder is a library of its own, which comes before this one and calls it (recorder/shim.c). So this one does not
 * record. It starts the program again, before the program's own code begins, with the recorder in front of it.
 *
 * Thread-safety: one thread, at start. */
#ifndef FH_OBSERVE_FLIGHT_H
#define FH_OBSERVE_FLIGHT_H

#include "base/types.h"

/* Keeps `bytes` of records. Returns only if there is nothing to do, as in a program that is recorded already, or if it cannot be
 * done, which is said on stderr: the program continues. */
void fh_flight_begin(size_t bytes);

#endif
