/* The modules of the profile file: what its reader needs to name addresses when the process is gone.
 *
 *     equation:  entry i of the file's section is module i of the walker's list (unwind/modules.h)
 *
 * So the table has no memory of its own: how many entries the file has says what is missing. One thread at a time
 * enters modules, and none waits for it: a thread that comes meanwhile leaves its news to the next one. */
#ifndef FH_OBSERVE_MODULES_H
#define FH_OBSERVE_MODULES_H

#include "observe/profile_words.h"

#include <stdbool.h>

/* Enters the modules that are new and says which are gone. Costs two loads when nothing has changed. `again`: tries
 * also what there was no room for. Any thread; does not allocate; keeps errno. */
void fh_modules_enter(fh_profile_header *profile, bool again);

/* The child of a fork has a profile file of its own, with nothing in it. */
void fh_modules_clear(void);

#endif
