/* Linux: files that are replaced as a whole. */
#include "base/text.h"
#include "system/inspect.h"
#include "system/linux_read.h"
#include "system/system.h"

#include <errno.h>
#include <fcntl.h>
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

bool fh_file_begin(fh_file *f, const char *path) {
    fh_text whole = fh_text_in(f->path, sizeof f->path), beside = fh_text_in(f->beside, sizeof f->beside);
    if (!expand(&whole, path)) return false;
    fh_text_string(&beside, f->path);
    fh_text_char(&beside, '.');
    fh_text_number(&beside, fh_system_pid());
    fh_text_string(&beside, ".new");
    fh_text_char(&beside, 0);
    if (beside.at == beside.end) return false;
    int saved = errno;
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode = 0644;
    int fd = fh_open_file(f->beside, flags, mode);
    /* Left by a process of the same number that was killed while it wrote. */
    if (fd < 0 && errno == EEXIST && remove_file(f->beside) == 0) {
        fd = fh_open_file(f->beside, flags, mode);
    }
    errno = saved;
    f->descriptor = fd;
    return fd >= 0;
}

void fh_file_end(fh_file *f) {
    int saved = errno;
    syscall(SYS_close, f->descriptor);
    if (syscall(SYS_renameat, AT_FDCWD, f->beside, AT_FDCWD, f->path) != 0) remove_file(f->beside);
    errno = saved;
}
