/* Whose is this address, which is none of ours? For the report about a foreign pointer. */
#ifndef FH_MISUSE_OWNER_H
#define FH_MISUSE_OWNER_H

#include "base/text.h"

/* "it is on the stack of this thread", "it is static data of /usr/bin/x", … Reads the list of mappings. `frame`: an address on
 * the calling thread's stack. */
void fh_owner_say(fh_text *t, const void *p, const void *frame);

#endif
