#include "heap/valid.h"

#include "cache/observed.h"
#include "store/window.h"
#include "system/report.h"

uint64_t fh_heap_this_thread(void) {
    return (uint64_t)(uintptr_t)&fh_here;
}

bool fh_heap_is_mine(const fh_heap *h) {
    return !fh_heap_is_private(h) || fh_load(&h->thread) == fh_heap_this_thread();
}

bool fh_heap_exists(const fh_heap *h) {
    return h && fh_heap_word(h) == (uintptr_t)h && h->owned.kind == FH_OWNED_UNITS;
}

bool fh_heap_is_valid(const char *call, const fh_heap *h) {
    bool ours = fh_heap_exists(h) && (!FH_CHECKED || fh_heap_is_mine(h));
    if (FH_LIKELY(ours)) return true;
    fh_report_fault(FH_FAULT_FOREIGN, call, h, 0, 0);
    return false;
}
