/* realloc of a block of a heap: in place where it stays as good as it was, else by a copy within the heap. */
#include "base/hooks.h"
#include "cache/cache.h"
#include "cache/observed.h"
#include "heap/free.h"
#include "heap/take.h"
#include "heap/told.h"
#include "heap/use.h"
#include "system/report.h"

#include <errno.h>
#include <string.h>

static void *in_place(const fh_heap *h, void *p, size_t n) {
    size_t size;
    if (FH_UNLIKELY(fh_load(&h->sampled) & fh_sampled_bit(p))) fh_hook_resized(p, n);
    if (fh_heap_keeps_sizes(h) && fh_heap_block(p, &size) == p) fh_told_resized(h, p, size, n);
    return p;
}

/* True if a block for `old` bytes stays with n. A block of a heap that keeps sizes has more room than was asked for, and it is that
 * room which counts: else a block that shrinks a little each time would keep all of it. */
static bool stays(const fh_heap *h, const void *p, size_t old, size_t n) {
    size_t size = old, more = 0;
    if (n > FH_WINDOW_SIZE) return false;
    if (fh_heap_keeps_sizes(h) && !fh_heap_is_told(h) && fh_heap_block(p, &size) == p) more = FH_TOLD_ROOM;
    return n + more <= size && (n + more > size / 2 || size <= 64);
}

static void *resize(const fh_owned *o, void *p, size_t n) {
    size_t old = 0;
    bool clean;
    void *begin = o ? fh_hook_heap_block(p, &old) : NULL;
    if (!o || begin != p) {
        fh_told_misfreed(p);
        fh_report_fault(begin ? FH_FAULT_INSIDE : FH_FAULT_DOUBLE_FREE, "realloc", p, (size_t)begin, old);
        errno = EINVAL;
        return NULL;
    }
    if (stays(o->heap, p, old, n)) return in_place(o->heap, p, n);
    void *q = fh_is_observing() ? fh_hook_heap_alloc(o->heap, FH_MIN_ALIGN, n, &clean)
                                : fh_heap_take(o->heap, FH_MIN_ALIGN, n, &clean);
    if (!q && n > old) return NULL;
    if (!q && FH_CHECKED) fh_store(&fh_shrink_refused, 1);
    if (!q) return in_place(o->heap, p, n);
    memcpy(q, p, n < old ? n : old);
    fh_heap_give("realloc", o, p);
    return q;
}

void *fh_hook_heap_resize(void *p, size_t n) {
    const fh_owned *o = fh_owned_at(p);
    if (!FH_CHECKED || !o) return resize(o, p, n);
    fh_word *use = fh_use_begin_block("realloc", p, o);
    if (!use) {
        errno = EINVAL;
        return NULL;
    }
    void *q = resize(o, p, n);
    fh_use_end(use);
    return q;
}
