#include "heap/told.h"

#include <stdint.h>

static uint64_t *last_word(const void *p, size_t size) {
    return (uint64_t *)((uintptr_t)p + size) - 1; // NOLINT(performance-no-int-to-ptr)
}

static uint64_t mixed(const void *p, size_t n) {
    return (uint64_t)(uintptr_t)p << 16 ^ n;
}

static void write_down(const fh_heap *h, void *p, size_t size, size_t n) {
    if (fh_heap_is_told(h)) fh_tool_quiet();
    *last_word(p, size) = mixed(p, n);
    if (fh_heap_is_told(h)) fh_tool_loud();
}

void fh_told_taken(const fh_heap *h, void *p, size_t size, size_t n) {
    if (fh_heap_is_told(h)) fh_tool_show(p, size);
    write_down(h, p, size, n);
    if (!fh_heap_is_told(h)) return;
    fh_tool_hide((char *)p + n, size - n);
    fh_tool_allocated(p, n, 0, false);
}

/* Where another thread is just taking the block, the word is not written yet, or is what the program has written before: what it says
 * then is no more than the block has. */
__attribute__((no_sanitize("thread"))) size_t fh_told_asked(const void *p, size_t size) {
    bool watched = fh_tool() != FH_TOOL_NONE;
    if (watched) fh_tool_quiet();
    size_t most = size - FH_TOLD_ROOM, n = (size_t)(*last_word(p, size) ^ mixed(p, 0));
    if (n > most) n = most; /* an overrun has met it */
    if (watched) fh_tool_loud();
    return n;
}

void fh_told_resized(const fh_heap *h, void *p, size_t size, size_t n) {
    size_t old = fh_told_asked(p, size);
    write_down(h, p, size, n);
    if (fh_heap_is_told(h)) fh_tool_resized(p, old, n, 0);
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
