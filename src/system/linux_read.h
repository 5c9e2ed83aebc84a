/* Linux: the one reader of the kernel's files (/proc, /sys, control groups) and of images, and what all of system/ asks of files. Nothing allocates: texts are
 * read into buffers of the caller's. No cancellation points. errno is kept where nothing else is said.
 *
 * The buffers are small, because malloc reads such files in a program's coroutine of 8 KiB too (life.small_stack). */
#ifndef FH_SYSTEM_LINUX_READ_H
#define FH_SYSTEM_LINUX_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* openat, for all of system/: the descriptor, closed on exec; below 0 with errno: there is none. EPERM once the program has
 * sandboxed itself (fh_system_restrict). */
int fh_open_file(const char *path, int flags, int mode);

/* The same to read, and errno is kept. */
int fh_read_open(const char *path);
void fh_read_close(int fd);

/* The next bytes of the file, n at most: their number, 0 at its end, below 0 after an error. */
long fh_read_next(int fd, void *to, size_t n);

/* Up to n bytes at that offset; their number, 0 also for a descriptor that is none. */
size_t fh_read_at(int fd, void *to, size_t n, uint64_t offset);

/* True if no file of this process may be so long. One that writes beyond that limit is ended by a signal, and not told by an error. */
bool fh_is_too_long(uint64_t bytes);

/* The beginning of a small file, terminated. Returns its length, 0 if there is no such file; the text is empty then. */
size_t fh_read_file(const char *path, char *text, size_t size);

/* ── Lines ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A file that may be longer than its buffer, line by line.
 *     equation:  buffer[at] … buffer[filled − 1] is read from the file and not returned yet */
typedef struct {
    int fd;
    char *buffer;
    size_t size, at, filled;
    bool complete; /* all lines were returned, to the last */
} fh_lines;

bool fh_lines_open(fh_lines *lines, const char *path, char *buffer, size_t size);

/* The next line, terminated, in the buffer until the next call. NULL: the end, an error, or a line longer than the
 * buffer. */
char *fh_lines_next(fh_lines *lines);
void fh_lines_close(fh_lines *lines);

/* ── Numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The decimal number that a text begins with, after blanks; one that does not fit is UINT64_MAX. Returns what
 * follows it, or NULL: the text begins with something else. */
const char *fh_read_number(const char *text, uint64_t *number);

/* The number after a key, which may be anywhere in the text: "\nVmSize:" and "VmSize:" are different keys. 0: there
 * is none. */
uint64_t fh_number_after(const char *text, const char *key);

/* The numbers behind the keys, with which lines of the file begin; 0 for a key without a line. The file and its lines may be of any
 * length. Returns how many were found. */
unsigned fh_numbers_of(const char *path, const char *const keys[], unsigned n, uint64_t numbers[]);

/* The number in a file that holds nothing else; `otherwise` if there is none, or a word. */
uint64_t fh_number_in(const char *path, uint64_t otherwise);

#endif
