/* Linux: files that other processes read while this one writes them, and which process this is. */
#include "base/bits.h"
#include "base/text.h"
#include "system/inspect.h"
#include "system/linux_read.h"
#include "system/system.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* musl's headers of some years lack them. The numbers are part of the kernel's interface. */
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1U
#endif

/* Descriptors that programs count on are low ones. */
#define LOWEST_DESCRIPTOR 64

/* ── The descriptor ──────────────────────────────────────────────────────────────────────────────────────────────── */

/* In a sandbox the answer is no, because asking would be a call that glibc's malloc does not make. */
static bool is_ours(const fh_shared_file *f, int fd) {
    struct stat now;
    return fd >= 0 && !fh_system_is_restricted() && fstat(fd, &now) == 0 && now.st_dev == f->device &&
           now.st_ino == f->inode;
}

/* Takes fd over, under a higher number if there is one. */
static int keep(fh_shared_file *f, int fd) {
    struct stat now;
    if (fstat(fd, &now) != 0) {
        int error = errno;
        fh_read_close(fd);
        return error;
    }
    f->device = now.st_dev;
    f->inode = now.st_ino;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    f->descriptor = high >= 0 ? high : fd;
    if (high >= 0) fh_read_close(fd);
    return 0;
}

/* The descriptor, or a new one of the same file if the program has closed ours; *opened: to be closed after use. -1: the
 * file cannot be reached any more (renamed, another root, fewer rights). */
static int reach(const fh_shared_file *f, bool *opened) {
    *opened = false;
    if (is_ours(f, f->descriptor)) return f->descriptor;
    if (!f->path[0]) return -1;
    int fd = fh_open_file(f->path, O_RDWR | (f->offered ? 0 : O_NOFOLLOW), 0);
    *opened = is_ours(f, fd);
    if (*opened) return fd;
    fh_read_close(fd);
    return -1;
}

/* ── Making and growing ──────────────────────────────────────────────────────────────────────────────────────────── */

static bool set_path(fh_shared_file *f, const char *directory, const char *name) {
    fh_text t = fh_text_in(f->path, sizeof f->path - 1);
    fh_text_string(&t, directory);
    fh_text_char(&t, '/');
    fh_text_string(&t, name);
    *t.at = 0;
    return strlen(directory) + strlen(name) + 2 < sizeof f->path;
}

int fh_shared_create(fh_shared_file *f, const char *directory, const char *name) {
    int saved = errno;
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
    f->offered = false;
    if (!set_path(f, directory, name)) return ENAMETOOLONG;
    int fd = fh_open_file(f->path, flags, 0600);
    if (fd < 0 && errno == EEXIST) {
        syscall(SYS_unlinkat, AT_FDCWD, f->path, 0);
        fd = fh_open_file(f->path, flags, 0600);
    }
    int error = fd < 0 ? errno : keep(f, fd);
    errno = saved;
    return error;
}

int fh_shared_create_nameless(fh_shared_file *f, const char *name) {
    int saved = errno;
    f->path[0] = 0;
    f->offered = false;
    if (fh_system_is_restricted()) return EPERM;
    long fd = syscall(SYS_memfd_create, name, MFD_CLOEXEC);
    int error = fd < 0 ? errno : keep(f, (int)fd);
    errno = saved;
    return error;
}

int fh_shared_open_nameless(fh_shared_file *f, const char *path, const char *name) {
    int saved = errno;
    char leads_to[64], wanted[64];
    fh_text t = fh_text_in(wanted, sizeof wanted - 1);
    fh_text_string(&t, "/memfd:");
    fh_text_string(&t, name);
    *t.at = 0;
    if (fh_system_is_restricted()) return EPERM;
    /* A file of the user's must never be taken for one of ours. */
    long length = syscall(SYS_readlinkat, AT_FDCWD, path, leads_to, sizeof leads_to);
    if (length < (long)strlen(wanted) || memcmp(leads_to, wanted, strlen(wanted)) != 0) {
        errno = saved;
        return ENOENT;
    }
    t = fh_text_in(f->path, sizeof f->path - 1);
    fh_text_string(&t, path);
    *t.at = 0;
    f->offered = true;
    int fd = fh_open_file(path, O_RDWR, 0);
    int error = fd < 0 ? errno : keep(f, fd);
    errno = saved;
    return error;
}

void fh_shared_empty(const fh_shared_file *f) {
    int saved = errno;
    const int punch_hole_keep_size = 3;
    struct stat now;
    bool opened;
    int fd = reach(f, &opened);
    if (fd >= 0 && fstat(fd, &now) == 0) syscall(SYS_fallocate, fd, punch_hole_keep_size, (off_t)0, now.st_size);
    if (opened) fh_read_close(fd);
    errno = saved;
}

/* Writes zeroes where the file system, or a filter of system calls, does not know fallocate. */
static int write_zeroes(int fd, uint64_t offset, size_t size) {
    static const char zeroes[4096];
    for (size_t done = 0; done < size;) {
        size_t most = size - done < sizeof zeroes ? size - done : sizeof zeroes;
        long wrote = syscall(SYS_pwrite64, fd, zeroes, most, (off_t)(offset + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return wrote < 0 ? errno : ENOSPC;
        done += (size_t)wrote;
    }
    return 0;
}

/* A signal makes fallocate undo what it has done so far, so in a program with a fast timer it might never come to an end.
 * Writing page by page does. */
static int allocate(int fd, uint64_t offset, size_t size) {
    if (fh_is_too_long(offset + size)) return EFBIG;
    for (int tries = 0; tries < 3; tries++) {
        if (syscall(SYS_fallocate, fd, 0, (off_t)offset, (off_t)size) == 0) return 0;
        if (errno != EINTR) break;
    }
    return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? errno : write_zeroes(fd, offset, size);
}

void *fh_shared_extend(const fh_shared_file *f, uint64_t offset, size_t size, int *error) {
    int saved = errno;
    bool opened;
    int fd = reach(f, &opened);
    void *p = MAP_FAILED;
    *error = fd < 0 ? EBADF : allocate(fd, offset, size);
    if (*error == 0) {
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
        if (p == MAP_FAILED) *error = errno;
    }
    if (opened) fh_read_close(fd);
    errno = saved;
    return p == MAP_FAILED ? NULL : p;
}

void fh_shared_shrink(const fh_shared_file *f, uint64_t offset, void *p, size_t size) {
    int saved = errno;
    const int punch_hole_keep_size = 3;
    bool opened;
    munmap(p, size);
    int fd = reach(f, &opened);
    if (fd >= 0) syscall(SYS_fallocate, fd, punch_hole_keep_size, (off_t)offset, (off_t)size);
    if (opened) fh_read_close(fd);
    errno = saved;
}

void fh_shared_remove(const fh_shared_file *f) {
    int saved = errno;
    if (f->path[0]) {
        int fd = fh_open_file(f->path, O_PATH | O_NOFOLLOW, 0);
        if (is_ours(f, fd)) syscall(SYS_unlinkat, AT_FDCWD, f->path, 0);
        fh_read_close(fd);
    }
    errno = saved;
}

void fh_shared_forget(fh_shared_file *f) {
    int saved = errno;
    if (is_ours(f, f->descriptor)) fh_read_close(f->descriptor);
    f->descriptor = -1;
    f->path[0] = 0;
    errno = saved;
}

void *fh_system_map_wiped_on_fork(size_t size) {
    int saved = errno;
    size = fh_round_up(size, fh_system_page_size());
    void *p = fh_system_map(size, fh_system_page_size());
    if (p && madvise(p, size, MADV_WIPEONFORK) != 0) {
        munmap(p, size);
        p = NULL;
    }
    errno = saved;
    return p;
}

/* ── Who this process is ─────────────────────────────────────────────────────────────────────────────────────────── */

/* Field 22 of "PID (NAME) S PPID …", in ticks since boot. The name may hold blanks and brackets, so the count begins
 * behind the last one. */
static uint64_t start_of_process(void) {
    char text[1024];
    fh_read_file("/proc/self/stat", text, sizeof text);
    const char *at = NULL;
    for (const char *p = strchr(text, ')'); p; p = strchr(p + 1, ')')) at = p;
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    uint64_t start = 0;
    if (at) (void)fh_read_number(at, &start);
    return start;
}

fh_process fh_system_process(void) {
    int saved = errno;
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_REALTIME, &now);
    fh_process p = {
        .pid = fh_system_pid(),
        .parent_pid = fh_system_is_restricted() ? 0 : (uint64_t)syscall(SYS_getppid),
        .start = start_of_process(),
        .unix_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec,
    };
    errno = saved;
    return p;
}

void fh_system_program(char *path, size_t size) {
    int saved = errno;
    long length = 0;
    if (!fh_system_is_restricted()) length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, size - 1);
    path[length > 0 ? length : 0] = 0;
    errno = saved;
}

void fh_system_command(char *words, size_t size) {
    words[0] = 0;
    if (!fh_system_is_restricted()) fh_read_file("/proc/self/cmdline", words, size);
}

uint32_t fh_system_thread_number(void) {
    return (uint32_t)syscall(SYS_gettid);
}

const char *fh_system_error(int error) {
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "no room left there";
    case EFBIG:
        return "the limit on the file size (ulimit -f) is met";
    case EROFS:
        return "the file system is read-only";
    case ENOENT:
    case ENOTDIR:
        return "no such directory";
    case EACCES:
    case EPERM:
        return "permission denied";
    case ENOMEM:
        return "no memory";
    case EMFILE:
    case ENFILE:
        return "too many open files";
    case ENOSYS:
        return "the kernel has no such call";
    case ENAMETOOLONG:
        return "the name is too long";
    default:
        return "the kernel refused";
    }
}
