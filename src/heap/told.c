#include "heap/told.h"

#include <stdint.h>

static uint64_t *last_word(const void *p, size_t size) {
    return (uint64_t *)((uintptr_t)p + size) - 1; // NOLINT(performance-no-int-to-ptr)
}

static uint64_t mixed(const void *p, size_t n) {
    return (uint64_t)(uintptr_t)p << 16 ^ n;
}

static void write_down(void *p, size_t size, size_t n) {
    fh_tool_quiet();
    *last_word(p, size) = mixed(p, n);
    fh_tool_loud();
}

void fh_told_taken(void *p, size_t size, size_t n) {
    fh_tool_show(p, size);
    write_down(p, size, n);
    fh_tool_hide((char *)p + n, size - n);
    fh_tool_allocated(p, n, 0, false);
}

size_t fh_told_asked(const void *p, size_t size) {
    fh_tool_quiet();
    size_t most = size - FH_TOLD_ROOM, n = (size_t)(*last_word(p, size) ^ mixed(p, 0));
    if (n > most) n = most; /* an overrun has met it */
    fh_tool_loud();
    return n;
}

void fh_told_shrunk(void *p, size_t size, size_t n) {
    size_t old = fh_told_asked(p, size);
    write_down(p, size, n);
    fh_tool_resized(p, old, n, 0);
}

void fh_told_freed(const void *p, size_t size) {
    fh_tool_freed(p, fh_told_asked(p, size), 0);
    fh_tool_hide(p, size);
}

void fh_told_misfreed(const void *p) {
    fh_tool_quiet();
    fh_tool_misfreed(p);
    fh_tool_loud();
}
