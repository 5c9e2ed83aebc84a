/* realloc of a block of a heap: in place where it stays as good as it was, else by a copy within the heap. */
#include "base/hooks.h"
#include "cache/observed.h"
#include "heap/free.h"
#include "heap/take.h"
#include "system/report.h"

#include <errno.h>
#include <string.h>

void *fh_hook_heap_resize(void *p, size_t n) {
    size_t old = 0;
    bool clean;
    const fh_owned *o = fh_owned_at(p);
    void *begin = o ? fh_hook_heap_block(p, &old) : NULL;
    if (!o || begin != p) {
        fh_report_fault(begin ? FH_FAULT_INSIDE : FH_FAULT_DOUBLE_FREE, "realloc", p, (size_t)begin, old);
        errno = EINVAL;
        return NULL;
    }
    if (n <= old && (n > old / 2 || old <= 64)) {
        if (FH_UNLIKELY(fh_load(&o->heap->sampled) & fh_sampled_bit(p))) fh_hook_resized(p, n);
        return p;
    }
    void *q = fh_is_observing() ? fh_hook_heap_alloc(o->heap, FH_MIN_ALIGN, n, &clean)
                                : fh_heap_take(o->heap, FH_MIN_ALIGN, n, &clean);
    if (!q) return n <= old ? p : NULL;
    memcpy(q, p, n < old ? n : old);
    fh_heap_give("realloc", o, p);
    return q;
}
