/* Tells a command where the allocator's records are, so that it can count the heap of a program that stands still. */
#ifndef FH_OBSERVE_RECORDS_H
#define FH_OBSERVE_RECORDS_H

#include "observe/profile.h"

/* Writes it into the profile file. The window is there. One thread at a time. */
void fh_records_show(fh_profile_header *profile);

#endif
