#include "system/linux_filter.h"

#include "base/atomic.h"
#include "system/linux_read.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { UNKNOWN, YES, NO };
static fh_word filter_known;

/* A file says it, because prctl may be a call that ends the process. Where there is no such file, the kernel is asked. */
bool fh_linux_is_filtered(void) {
    static const char *const key[] = {"Seccomp:"};
    uint64_t known = fh_load(&filter_known), mode;
    if (known == UNKNOWN) {
        if (fh_numbers_of("/proc/self/status", key, 1, &mode) == 0) {
            int saved = errno;
            mode = (uint64_t)syscall(SYS_prctl, PR_GET_SECCOMP, 0L, 0L, 0L, 0L);
            errno = saved;
        }
        known = mode == 0 ? NO : YES;
        fh_store(&filter_known, known);
    }
    return known == YES;
}
