#include "misuse/block.h"

#include "store/locate.h"

#include <string.h>

uint64_t fh_checked_secret;

/* ── Finding the header ──────────────────────────────────────────────────────────────────────────────────────────── */

fh_checked *fh_checked_at_slowly(const void *p) {
    uintptr_t address = (uintptr_t)p;
    if (!fh_in_window(p) || address % FH_MIN_ALIGN) return NULL;
    fh_checked *h = (fh_checked *)(address - sizeof *h); // NOLINT(performance-no-int-to-ptr)
    fh_place at = fh_locate(p);
    if (!at.begin || (uintptr_t)at.begin > (uintptr_t)h) return NULL;
    return fh_checked_is_header(h) ? h : NULL;
}

const fh_checked *fh_checked_header_in(const void *begin, size_t size) {
    const fh_checked *h = begin;
    if (size < sizeof *h + FH_GUARD_LEAST) return NULL;
    /* acquire: the rest of the header is before it. */
    if (!fh_checked_is_header(h) || fh_checked_kind_of(fh_load_acquire(&h->state)) != FH_CHECKED_MARKER) return h;
    size_t offset = h->size;
    if (offset % FH_MIN_ALIGN || offset > size - sizeof *h) return NULL;
    return (const fh_checked *)((uintptr_t)begin + offset); // NOLINT(performance-no-int-to-ptr)
}

fh_checked *fh_checked_in(const void *begin, size_t size) {
    const fh_checked *h = fh_checked_header_in(begin, size);
    return h && fh_checked_is_header(h) ? (fh_checked *)(uintptr_t)h : NULL;
}

fh_checked *fh_checked_around(const void *p) {
    fh_place at = fh_locate(p);
    if (!at.begin || at.size == 0) return NULL;
    return fh_checked_in(at.begin, at.size);
}

bool fh_checked_was_header(const fh_checked *h) {
    uint64_t s = fh_load(&h->state);
    return fh_checked_kind_of(s) == FH_CHECKED_LIVE && fh_checked_family_of(s) <= FH_SAYS_FAMILY &&
           fh_checked_is_sealed(h, s);
}

bool fh_checked_is_written_live(const fh_checked *h, uint64_t state) {
    unsigned align_log = fh_checked_align_of(state);
    bool of_live = fh_checked_kind_of(state) == FH_CHECKED_LIVE && fh_checked_family_of(state) <= FH_SAYS_FAMILY &&
                   align_log >= 4 && align_log < 48 && (state & ~FH_CHECKED_ROUNDED) >> 24 == 0;
    return of_live && !fh_checked_is_sealed(h, state);
}

bool fh_checked_is_written_state(const fh_checked *h, uint64_t state) {
    fh_checked_kind kind = fh_checked_kind_of(state);
    bool known =
        kind == FH_CHECKED_LIVE || kind == FH_CHECKED_FREED || kind == FH_CHECKED_GONE || kind == FH_CHECKED_MARKER;
    /* The alignment was in the state too. */
    uint32_t align_log = h->seal ^ fh_checked_seal_of(h->size, h->allocated, 0);
    return !known && align_log < 48;
}

const char *fh_checked_before(const fh_checked *h) {
    uint64_t canary = fh_checked_canary(h);
    const char *is = (const char *)&h->canary, *should = (const char *)&canary;
    size_t i = sizeof canary - 1;
    while (i > 0 && is[i] == should[i]) i--;
    return is + i;
}

/* ── Fill ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_checked_fill_long(char *p, size_t n, int byte) {
    if (n <= FH_FILL_WHOLE) {
        memset(p, byte, n);
    } else {
        memset(p, byte, FH_FILL_END);
        memset(p + n - FH_FILL_END, byte, FH_FILL_END);
    }
}

static size_t changed_in(const char *p, size_t from, size_t to, int byte) {
    size_t n = to - from;
    /* All are equal if the first is right and each equals the next one: this way the C library's loop does the work. */
    if (n == 0 || ((unsigned char)p[from] == (unsigned char)byte && memcmp(p + from, p + from + 1, n - 1) == 0))
        return to;
    while (from < to && (unsigned char)p[from] == (unsigned char)byte) from++;
    return from;
}

size_t fh_checked_changed(const char *p, size_t n, int byte) {
    if (n <= FH_FILL_WHOLE) return changed_in(p, 0, n, byte);
    size_t at = changed_in(p, 0, FH_FILL_END, byte);
    return at < FH_FILL_END ? at : changed_in(p, n - FH_FILL_END, n, byte);
}

fh_damage fh_checked_damage(const fh_checked *h, bool freed, const char **at) {
    const char *p = fh_checked_block(h);
    uint64_t state = fh_load(&h->state);
    size_t guard = fh_checked_guard(h->size), where;
    if (!fh_checked_is_header(h)) {
        *at = fh_checked_before(h);
        return FH_DAMAGE_BEFORE;
    }
    if (!fh_checked_is_sealed(h, state) || (freed && fh_checked_kind_of(state) != FH_CHECKED_FREED)) {
        *at = NULL;
        return FH_DAMAGE_BEFORE;
    }
    if (freed && (where = fh_checked_changed(p, h->size, FH_FREED_BYTE)) < h->size) {
        *at = p + where;
        return FH_DAMAGE_INSIDE;
    }
    if ((where = changed_in(p, h->size, h->size + guard, FH_GUARD_BYTE)) < h->size + guard) {
        *at = p + where;
        return FH_DAMAGE_BEHIND;
    }
    return FH_DAMAGE_NONE;
}
