#include "misuse/guard_place.h"

#include "store/guarded.h"
#include "system/system.h"

#include <stdbool.h>

#define SLOT_LEAST ((size_t)64 * FH_KIB)

size_t fh_guard_slot_size(void) {
    size_t page = fh_system_page_size();
    return page > SLOT_LEAST ? page : SLOT_LEAST;
}

size_t fh_guard_pitch(void) {
    return fh_guard_slot_size() + fh_system_page_size();
}

static uintptr_t first_slot(void) {
    return (uintptr_t)fh_load(&fh_guarded.begin) + fh_system_page_size();
}

char *fh_guard_slot_address(unsigned slot) {
    return (char *)(first_slot() + slot * fh_guard_pitch()); // NOLINT(performance-no-int-to-ptr)
}

unsigned fh_guard_slot_of(uintptr_t address) {
    uintptr_t first = first_slot();
    return address < first ? FH_GUARD_NONE : (unsigned)((address - first) / fh_guard_pitch());
}

/* What is known of the block of a slot; false: nothing. */
static bool look(unsigned slot, fh_guard_view *view) {
    if (slot >= fh_guard_fresh()) return false; /* FH_GUARD_NONE too */
    *view = fh_guard_look(slot);
    return view->kind == FH_GUARD_LIVE || view->kind == FH_GUARD_FREED;
}

fh_guard_side fh_guard_find(uintptr_t address, fh_guard_view *view) {
    unsigned slot = fh_guard_slot_of(address);
    fh_guard_view next;
    bool here = look(slot, view);
    if (here && address - view->block < view->size) return FH_GUARD_INSIDE;
    /* In the guard between two slots: the block that is nearer. */
    uintptr_t end = (uintptr_t)fh_guard_slot_address(slot + 1) - fh_system_page_size();
    if (address >= end && look(slot + 1, &next) &&
        (!here || next.block - address <= address - (view->block + view->size))) {
        *view = next;
        return FH_GUARD_BEFORE;
    }
    if (!here) return FH_GUARD_NO_BLOCK;
    return address < view->block ? FH_GUARD_BEFORE : FH_GUARD_BEHIND;
}
