#include "misuse/heap.h"

#include "base/classes.h"
#include "cache/observed.h"
#include "check/verify.h"
#include "observe/class_use.h"
#include "store/holes.h"
#include "store/large.h"
#include "store/window.h"
#include "system/inspect.h"
#include "system/system.h"
#include "system/tools.h"

#include <errno.h>
#include <string.h>

typedef struct {
    void (*say)(const fh_misuse_report *r);
    void (*live)(uint32_t stack, size_t size); /* NULL: they are only looked at */
    size_t found;
    bool alone; /* memory cannot go while it is read */
} walk;

/* ── One block ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Where another thread may return the memory at any moment, the kernel reads it. */
static bool read_at(const walk *w, void *to, const void *from, size_t n) {
    if (!w->alone) return fh_system_peek(to, (uintptr_t)from, n) == n;
    memcpy(to, from, n);
    return true;
}

static bool is_whole(const fh_checked *copy, const void *at) {
    return copy->canary == fh_checked_canary(at);
}

static void tell(walk *w, fh_misuse what, const fh_checked *h, const char *at) {
    w->found++;
    w->say(&(fh_misuse_report){
        .what = what, .found = "found by a check of the heap", .p = fh_checked_block(h), .h = h, .at = at});
}

static void see(walk *w, const char *begin, size_t size) {
    fh_checked copy;
    unsigned char guard[FH_GUARD_LEAST + FH_MIN_ALIGN];
    const fh_checked *h = (const fh_checked *)(const void *)begin;
    uint64_t state;
    if (size < sizeof copy + FH_GUARD_LEAST || !read_at(w, &copy, h, sizeof copy)) return;
    if (is_whole(&copy, h) && fh_checked_kind_of(fh_load(&copy.state)) == FH_CHECKED_MARKER) {
        if (copy.size % FH_MIN_ALIGN || copy.size > size - sizeof copy) return;
        h = (const fh_checked *)(const void *)(begin + copy.size);
        if (!read_at(w, &copy, h, sizeof copy)) return;
    }
    if (!is_whole(&copy, h)) {
        if (!w->live && fh_checked_was_header(&copy)) tell(w, FH_MISUSE_BEFORE, h, fh_checked_before(h));
        return;
    }
    state = fh_load(&copy.state);
    /* With other threads the copy may be of two moments. */
    if (w->alone && !w->live && fh_checked_is_written_live(&copy, state)) tell(w, FH_MISUSE_BEFORE, h, NULL);
    if (fh_checked_kind_of(state) != FH_CHECKED_LIVE || !fh_checked_is_sealed(&copy, state) || copy.size >= size)
        return;
    if (w->live) {
        w->live(copy.allocated, copy.size);
        return;
    }
    const char *behind = fh_checked_block(h) + copy.size;
    size_t n = fh_checked_guard(copy.size), i = 0;
    if (!read_at(w, guard, behind, n)) return;
    while (i < n && guard[i] == FH_GUARD_BYTE) i++;
    if (i == n || !read_at(w, &copy, h, sizeof copy)) return;
    /* The same block still, or what was read was another one's. */
    if (fh_load(&copy.state) == state && copy.size == (size_t)(behind - fh_checked_block(h)))
        tell(w, FH_MISUSE_BEHIND, h, behind + i);
}

/* ── All of them ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static void see_slab(walk *w, size_t slot, uint64_t state) {
    unsigned c = fh_state_class(state), bump = fh_state_bump(state);
    const fh_slab *slab = fh_slab_at(slot);
    bool borrowed = fh_state_kind(state) == FH_CLASS_BORROWED;
    for (unsigned i = 0; i < bump; i++) {
        if (fh_load(&slab->free[i / 64]) >> i % 64 & 1) continue;
        if (borrowed && fh_holes_is_joined(slab, i)) continue;
        size_t parts = borrowed ? fh_holes_parts(slab, i) : 1;
        see(w, fh_slot_address(slot) + i * fh_class_size(c), fh_class_size(c) * parts);
    }
}

static size_t see_all(walk w) {
    uint64_t state;
    w.alone = fh_system_threads() == 1 && !fh_tool(); /* the kernel may read what is hidden */
    for (size_t slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE; slot++) {
        unsigned kind = fh_state_kind(state);
        size_t size, slots;
        if (kind == FH_KIND_RUN || kind == FH_CLASS_EDGE) {
            const char *begin = fh_large_in(slot, &size, &slots);
            if (begin) see(&w, begin, size);
        } else if (fh_state_class(state) < FH_CLASSES &&
                   fh_statistics_use(fh_state_class(state)) != FH_PROFILE_USE_OWN) {
            see_slab(&w, slot, state);
        }
    }
    return w.found;
}

size_t fh_heap_check_all(void (*say)(const fh_misuse_report *r)) {
    return see_all((walk){.say = say});
}

void fh_heap_each_live(void (*each)(uint32_t stack, size_t size)) {
    (void)see_all((walk){.live = each});
}

size_t fh_heap_check_tell(void) {
    int saved = errno;
    fh_tool_quiet();
    size_t found = fh_is_checking() ? fh_heap_check_all(fh_misuse_tell) : 0;
    fh_tool_loud();
    errno = saved;
    return found;
}

/* ── check=2 ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

void fh_misuse_check_edge(void) {
    int saved = errno;
    if (fh_check_edge()) (void)fh_heap_check_all(fh_misuse_say);
    errno = saved;
}
