/* The fourth seam, of the library that is loaded (libfreehold.so) alone: the same program once more, from its beginning, with
 * another library in front. Its functions are NULL in every other library, and in a port without them.
 *
 * Thread-safety: one thread, before the program's own code begins. None allocates. */
#ifndef FH_SYSTEM_AGAIN_H
#define FH_SYSTEM_AGAIN_H

#include "base/bits.h"

#include <stdbool.h>
#include <stddef.h>

/* True if this library's malloc is the one that the whole program calls: it was there from the beginning, and no other
 * library is in front. Then `path` is its file, absolute and terminated. */
bool fh_system_is_in_front(char *path, size_t size) __attribute__((weak)) FH_HIDDEN;

typedef struct {
    const char *name, *value;
} fh_variable;

/* The process becomes its own program again, with the same arguments, the file `library` preloaded before all others, and
 * these variables in its environment. Returns only if that fails: the kernel's error. */
int fh_system_begin_again(const char *library, const fh_variable *set, size_t count) __attribute__((weak)) FH_HIDDEN;

bool fh_system_is_file(const char *path) __attribute__((weak)) FH_HIDDEN;

/* Makes a directory for the owner alone. Returns 0, or the kernel's error. */
int fh_system_make_directory(const char *path) __attribute__((weak)) FH_HIDDEN;
void fh_system_remove_directory(const char *path) __attribute__((weak)) FH_HIDDEN;

#endif
