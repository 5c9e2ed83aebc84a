/* What the kernel refused last, for those files of the port that map memory by themselves. */
#ifndef FH_SYSTEM_LINUX_REFUSED_H
#define FH_SYSTEM_LINUX_REFUSED_H

#include <stddef.h>

/* A call for `size` bytes has failed, and errno says why. Wait-free. See fh_system_refused_bytes. */
void fh_linux_note_refusal(size_t size);

#endif
