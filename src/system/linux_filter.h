/* Linux: is there a filter of system calls that the library was not told of? */
#ifndef FH_SYSTEM_LINUX_FILTER_H
#define FH_SYSTEM_LINUX_FILTER_H

#include <stdbool.h>

/* True if a filter of system calls was there before the program: that of a container, or of a service of systemd. The library
 * was not told of it. It may end the process at a call that glibc's malloc does not need. Keeps errno. */
bool fh_linux_is_filtered(void);

#endif
