/* Where text goes that is longer than one would put on a stack: into a buffer of the caller's, of which it may be too
 * large, or piece by piece into a file. Nothing allocates. */
#ifndef FH_OBSERVE_OUTPUT_H
#define FH_OBSERVE_OUTPUT_H

#include "base/text.h"

#include <stdbool.h>

/*     equation:  length = bytes put so far, be there room for them or not
 *     into a buffer:  the first min(length, size − 1) bytes are in it, and a zero behind them
 *     into a file:    what is not written yet is in the buffer */
typedef struct {
    char *buffer;
    size_t size;
    size_t length;
    size_t held; /* into a file only */
    int fd;      /* −1: into the buffer */
} fh_output;

/* A buffer that may be of 0 bytes: then only the length is found out. */
fh_output fh_output_to_buffer(char *buffer, size_t size);

/* A file, by way of a buffer that lives as long. fh_output_end writes the rest. */
fh_output fh_output_to_file(int fd, char *buffer, size_t size);
void fh_output_end(fh_output *out);

void fh_put(fh_output *out, const char *s);
void fh_put_number(fh_output *out, uint64_t n);

#endif
