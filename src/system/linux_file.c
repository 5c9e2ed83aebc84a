/* Linux: files that are replaced as a whole. */
#include "base/text.h"
#include "system/inspect.h"
#include "system/linux_read.h"
#include "system/system.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The path with the number for each %p. False if it is too long. */
static bool expand(fh_text *t, const char *path) {
    while (*path) {
        if (path[0] == '%' && path[1] == 'p') {
            fh_text_number(t, fh_system_pid());
            path += 2;
        } else {
            fh_text_char(t, *path++);
        }
    }
    fh_text_char(t, 0);
    return t->at < t->end;
}

static long remove_file(const char *path) {
    return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* The C library's function of that name is younger than some that programs run with. */
static bool look_at(const char *path, struct stat *there, int flags) {
    return syscall(SYS_newfstatat, AT_FDCWD, path, there, flags) == 0;
}

/* A rename onto a device would take the device away from the whole machine, if the process may do that: onto /dev/null,
 * all that others write there from then on fills a file. */
static bool may_be_replaced(const char *path) {
    struct stat there;
    return !look_at(path, &there, AT_SYMLINK_NOFOLLOW) || S_ISREG(there.st_mode);
}

/* A device. Not a file behind a link, which would grow with every second; and not a pipe: its reader may go at any moment, and
 * the signal of that would end the program. -1: not to be written. */
static int open_in_place(const char *path) {
    struct stat there;
    if (!look_at(path, &there, 0) || !S_ISCHR(there.st_mode)) return -1;
    return fh_open_file(path, O_WRONLY | O_NONBLOCK | O_NOCTTY, 0);
}

static int open_beside(fh_file *f) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode = 0644;
    int fd = fh_open_file(f->beside, flags, mode);
    /* Left by a process of the same number that was killed while it wrote. */
    if (fd < 0 && errno == EEXIST && remove_file(f->beside) == 0) fd = fh_open_file(f->beside, flags, mode);
    return fd;
}

bool fh_file_begin(fh_file *f, const char *path, uint64_t length) {
    fh_text whole = fh_text_in(f->path, sizeof f->path), beside = fh_text_in(f->beside, sizeof f->beside);
    if (fh_system_is_restricted() || !expand(&whole, path)) return false;
    fh_text_string(&beside, f->path);
    fh_text_char(&beside, '.');
    fh_text_number(&beside, fh_system_pid());
    fh_text_string(&beside, ".new");
    fh_text_char(&beside, 0);
    if (beside.at == beside.end || fh_is_too_long(length)) return false;
    int saved = errno;
    f->is_beside = may_be_replaced(f->path);
    f->descriptor = f->is_beside ? open_beside(f) : open_in_place(f->path);
    errno = saved;
    return f->descriptor >= 0;
}

/* Of an open file. */
static uint64_t size_of(int fd) {
    struct stat about;
    return syscall(SYS_newfstatat, fd, "", &about, AT_EMPTY_PATH) == 0 ? (uint64_t)about.st_size : 0;
}

static bool replace(const fh_file *f) {
    return syscall(SYS_renameat, AT_FDCWD, f->beside, AT_FDCWD, f->path) == 0;
}

void fh_file_end(fh_file *f, uint64_t length) {
    int saved = errno;
    bool whole = !f->is_beside || size_of(f->descriptor) == length;
    syscall(SYS_close, f->descriptor);
    if (f->is_beside && !(whole && replace(f))) remove_file(f->beside);
    errno = saved;
}

void fh_file_append(const char *path, const char *text, size_t length) {
    if (fh_system_is_restricted()) return;
    int saved = errno, fd = fh_open_file(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        if (!fh_is_too_long(size_of(fd) + length)) fh_system_write(fd, text, length);
        syscall(SYS_close, fd);
    }
    errno = saved;
}
