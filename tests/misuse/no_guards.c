/* A kernel that cannot mark pages as guards: preloaded, it refuses that advice as kernels before 6.13 do. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int madvise(void *p, size_t size, int advice) {
    const int guard_install = 102;
    if (advice >= guard_install) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, p, size, advice);
}
