#include "heap/valid.h"

#include "base/assert.h"
#include "cache/observed.h"
#include "cache/thread.h"
#include "store/window.h"
#include "system/report.h"

/* The process's generation is above an address. */
#define ADDRESS_BITS 48u

uint64_t fh_heap_this_thread(void) {
    return (uint64_t)(uintptr_t)&fh_here;
}

uint64_t fh_heap_owner(void) {
    return fh_thread_generation() << ADDRESS_BITS | fh_heap_this_thread();
}

bool fh_heap_is_mine(const fh_heap *h) {
    if (!fh_heap_is_private(h)) return true;
    uint64_t thread = fh_load(&h->thread);
    return thread == fh_heap_owner() || thread >> ADDRESS_BITS != fh_heap_owner() >> ADDRESS_BITS;
}

/* True if h is a heap, or the header of one that was destroyed: that is kept in checked builds. */
static bool is_header(const fh_heap *h) {
    return h && fh_heap_word(h) == (uintptr_t)h && h->owned.kind == FH_OWNED_UNITS;
}

bool fh_heap_exists(const fh_heap *h) {
    return is_header(h) && !fh_heap_is_over(h);
}

bool fh_heap_is_valid(const char *call, const fh_heap *h) {
    bool ours = fh_heap_exists(h) && (!FH_CHECKED || fh_heap_is_mine(h));
    if (FH_LIKELY(ours)) return true;
    bool over = is_header(h) && fh_heap_is_over(h);
    fh_report_fault(over ? FH_FAULT_HEAP_OVER : FH_FAULT_FOREIGN, call, h, over ? (size_t)h->name : 0, 0);
    return false;
}
