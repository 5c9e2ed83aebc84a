/* The second seam: what only observation asks of the operating system (profile, stacks, scans, metrics, statistics).
 * A port that gives stubs for all of it has an allocator that works and cannot be observed: a stub says that there
 * is nothing (false, 0, NULL, FH_LOADER_SILENT, an error number).
 *
 * What system.h says about memory, blocking, threads and cancelling holds here too. errno is kept by all of it. */
#ifndef FH_SYSTEM_INSPECT_H
#define FH_SYSTEM_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ── Memory that may not be there ────────────────────────────────────────────────────────────────────────────────── */

/* Copies up to n bytes of this process's memory and returns how many could be read, from the first one on. The
 * kernel does it, so what is not mapped is an answer and no signal. About 150 ns. */
size_t fh_system_peek(void *to, uintptr_t from, size_t n);

/* True if each page from `from` to `to` can be read now. */
bool fh_system_readable(uintptr_t from, uintptr_t to);

/* An address in the upper end of the first thread's stack, above all its frames; 0 if it is not known. */
uintptr_t fh_system_first_stack(void);

/* The address of the calling thread's control block. The C libraries put it at the upper end of the stacks that they
 * make. */
uintptr_t fh_system_thread_block(void);

/* ── The list of mappings ────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    uintptr_t begin, end;
    bool readable, writable, executable, shared;
    uint64_t offset;  /* in its file */
    const char *path; /* terminated; "" if it has none. In the caller's buffer, until the next line is read */
} fh_mapping;

/* The list is read into a buffer of the caller's, aligned to 8. It has room for the longest line that there can
 * be. */
#define FH_MAPPINGS_BYTES ((size_t)8 * 1024 + 64)

typedef struct fh_mappings fh_mappings;

/* NULL: the list cannot be read. What is mapped and unmapped meanwhile may be in it or not. */
fh_mappings *fh_system_mappings_open(void *buffer, size_t size);
bool fh_system_mappings_next(fh_mappings *list, fh_mapping *next);

/* True if all of the list was read, to its end. */
bool fh_system_mappings_close(fh_mappings *list);

/* ── Images: files with code, as they are in memory ──────────────────────────────────────────────────────────────── */

#define FH_BUILD_ID_MOST 36u

typedef struct {
    uintptr_t start;        /* the address of the file's first byte */
    uintptr_t begin, end;   /* its executable part */
    uintptr_t bias;         /* address = bias + address in the file's symbol table */
    uintptr_t frames_index; /* the sorted index of its unwind information, 0: it has none */
    uintptr_t limit;        /* the end of all that is mapped of it */
    uintptr_t build_id_at;  /* where it is; 0: it has none */
    uint32_t build_id_bytes;
    uint8_t build_id[FH_BUILD_ID_MOST];
} fh_image;

/* Reads what the image that begins at `start` says about itself. False: there is none, or it is damaged. */
bool fh_system_image(uintptr_t start, fh_image *image);

/* Where the unwind information (.eh_frame) of an image without index is, out of its file. Some compilers link static
 * programs without an index. False: not to be found. */
bool fh_system_frames(const char *path, const fh_image *image, uintptr_t *begin, uintptr_t *end);

/* What the loader says about an address, without its lock. */
typedef enum {
    FH_LOADER_SILENT,  /* it gives no such service */
    FH_LOADER_UNKNOWN, /* it has loaded nothing there */
    FH_LOADER_KNOWN
} fh_loader_answer;

typedef struct {
    uintptr_t start;
    uintptr_t frames_index;
    uintptr_t record; /* the loader's own, for fh_system_loaded_path */
} fh_loaded;

fh_loader_answer fh_system_loaded(uintptr_t address, fh_loaded *answer);

/* True if it is there as long as the program runs: it was loaded before the program began, or is the loader itself.
 * Only for what is there for certain, or has just been found. */
bool fh_system_loaded_for_good(const fh_loaded *answer);

/* The path of what was found, terminated. False: it has none, as the program itself, or does not fit. */
bool fh_system_loaded_path(const fh_loaded *answer, char *path, size_t size);

/* True if the file with the address has a function of one of these names among its dynamic symbols, and the address is in it, if it
 * is to be `inside`. The last name is NULL. For reports: some ten calls of the kernel a name. */
bool fh_system_has_function(uintptr_t address, const char *const *names, bool inside);

/* True if the program itself (and not a library) is the image in this range. */
bool fh_system_is_program(uintptr_t begin, uintptr_t end);

/* ── Guards: pages that must not be touched ──────────────────────────────────────────────────────────────────────── */

/* Address space, of which the first `open` bytes are memory that reads as zero, and each touch of the others faults. NULL:
 * there is none. A port without guards says so, and guards nothing. */
void *fh_system_guards_reserve(size_t size, size_t open);
void fh_system_guards_drop(void *p, size_t size);

/* True if the kernel can mark single pages as guards, within one mapping (Linux 6.13 and later). Tries it on this page of
 * reserved space, which is as it was afterwards. */
bool fh_system_guards_can_mark(void *page);

/* Marks all these pages of reserved space. They are one mapping from then on, whichever of them are opened. */
bool fh_system_guards_mark(void *p, size_t size);

/* Makes guards memory that reads as zero; each such piece is a mapping of its own where there are no marks. And the other way
 * round: what the pages hold goes, and a touch faults. False: close left pages that must not be opened again. */
bool fh_system_guard_open(void *p, size_t size, bool marks);
bool fh_system_guard_close(void *p, size_t size, bool marks);

typedef enum { FH_TOUCH_UNKNOWN, FH_TOUCH_READ, FH_TOUCH_WRITE, FH_TOUCH_FETCH } fh_touch_access;

typedef struct {
    uintptr_t address; /* what was touched */
    uintptr_t pc;      /* the instruction that did; 0: not known */
    fh_touch_access access;
    unsigned signal;
} fh_touch;

/* From now on `look` is told of each touch that faults, in the signal handler of the thread that did. Then all is as it
 * would have been: the handler that the program had before is called, and without one the program ends by the same signal.
 * A handler that the program sets later takes this one's place. To be called once. */
bool fh_system_on_touch(bool (*look)(const fh_touch *touch));

/* ── A file in memory that this process writes and others read ───────────────────────────────────────────────────── */

/* Every piece of it is allocated in the file before it is mapped, so that a full file system is an answer (ENOSPC) and not a
 * signal at the first touch. The program may close all descriptors that there are, and open others under their numbers:
 * device and inode say whether the descriptor still is ours.
 *     equation:  length 0 in path ⇔ the file has no name (memfd), and no other process offers it */
typedef struct {
    int descriptor; /* closed on exec, out of the way of low numbers */
    uint64_t device, inode;
    bool offered; /* the path is another process's descriptor */
    char path[512];
} fh_shared_file;

/* Makes `directory`/`name`, readable and writable for the owner alone. A file of that name is removed first: it was
 * left by a dead process of the same number, or by this one before it called exec. Returns 0, or the kernel's error. */
int fh_shared_create(fh_shared_file *f, const char *directory, const char *name);

/* One without a name; others find it through /proc/PID/fd. */
int fh_shared_create_nameless(fh_shared_file *f, const char *name);

/* One without a name that another process made and holds: `path` is below its /proc/PID/fd. Anything else is refused. */
int fh_shared_open_nameless(fh_shared_file *f, const char *path, const char *name);

/* Zeroes in place of all that is in it; it stays as long as it is. */
void fh_shared_empty(const fh_shared_file *f);

/* Allocates `size` bytes of the file at `offset` (both whole pages) and maps them, zero. NULL: no room, and *error. */
void *fh_shared_extend(const fh_shared_file *f, uint64_t offset, size_t size, int *error);

/* The opposite, for a piece that turned out not to be needed. */
void fh_shared_shrink(const fh_shared_file *f, uint64_t offset, void *p, size_t size);

/* Removes the name, if the file of that name is still this one. What is mapped stays. */
void fh_shared_remove(const fh_shared_file *f);

/* Closes the file in the child of a fork, whose parent continues with it. */
void fh_shared_forget(fh_shared_file *f);

/* A text for an error number, for messages. */
const char *fh_system_error(int error);

/* Words that are zero again in the child of any fork, however it was made, also by a bare clone system call. NULL if
 * the OS has no such service. */
void *fh_system_map_wiped_on_fork(size_t size);

/* ── A file that is replaced as a whole ──────────────────────────────────────────────────────────────────────────── */

/* Readers find the old content or the new one, never a part. What is there and is not a file itself is never replaced: a
 * device is written to; a file behind a symbolic link, a pipe, a socket and a directory are left alone. */

#define FH_FILE_LONGEST 300 /* of a path, with its terminating zero */

typedef struct {
    int descriptor; /* to write to, with fh_system_write */
    bool is_beside; /* written beside, and then renamed */
    char path[FH_FILE_LONGEST];
    char beside[FH_FILE_LONGEST]; /* its name until it is complete: the path, the process's number, ".new" */
} fh_file;

/* Begins the file at `path`, in which each %p stands for the number of this process. It will have `length` bytes. False: it cannot be
 * made, or may not be so long. */
bool fh_file_begin(fh_file *f, const char *path, uint64_t length);

/* The file is complete, and replaces what was there; not so if the disk was full, and it has fewer bytes than that. */
void fh_file_end(fh_file *f, uint64_t length);

/* Appends to the file at `path` by one write, and makes it if it is not there. What cannot be written is lost. */
void fh_file_append(const char *path, const char *text, size_t length);

/* ── A frozen copy of this process ───────────────────────────────────────────────────────────────────────────────── */

/* Forks, and the program does not notice: nothing that it has registered for forks runs, its handlers of signals
 * never run in the copy, no signal comes when the copy ends, and a wait for any child does not see it. Returns the
 * copy's process number in the caller, 0 in the copy, and minus an error number if there is none.
 *
 * The copy has one thread, the caller's. It must not touch what libraries guard by locks (another thread may have
 * held one), and leaves by fh_snapshot_end. */
long fh_snapshot_fork(void);

/* In the copy: closes all files, so that a reader of a pipe does not wait for the copy; takes a lower priority than the
 * program; and is the first to go when memory is short. */
void fh_snapshot_settle(void);

_Noreturn void fh_snapshot_end(void);

/* In the caller, later: true if the copy has ended (or is not to be found); what the kernel kept of it is gone then.
 * Does not wait. */
bool fh_snapshot_ended(long process);

/* Makes a range readable, in the copy, where it may not have been. */
void fh_snapshot_make_readable(uintptr_t begin, uintptr_t end);

/* Which pages of a range of the copy have contents of their own: one byte a page, 1 or 0. At most `pages` are asked
 * about; returns for how many it is known, 0 if the kernel does not say. */
size_t fh_snapshot_contents(uintptr_t begin, size_t pages, unsigned char *has);

/* ── The process, and what it costs ──────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    uint64_t pid, parent_pid;
    uint64_t start;   /* when it began, on any clock: tells a number that is used again. 0: unknown */
    uint64_t unix_ns; /* the time of day */
} fh_process;

fh_process fh_system_process(void);

/* The program's file, terminated; empty if the kernel does not say. */
void fh_system_program(char *path, size_t size);

/* The beginning of the command line: its words, each terminated; one empty word if the kernel does not say. */
void fh_system_command(char *words, size_t size);

/* The kernel's number of the calling thread. */
uint32_t fh_system_thread_number(void);

/* Bytes of memory that the process has in use, all of it and not only the heap; 0 if the kernel does not say. */
size_t fh_system_resident_bytes(void);

/* How often the functions of system.h have asked the kernel so far: for mappings and for leave to write to them, for
 * their end, and to purge pages; and the bytes of the last. The child of a fork continues from its parent's numbers. */
typedef struct {
    uint64_t maps, unmaps, purges, purged_bytes;
} fh_system_calls;
fh_system_calls fh_system_calls_made(void);

/* Output for the very end of a process, when the program may have closed its own descriptor. keep makes a second one
 * for the same file, closed on exec; to be called once, when the process starts. kept returns it, or `fd` if there
 * is none or the program has closed or reused it. */
void fh_system_keep_output(int fd);
int fh_system_kept_output(int fd);

#endif
