#include "heap/below.h"

#include "store/window.h"

static fh_heap *parent_in(size_t slot) {
    return (fh_heap *)(uintptr_t)fh_load(&fh_slab_at(slot)->parent);
}

/* The heap whose first slot that is and which is below some other, or NULL. */
static fh_heap *child_in(size_t slot) {
    /* Acquire: its parent, and what is in its header. */
    uint64_t word = fh_load_acquire(&fh_slab_at(slot)->heap);
    bool begins = word == (uintptr_t)fh_slot_address(slot);
    return begins && parent_in(slot) ? (fh_heap *)(uintptr_t)word : NULL;
}

static bool is_below(const fh_heap *h, const fh_heap *at) {
    while (at && at != h) at = parent_in(fh_slot_of(at));
    return at == h;
}

static void meet_in_chunk(fh_heap *h, size_t chunk, fh_heap_met *meet, void *arg) {
    size_t end = (chunk + 1) * FH_CHUNK_SLOTS;
    if (!fh_region_at(chunk / FH_REGION_CHUNKS) || fh_window_misses(chunk)) return;
    if (fh_load(&fh_chunk_at(chunk)->free) == FH_CHUNK_ALL) return;
    /* In the middle of a long run there are no records of slots. */
    for (size_t slot = fh_chunk_first_own(chunk); slot < end; slot++) {
        fh_heap *child = child_in(slot);
        if (child && child != h && is_below(h, child)) meet(child, arg);
    }
}

void fh_heaps_below(fh_heap *h, fh_heap_met *meet, void *arg) {
    meet(h, arg);
    if (!fh_load(&h->children)) return;
    size_t chunks = fh_window_chunks();
    for (size_t chunk = 0; chunk < chunks; chunk++) meet_in_chunk(h, chunk, meet, arg);
}
