/* Linux: a frozen copy of the process, by a fork that the program does not notice. */
#include "system/inspect.h"
#include "system/linux_read.h"
#include "system/system.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Older C libraries do not know them; the numbers are the kernel's, and the same on all architectures since 2019. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef __WCLONE
#define __WCLONE 0x80000000
#endif

/* The kernel's set of signals: 64 bits. */
#define SIGNAL_BYTES 8L
enum { BLOCK = 0, SET = 2 };

/* clone without an exit signal: the parent is sent none, and the kernel shows such a child only to who asks for it. Signals
 * are blocked before, as the copy inherits the program's handlers and the first one could come at once. */
long fh_snapshot_fork(void) {
    int saved = errno;
    uint64_t all = ~UINT64_C(0), before = 0;
    syscall(SYS_rt_sigprocmask, BLOCK, &all, &before, SIGNAL_BYTES);
    long process = syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
    int error = errno;
    if (process != 0) syscall(SYS_rt_sigprocmask, SET, &before, NULL, SIGNAL_BYTES);
    errno = saved;
    return process < 0 ? -(long)error : process;
}

/* Kernels before 5.9 close one by one; a program with more files than that keeps some open until the copy ends. */
static void close_all(void) {
    const long most = 65536;
    if (syscall(SYS_close_range, 0UL, ~0U, 0UL) == 0) return;
    for (long fd = 0; fd < most; fd++) syscall(SYS_close, fd);
}

void fh_snapshot_settle(void) {
    close_all();
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        syscall(SYS_write, fd, "1000", 4UL);
        syscall(SYS_close, fd);
    }
    syscall(SYS_setpriority, PRIO_PROCESS, 0L, 10L);
}

_Noreturn void fh_snapshot_end(void) {
    for (;;) syscall(SYS_exit_group, 0L);
}

bool fh_snapshot_ended(long process) {
    int saved = errno, status;
    long got = syscall(SYS_wait4, process, &status, (long)(WNOHANG | (int)__WCLONE), NULL);
    bool ended = got == process || (got < 0 && errno == ECHILD);
    errno = saved;
    return ended;
}

void fh_snapshot_make_readable(uintptr_t begin, uintptr_t end) {
    mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE);
}

/* /proc/self/pagemap has a word for each page. Bit 63: it has memory; 62: it is swapped out; 61: the memory is a file's (and
 * not a copy that the program has written to). */
#define HAS_MEMORY (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)
#define OF_FILE (UINT64_C(1) << 61)

size_t fh_snapshot_contents(uintptr_t begin, size_t pages, unsigned char *has) {
    static int fd = -1; /* one process, one thread */
    uint64_t words[256];
    if (fd < 0) fd = fh_read_open("/proc/self/pagemap");
    if (pages > sizeof words / sizeof words[0]) pages = sizeof words / sizeof words[0];
    uint64_t offset = begin / fh_system_page_size() * sizeof words[0];
    size_t known = fh_read_at(fd, words, pages * sizeof words[0], offset) / sizeof words[0];
    for (size_t i = 0; i < known; i++)
        has[i] = (words[i] & SWAPPED) || ((words[i] & HAS_MEMORY) && !(words[i] & OF_FILE));
    return known;
}
