/* Linux, drop-in only: prctl. A program that is about to install a filter of system calls says so first: without privileges
 * the kernel demands PR_SET_NO_NEW_PRIVS, and libseccomp sets it in any case. That is the last moment at which files may be
 * read. The call itself is passed on as it is. */
#include "base/hooks.h"

#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int prctl(int option, ...) {
    unsigned long arguments[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++) arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    if ((option == PR_SET_NO_NEW_PRIVS && arguments[0] != 0) || option == PR_SET_SECCOMP) fh_hook_sandbox();
    return (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
}
