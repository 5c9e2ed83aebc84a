#include "heap/claim.h"

#include "base/classes.h"
#include "cache/alloc.h"
#include "heap/quota.h"
#include "heap/span.h"
#include "store/large.h"
#include "store/window.h"
#include "system/system.h"

bool fh_heap_charge(fh_heap *h, size_t bytes, fh_heap **full) {
    fh_quota_passed passed;
    *full = fh_quota_charge(h, bytes, &passed);
    if (*full) return false;
    fh_quota_tell(h, bytes, passed);
    /* Near a limit no thread keeps blocks (stripes.h). */
    if (fh_load(&h->striped) && !fh_quota_has_room(h, FH_STRIPES_ROOM)) fh_store(&h->striped, 0);
    return true;
}

void *fh_heap_claim(fh_heap *h, size_t align, size_t n, size_t charged, bool *clean, fh_heap **full) {
    if (!fh_heap_charge(h, charged, full)) return NULL;
    bool spans = fh_heap_has_spans(h);
    void *p = spans ? fh_spans_claim(h, align, n, clean, full) : fh_alloc_special(align, n, clean);
    if (FH_UNLIKELY(p && h->flags & FH_HEAP_IS_POPULATED && !fh_system_populate(p, n))) {
        spans ? fh_spans_release(h, p, n) : (void)fh_large_free(p);
        p = NULL;
    }
    if (!p) {
        fh_quota_return(h, charged);
        return NULL;
    }
    fh_class_set(fh_slot_of(p), FH_CLASS_SPECIAL); /* to free it is nothing that a magazine holds */
    return p;
}

void fh_heap_drop_slot(fh_heap *h, void *slot) {
    fh_store(&fh_slab_at(fh_slot_of(slot))->heap, 0);
    fh_heap_has_spans(h) ? fh_spans_release(h, slot, FH_SLOT_SIZE) : (void)fh_large_free(slot);
    fh_quota_return(h, FH_SLOT_SIZE);
}
