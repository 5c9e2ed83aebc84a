/* Text into a buffer of the caller's: for messages from inside the allocator, where printf would allocate.
 * What does not fit is cut off. No function fails, allocates, or reads the locale. */
#ifndef FH_BASE_TEXT_H
#define FH_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/*     begin            at                  end
 *       │ written so far │ room left           │
 *     equation:  begin ≤ at ≤ end;  not terminated: the length is at − begin */
typedef struct {
    char *begin;
    char *at;
    char *end;
} fh_text;

static inline fh_text fh_text_in(char *buffer, size_t size) {
    return (fh_text){buffer, buffer, buffer + size};
}

static inline size_t fh_text_length(const fh_text *t) {
    return (size_t)(t->at - t->begin);
}

void fh_text_char(fh_text *t, char c);
void fh_text_string(fh_text *t, const char *s);
void fh_text_number(fh_text *t, uint64_t n); /* decimal */
void fh_text_hex(fh_text *t, uint64_t n);    /* 0x and lower-case digits, as printf's %p */
void fh_text_pointer(fh_text *t, const void *p);

/* Bytes for a person: "512 B", "4 KiB", "1.5 GiB"; one digit behind the point unless it is exact, rounded down. */
void fh_text_size(fh_text *t, uint64_t bytes);

/* Appends blanks until what was written since `start` (a length) is `width` wide; the second form moves it to the right. */
void fh_text_pad(fh_text *t, size_t start, size_t width);
void fh_text_align_right(fh_text *t, size_t start, size_t width);

#endif
