#include "misuse/watched.h"

#include "store/locate.h"

/* The store's block around it, even if the header was overwritten. */
static fh_place whole(const fh_checked *h) {
    return fh_locate(fh_checked_block(h));
}

static void hide_around(const fh_checked *h) {
    fh_place at = whole(h);
    const char *p = fh_checked_block(h), *behind = p + h->size, *begin = at.begin;
    fh_tool_hide(begin, (size_t)(p - begin));
    fh_tool_hide(behind, (size_t)(begin + at.size - behind));
}

void fh_watched_tell_allocated(const fh_checked *h, bool zeroed) {
    hide_around(h);
    fh_tool_allocated(fh_checked_block(h), h->size, sizeof *h, zeroed);
}

void fh_watched_tell_freed(const fh_checked *h) {
    fh_place at = whole(h);
    fh_tool_freed(fh_checked_block(h), h->size, sizeof *h);
    fh_tool_hide(at.begin, at.size);
}

void fh_watched_tell_left(const fh_checked *h) {
    fh_place at = whole(h);
    fh_tool_show(at.begin, at.size);
}

void fh_watched_resized(const fh_checked *h, size_t old, size_t n) {
    if (!fh_tool()) return;
    fh_tool_resized(fh_checked_block(h), old, n, sizeof *h);
    hide_around(h);
}

/* memcheck is not interested in what a quiet thread does, and would forget which bytes were written. */
void fh_watched_tell_open(const fh_checked *h) {
    fh_place at = whole(h);
    fh_tool_show(at.begin, at.size);
}

void fh_watched_close(const fh_checked *h) {
    if (fh_tool() != FH_TOOL_SANITIZER) return;
    if (fh_checked_kind_of(fh_load_acquire(&h->state)) == FH_CHECKED_LIVE) {
        hide_around(h);
    } else {
        fh_place at = whole(h);
        fh_tool_hide(at.begin, at.size);
    }
}
