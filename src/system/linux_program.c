#include "system/linux_program.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "system/system.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static fh_word restricted; /* relaxed: it guards nothing, and is set before the filter is there */

void fh_program_restrict(void) {
    fh_store(&restricted, 1);
}

bool fh_system_is_restricted(void) {
    return FH_UNLIKELY(fh_load(&restricted));
}

/* ── Standard error ──────────────────────────────────────────────────────────────────────────────────────────────── */

static fh_word messages_device, messages_file; /* relaxed: written once, at the start; 0 if there was none */

void fh_system_note_messages(void) {
    int saved = errno;
    struct stat at;
    if (fstat(2, &at) == 0) {
        fh_store(&messages_device, at.st_dev);
        fh_store(&messages_file, at.st_ino);
    }
    errno = saved;
}

bool fh_system_has_messages(void) {
    if (fh_system_is_restricted()) return true;
    int saved = errno;
    struct stat at;
    bool has = false;
    if (fstat(2, &at) == 0) {
        bool same = at.st_dev == fh_load(&messages_device) && at.st_ino == fh_load(&messages_file);
        has = same || S_ISCHR(at.st_mode) || (S_ISREG(at.st_mode) && fcntl(2, F_GETFL) & O_APPEND);
    }
    errno = saved;
    return has;
}

/* ── The environment ─────────────────────────────────────────────────────────────────────────────────────────────── */

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
