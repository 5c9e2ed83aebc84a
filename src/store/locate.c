#include "store/locate.h"

#include "base/assert.h"
#include "base/hooks.h"
#include "store/holes.h"
#include "store/large.h"
#include "store/live.h"
#include "store/sampled.h"
#include "store/slab_life.h"
#include "store/window.h"
#include "system/report.h"

static fh_place locate_in_slab(unsigned c, const void *p) {
    FH_ASSERT(c < FH_CLASSES && fh_class_size(c) != 0);
    fh_place at = {.kind = FH_AT_SLAB, .c = c, .begin = fh_slab_block_of(c, p), .size = fh_class_size(c)};
    if (!at.begin)
        at.kind = FH_AT_FOREIGN;
    else if (fh_class_is_sample(c))
        at.size = fh_sampled_usable(c, at.begin);
    bool hardened = at.begin && fh_partition_of_slot(fh_slot_of(p)) & FH_PARTITION_HARDENED;
    at.free = at.begin && (hardened ? !fh_is_live(c, at.begin) : fh_slab_is_free(c, p));
    return at;
}

/* The class of the slab of a partition that this slot belongs to: where no class byte leads to its first slot. 0: to none. A slab
 * begins at a multiple of its length. */
static unsigned class_in_partition(size_t slot) {
    for (size_t slots = 1; slots <= FH_SLAB_MOST_SLOTS; slots *= 2) {
        unsigned kind = fh_state_kind(fh_load_acquire(&fh_slab_at(slot & ~(slots - 1))->state));
        if (kind >= 1 && kind <= FH_SMALL_LAST && fh_class_table[kind].slots == slots) return kind;
    }
    return FH_CLASS_SPECIAL;
}

static fh_place locate_large(const void *p) {
    fh_place at = {.kind = FH_AT_LARGE, .begin = (void *)p, .size = fh_large_size(p)};
    at.free = at.size && fh_large_is_retired(p);
    if (at.size) return at;
    at.begin = fh_large_around(p);
    if (!at.begin) return (fh_place){.kind = FH_AT_NOTHING};
    at.size = fh_large_size(at.begin);
    return at;
}

static fh_place locate_in_heap(const void *p) {
    fh_place at = {.kind = FH_AT_HEAP};
    at.begin = fh_hook_heap_block(p, &at.size);
    if (!at.begin) at.kind = FH_AT_NOTHING;
    return at;
}

static fh_place locate_in_window(const void *p) {
    size_t slot = fh_slot_of(p);
    if (slot / FH_CHUNK_SLOTS >= fh_window_chunks()) return (fh_place){.kind = FH_AT_NOTHING};
    /* The class byte first: it also leads from the later slots of a slab to the first. */
    unsigned c = fh_class_at(p);
    if (c != FH_CLASS_SPECIAL && !fh_class_is_run(c)) return locate_in_slab(c, p);
    if (FH_UNLIKELY(fh_heap_word(p) != 0)) return locate_in_heap(p);
    if (FH_UNLIKELY(fh_partition_of_slot(slot))) {
        c = class_in_partition(slot);
        return c ? locate_in_slab(c, p) : locate_large(p);
    }
    unsigned kind = fh_state_kind(fh_load_acquire(&fh_slab_at(slot)->state));
    if (fh_class_is_sample(kind)) return locate_in_slab(kind, p);
    if (fh_holes_has(p)) {
        fh_place at = {.kind = FH_AT_HOLE};
        at.begin = fh_holes_block_of(p, &at.size);
        FH_ASSERT(!at.begin || (at.begin <= p && at.size != 0));
        at.free = at.begin == NULL;
        return at;
    }
    return locate_large(p);
}

fh_place fh_locate(const void *p) {
    if (fh_in_window(p)) return locate_in_window(p);
    return fh_outside_word(p) ? locate_in_heap(p) : (fh_place){.kind = FH_AT_FOREIGN};
}

bool fh_place_check(const fh_place *at, const char *call, const void *p) {
    if (at->begin && at->begin != p) {
        fh_report_fault(FH_FAULT_INSIDE, call, p, (size_t)at->begin, at->size);
    } else if (at->kind == FH_AT_FOREIGN) {
        fh_report_fault(FH_FAULT_FOREIGN, call, p, 0, at->size);
    } else if (at->kind == FH_AT_NOTHING || at->free) {
        fh_report_fault(FH_FAULT_DOUBLE_FREE, call, p, 0, at->size);
    } else {
        return true;
    }
    return false;
}
