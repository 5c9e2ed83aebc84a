/* A file that others read while it is written anew: they find the old content or the new one, never a part. Nothing here
 * allocates; errno is kept. */
#ifndef FH_SYSTEM_FILE_H
#define FH_SYSTEM_FILE_H

#include <stdbool.h>
#include <stdint.h>

#define FH_FILE_LONGEST 300 /* of a path, with its terminating zero */

typedef struct {
    int descriptor; /* to write to, with fh_system_write */
    char path[FH_FILE_LONGEST];
    char beside[FH_FILE_LONGEST]; /* its name until it is complete: the path, the process's number, ".new" */
} fh_file;

/* Begins the file at `path`, in which each %p stands for the number of this process. False: it cannot be made. */
bool fh_file_begin(fh_file *f, const char *path);

/* The file is complete, and takes the place of what was there. */
void fh_file_end(fh_file *f);

/* The number of this process. */
uint64_t fh_system_pid(void);

#endif
