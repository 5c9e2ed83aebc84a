#include "observe/output.h"

#include "system/system.h"

#include <string.h>

fh_output fh_output_to_buffer(char *buffer, size_t size) {
    if (size > 0) buffer[0] = 0;
    return (fh_output){.buffer = buffer, .size = size, .fd = -1};
}

fh_output fh_output_to_file(int fd, char *buffer, size_t size) {
    return (fh_output){.buffer = buffer, .size = size, .fd = fd};
}

void fh_output_end(fh_output *out) {
    if (out->fd >= 0) fh_system_write(out->fd, out->buffer, out->held);
    out->held = 0;
}

static void into_buffer(const fh_output *out, const char *bytes, size_t count) {
    if (out->length + 1 >= out->size) return;
    size_t room = out->size - 1 - out->length, fits = count < room ? count : room;
    memcpy(out->buffer + out->length, bytes, fits);
    out->buffer[out->length + fits] = 0;
}

static void into_file(fh_output *out, const char *bytes, size_t count) {
    while (count > 0) {
        size_t room = out->size - out->held, fits = count < room ? count : room;
        memcpy(out->buffer + out->held, bytes, fits);
        out->held += fits;
        bytes += fits;
        count -= fits;
        if (out->held == out->size) fh_output_end(out);
    }
}

static void put_bytes(fh_output *out, const char *bytes, size_t count) {
    if (out->fd >= 0) {
        into_file(out, bytes, count);
    } else {
        into_buffer(out, bytes, count);
    }
    out->length += count;
}

void fh_put(fh_output *out, const char *s) {
    put_bytes(out, s, strlen(s));
}

void fh_put_number(fh_output *out, uint64_t n) {
    char digits[20]; /* of 2^64 */
    fh_text t = fh_text_in(digits, sizeof digits);
    fh_text_number(&t, n);
    put_bytes(out, digits, fh_text_length(&t));
}
