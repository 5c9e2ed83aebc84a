/* A file in memory that this process writes and others read while it runs: what the observer's page lies in.
 *
 * Every piece of it is allocated in the file before it is mapped, so that a full file system is an answer (ENOSPC) and
 * not a signal at the first touch. Nothing here allocates; what may block is only the kernel itself. errno is kept. */
#ifndef FH_SYSTEM_SHARED_H
#define FH_SYSTEM_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*     equation:  length 0 in path ⇔ the file has no name (memfd)
 * The descriptor may be closed behind our back by a program that closes all there are, and its number given to another
 * file: device and inode say whether it still is ours. */
typedef struct {
    int descriptor; /* closed on exec, out of the way of low numbers */
    uint64_t device, inode;
    char path[512];
} fh_shared_file;

/* Makes `folder`/`name`, readable and writable for the owner alone. A file of that name is removed first: it was left by
 * a dead process of the same number, or by this one before it called exec. Returns 0, or the system's error. */
int fh_shared_create(fh_shared_file *f, const char *folder, const char *name);

/* One without a name; others find it through /proc/PID/fd. */
int fh_shared_create_nameless(fh_shared_file *f, const char *name);

/* Allocates `size` bytes of the file at `offset` (both whole pages) and maps them, zero. NULL: no room, and *error. */
void *fh_shared_extend(const fh_shared_file *f, uint64_t offset, size_t size, int *error);

/* The opposite, for a piece that turned out not to be needed. */
void fh_shared_shrink(const fh_shared_file *f, uint64_t offset, void *p, size_t size);

/* Removes the name, if the file of that name is still this one. What is mapped stays. */
void fh_shared_remove(const fh_shared_file *f);

/* Lets go of the file in the child of a fork: the parent's is none of its business. */
void fh_shared_forget(fh_shared_file *f);

/* Words that are zero again in the child of any fork, however it was made, also by a bare clone system call. NULL if the
 * system has no such service. */
void *fh_system_map_wiped_on_fork(size_t size);

/* ── Who this process is ─────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    uint64_t pid, parent_pid;
    uint64_t
        start; /* in ticks since boot, as field 22 of /proc/PID/stat: tells a number that is used again. 0: unknown */
    uint64_t unix_ns; /* the time of day */
} fh_process;

fh_process fh_system_process(void);

/* The program's file, terminated; empty if the system does not say. */
void fh_system_program(char *path, size_t size);

/* The system's number of the calling thread. */
uint32_t fh_system_thread_number(void);

/* A text for an error number, for messages. */
const char *fh_system_error(int error);

#endif
