#include "system/linux_read.h"

#include "system/system.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

int fh_open_file(const char *path, int flags, int mode) {
    if (fh_system_is_restricted()) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

int fh_read_open(const char *path) {
    int saved = errno, fd = fh_open_file(path, O_RDONLY, 0);
    errno = saved;
    return fd;
}

void fh_read_close(int fd) {
    int saved = errno;
    if (fd >= 0) syscall(SYS_close, fd);
    errno = saved;
}

long fh_read_next(int fd, void *to, size_t n) {
    int saved = errno;
    long got;
    do {
        got = syscall(SYS_read, fd, to, n);
    } while (got < 0 && errno == EINTR);
    errno = saved;
    return got;
}

size_t fh_read_at(int fd, void *to, size_t n, uint64_t offset) {
    int saved = errno;
    long got = fd < 0 ? 0 : syscall(SYS_pread64, fd, to, n, offset);
    errno = saved;
    return got < 0 ? 0 : (size_t)got;
}

size_t fh_read_file(const char *path, char *text, size_t size) {
    int fd = fh_read_open(path);
    long got = fd < 0 ? 0 : fh_read_next(fd, text, size - 1);
    fh_read_close(fd);
    if (got < 0) got = 0;
    text[got] = 0;
    return (size_t)got;
}

bool fh_is_too_long(uint64_t bytes) {
    uint64_t both[2]; /* soft and hard, as the kernel has them on every machine */
    int saved = errno;
    bool known = syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, both) == 0;
    errno = saved;
    return known && bytes > both[0];
}

/* ── Lines ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

bool fh_lines_open(fh_lines *lines, const char *path, char *buffer, size_t size) {
    *lines = (fh_lines){.fd = fh_read_open(path), .buffer = buffer, .size = size};
    return lines->fd >= 0;
}

void fh_lines_close(fh_lines *lines) {
    fh_read_close(lines->fd);
    lines->fd = -1;
}

/* What is left of the buffer moves to its beginning when there is no whole line in it. */
char *fh_lines_next(fh_lines *lines) {
    for (;;) {
        char *start = lines->buffer + lines->at;
        size_t rest = lines->filled - lines->at;
        char *newline = memchr(start, '\n', rest);
        if (newline) {
            *newline = 0;
            lines->at += (size_t)(newline - start) + 1;
            return start;
        }
        if (rest == lines->size) return NULL;
        memmove(lines->buffer, start, rest);
        lines->at = 0;
        lines->filled = rest;
        long got = fh_read_next(lines->fd, lines->buffer + rest, lines->size - rest);
        if (got <= 0) {
            lines->complete = got == 0 && rest == 0;
            return NULL;
        }
        lines->filled += (size_t)got;
    }
}

/* After fh_lines_next has returned NULL: passes over a line that is longer than the buffer. False: it was none, or was the last. */
static bool skip_long(fh_lines *lines) {
    if (lines->at != 0 || lines->filled != lines->size) return false;
    for (long got; (got = fh_read_next(lines->fd, lines->buffer, lines->size)) > 0;) {
        char *newline = memchr(lines->buffer, '\n', (size_t)got);
        if (!newline) continue;
        lines->at = (size_t)(newline - lines->buffer) + 1;
        lines->filled = (size_t)got;
        return true;
    }
    return false;
}

/* ── Numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

const char *fh_read_number(const char *text, uint64_t *number) {
    while (*text == ' ' || *text == '\t') text++;
    if (*text < '0' || *text > '9') return NULL;
    uint64_t n = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        n = n > (UINT64_MAX - digit) / 10 ? UINT64_MAX : n * 10 + digit;
    }
    *number = n;
    return text;
}

uint64_t fh_number_after(const char *text, const char *key) {
    uint64_t number = 0;
    const char *line = strstr(text, key);
    if (line) (void)fh_read_number(line + strlen(key), &number);
    return number;
}

unsigned fh_numbers_of(const char *path, const char *const keys[], unsigned n, uint64_t numbers[]) {
    char buffer[256];
    fh_lines lines;
    unsigned found = 0;
    for (unsigned i = 0; i < n; i++) numbers[i] = 0;
    if (!fh_lines_open(&lines, path, buffer, sizeof buffer)) return 0;
    while (found < n) {
        char *line = fh_lines_next(&lines);
        if (!line && skip_long(&lines)) continue;
        if (!line) break;
        for (unsigned i = 0; i < n; i++) {
            size_t length = strlen(keys[i]);
            if (strncmp(line, keys[i], length) == 0) found += fh_read_number(line + length, &numbers[i]) != NULL;
        }
    }
    fh_lines_close(&lines);
    return found;
}

uint64_t fh_number_in(const char *path, uint64_t otherwise) {
    char text[32];
    uint64_t number = otherwise;
    fh_read_file(path, text, sizeof text);
    (void)fh_read_number(text, &number);
    return number;
}
