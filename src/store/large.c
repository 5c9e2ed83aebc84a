#include "store/large.h"

#include "base/assert.h"
#include "base/classes.h"
#include "store/chunk.h"
#include "store/window.h"
#include "system/report.h"

static unsigned slots_of(size_t size) {
    return (unsigned)((size + FH_SLOT_SIZE - 1) >> FH_SLOT_SHIFT);
}

/* Says what a run's first slot is. Up to 16 slots it has a class, so that free puts it into a magazine. */
static void label(size_t slot, unsigned n) {
    FH_ASSERT(n >= 1 && n <= FH_RUN_MAX_SLOTS && slot % FH_CHUNK_SLOTS + n <= FH_CHUNK_SLOTS);
    fh_class_set(slot, n <= FH_RUN_CACHED_MAX / FH_SLOT_SIZE && n >= 2 ? FH_RUN_FIRST - 2 + n : FH_CLASS_SPECIAL);
    /* release: a reader of the heap that sees the state sees the class. */
    fh_store_release(&fh_slab_at(slot)->state, fh_state_make(FH_KIND_RUN, n));
}

void *fh_large_alloc(size_t size, size_t align, bool *clean) {
    unsigned n = slots_of(size);
    unsigned align_slots = align > FH_SLOT_SIZE ? (unsigned)(align >> FH_SLOT_SHIFT) : 1;
    FH_ASSERT(size >= 1 && size <= FH_RUN_MAX && fh_is_power_of_two(align));
    size_t slot = fh_chunk_claim(n, align_slots, clean);
    if (slot == FH_NONE) return NULL;
    FH_ASSERT_COSTLY(fh_load(&fh_slab_at(slot)->state) == 0);
    label(slot, n);
    return fh_slot_address(slot);
}

size_t fh_large_size(const void *p) {
    if (!fh_in_window(p) || (uintptr_t)p % FH_SLOT_SIZE) return 0;
    size_t slot = fh_slot_of(p);
    if (slot / FH_CHUNK_SLOTS >= fh_window_chunks()) return 0;
    uint64_t state = fh_load(&fh_slab_at(slot)->state);
    return fh_state_kind(state) == FH_KIND_RUN ? fh_state_bump(state) * FH_SLOT_SIZE : 0;
}

void *fh_large_around(const void *p) {
    size_t slot = fh_slot_of(p), first = slot - slot % FH_CHUNK_SLOTS;
    for (size_t s = slot + 1; s-- > first;) {
        char *start = fh_slot_address(s);
        size_t size = fh_large_size(start);
        if (size) return (uintptr_t)p < (uintptr_t)start + size ? start : NULL;
    }
    return NULL;
}

void fh_large_free(void *p) {
    size_t slot = fh_slot_of(p);
    fh_slab *head = fh_slab_at(slot);
    uint64_t state = fh_load(&head->state);
    unsigned n = fh_state_bump(state);
    FH_ASSERT(fh_state_kind(state) == FH_KIND_RUN && n >= 1 && n <= FH_RUN_MAX_SLOTS);
    fh_class_set(slot, 0);
    fh_store_release(&head->state, 0);
    fh_chunk_release(slot, n);
}

void fh_large_give(unsigned c, void *p) {
    size_t size = fh_large_size(p);
    if (FH_LIKELY(size == fh_class_size(c))) {
        fh_large_free(p);
        return;
    }
    /* Only the first slot of a run has its class, so p is in that slot, and not at its beginning; or the block has been
     * freed since, and perhaps allocated again. */
    void *around = size ? NULL : fh_large_around(p);
    if (around) {
        fh_report_fault(FH_FAULT_INSIDE, NULL, p, (size_t)around, fh_large_size(around));
    } else {
        fh_report_fault(FH_FAULT_DOUBLE_FREE, NULL, p, 0, fh_class_size(c));
    }
}

bool fh_large_resize(void *p, size_t size) {
    size_t slot = fh_slot_of(p);
    uint64_t state = fh_load(&fh_slab_at(slot)->state);
    unsigned old = fh_state_bump(state), n = slots_of(size);
    FH_ASSERT(fh_state_kind(state) == FH_KIND_RUN && old >= 1 && n >= 1 && n <= FH_RUN_MAX_SLOTS);
    /* What follows the last slot of a chunk belongs to another one. */
    if (slot % FH_CHUNK_SLOTS + n > FH_CHUNK_SLOTS) return false;
    if (n > old && !fh_chunk_extend(slot + old, n - old)) return false;
    label(slot, n);
    if (n < old) fh_chunk_release(slot + n, old - n);
    return true;
}
