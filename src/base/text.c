#include "base/text.h"

#include <stdbool.h>
#include <string.h>

void fh_text_char(fh_text *t, char c) {
    if (t->at < t->end) *t->at++ = c;
}

void fh_text_string(fh_text *t, const char *s) {
    while (*s) fh_text_char(t, *s++);
}

/* The digits come out last first, so they are collected at the end of a small buffer. 2^64 has 20 of them. */
static void number_in(fh_text *t, uint64_t n, unsigned base) {
    char digits[20];
    char *first = digits + sizeof digits;
    do {
        *--first = "0123456789abcdef"[n % base];
        n /= base;
    } while (n > 0);
    while (first < digits + sizeof digits) fh_text_char(t, *first++);
}

void fh_text_number(fh_text *t, uint64_t n) {
    number_in(t, n, 10);
}

void fh_text_hex(fh_text *t, uint64_t n) {
    fh_text_string(t, "0x");
    number_in(t, n, 16);
}

void fh_text_pointer(fh_text *t, const void *p) {
    fh_text_hex(t, (uintptr_t)p);
}

void fh_text_size(fh_text *t, uint64_t bytes) {
    static const char *const units[] = {" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    if (bytes < 1024) {
        number_in(t, bytes, 10);
        fh_text_string(t, " B");
        return;
    }
    unsigned unit = 0;
    bool exact = bytes % 1024 == 0;
    uint64_t rest = bytes % 1024; /* below the unit, in 1/1024 of it */
    for (bytes /= 1024; bytes >= 1024; bytes /= 1024) {
        rest = bytes % 1024;
        exact = exact && rest == 0;
        unit++;
    }
    number_in(t, bytes, 10);
    if (!exact) {
        fh_text_char(t, '.');
        number_in(t, rest * 10 / 1024, 10);
    }
    fh_text_string(t, units[unit]);
}

void fh_text_pad(fh_text *t, size_t start, size_t width) {
    while (fh_text_length(t) - start < width && t->at < t->end) *t->at++ = ' ';
}

void fh_text_align_right(fh_text *t, size_t start, size_t width) {
    size_t have = fh_text_length(t) - start;
    if (have >= width) return;
    size_t shift = width - have;
    if ((size_t)(t->end - t->at) < shift) return;
    memmove(t->begin + start + shift, t->begin + start, have);
    memset(t->begin + start, ' ', shift);
    t->at += shift;
}
