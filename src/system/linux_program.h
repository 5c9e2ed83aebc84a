/* What this program is: who started it with which environment, and whether it has sandboxed itself. */
#ifndef FH_SYSTEM_LINUX_PROGRAM_H
#define FH_SYSTEM_LINUX_PROGRAM_H

/* From now on fh_system_is_restricted() is true. */
void fh_program_restrict(void);

#endif
