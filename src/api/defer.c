/* The names of freehold/defer.h. */
#include "freehold/defer.h"

#include "api/calls.h"
#include "heap/defer.h"

#include "freehold/heap.h"

#include <string.h>

/* No hit: also large blocks, and those that are in no slab of their class. 0 bytes: it is no block, and that was reported. */
__attribute__((noinline)) static int defer_slowly(void *p) {
    unsigned c = fh_class_at(p);
    size_t bytes = c != FH_CLASS_SPECIAL ? fh_class_size(c) : p ? fh_call_usable_size(p) : 0;
    return !bytes || fh_defer(p, bytes);
}

/* The special class has size 0, which is no hit. The slot is compared here, so that the class needs no widening: one instruction. */
int fh_defer_free(void *p) {
    fh_deferring *d = &fh_own()->deferring;
    uintptr_t base = fh_window_base(), slot = ((uintptr_t)p - base) >> FH_SLOT_SHIFT;
    if (FH_UNLIKELY(slot >= d->slots)) return defer_slowly(p);
    size_t bytes = fh_class_size(fh_class_of_slot(base, slot, d->slots));
    return FH_LIKELY(fh_defer_hit(d, p, bytes)) ? 1 : defer_slowly(p);
}

void *fh_defer_realloc(void *p, size_t size) {
    if (FH_UNLIKELY(size == 0)) return fh_fail(EINVAL);
    if (!p) return fh_alloc(size);
    size_t old = fh_call_usable_size(p);
    if (!old) return fh_fail(EINVAL);
    /* As realloc: a block of a heap stays one. */
    fh_heap *heap = fh_heap_of(p);
    void *q = heap ? fh_heap_malloc(heap, size) : fh_alloc(size);
    if (!q) return NULL;
    memcpy(q, p, old < size ? old : size);
    if (fh_defer(p, old)) return q;
    int error = errno;
    fh_release(q);
    return fh_fail(error);
}

int fh_reader_register(const char *name) {
    return fh_reader_begin(name);
}

void fh_reader_unregister(void) {
    fh_reader_end();
}

void fh_quiescent(void) {
    fh_reader_pass();
}

void fh_reader_offline(void) {
    fh_reader_leave();
}

void fh_reader_online(void) {
    fh_reader_return();
}

void fh_safepoint(void) {
    fh_defer_safepoint();
}

size_t fh_defer_barrier(void) {
    return fh_defer_flush();
}

size_t fh_defer_backlog(void) {
    return fh_deferred_bytes();
}
