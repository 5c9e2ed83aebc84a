#include "system/linux_program.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "system/system.h"

#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

extern char **environ;

static fh_word restricted; /* relaxed: it guards nothing, and is set before the filter is there */

void fh_program_restrict(void) {
    fh_store(&restricted, 1);
}

bool fh_system_is_restricted(void) {
    return FH_UNLIKELY(fh_load(&restricted));
}

/* getenv without a lock and without memory. A program that runs with more rights than its caller must not be steered
 * by its caller's environment. */
const char *fh_system_environment(const char *name, bool *ready) {
    char **variable = environ;
    *ready = variable != NULL;
    if (!variable || getauxval(AT_SECURE)) return NULL;
    size_t length = strlen(name);
    for (; *variable; variable++) {
        if (strncmp(*variable, name, length) == 0 && (*variable)[length] == '=') return *variable + length + 1;
    }
    return NULL;
}
