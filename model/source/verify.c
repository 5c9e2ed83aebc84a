/* The library's own check of the heap (src/check/), when no thread is in the middle of anything. What does not hold is reported
 * through the `violated` hook, which fails the run. Below: accounts that only the scenarios can compare. */
#include "base/classes.h"
#include "check/chunks.h"
#include "check/verify.h"
#include "store/window.h"

#include <stdlib.h>

static void violated(const fh_violation *v) {
    fh_model->violated(fh_equation_name(v->equation), fh_equation_text(v->equation), v->at, v->found);
}

/* `held` slots were claimed by the test as bare runs or chunks and are in its hands; the counter knows of `counted`. `caches`:
 * magazines are in caches and depots, and not in the test's hands. All blocks that it gets by malloc are of the two classes
 * that are named. Brief, because it is done after each of many thousand runs, each word read through the explorer. */
void fh_model_verify(unsigned held, unsigned counted, bool caches, const unsigned *classes) {
    fh_verification check = {
        .found = violated, .brief = true, .held_slots = held, .counted_slots = counted, .leave_magazines = !caches};
    if (caches) {
        check.only[0] = classes[0];
        check.only[1] = classes[1];
        check.seen = calloc(fh_window_chunks() + 1, FH_CHECK_SEEN_BYTES);
    }
    fh_check_heap(&check);
    free(check.seen);
}

/* Blocks of class c that are in somebody's hands: bump less set bits, over all slabs. */
size_t fh_model_blocks_out(unsigned c) {
    size_t out = 0;
    for (size_t slot = 0; fh_load(&fh_window.origin) && slot < fh_window_chunks() * FH_CHUNK_SLOTS; slot++) {
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        if (fh_state_kind(state) != c) continue;
        out += fh_state_bump(state);
        for (unsigned w = 0; w * 64 < fh_class_table[c].blocks; w++)
            out -= fh_count_bits(fh_load(&fh_slab_at(slot)->free[w]));
    }
    return out;
}

/* Units of borrowed slabs that are in somebody's hands; and in *joined, how many of them belong to the one before. */
size_t fh_model_parts_out(size_t *joined) {
    size_t out = 0;
    *joined = 0;
    for (size_t slot = 0; fh_load(&fh_window.origin) && slot < fh_window_chunks() * FH_CHUNK_SLOTS; slot++) {
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        if (fh_state_kind(state) != FH_CLASS_BORROWED) continue;
        out += fh_state_bump(state);
        for (unsigned w = 0; w < FH_SLAB_WORDS / 2; w++) {
            out -= fh_count_bits(fh_load(&fh_slab_at(slot)->free[w]));
            *joined += fh_count_bits(fh_load(&fh_slab_at(slot)->free[FH_SLAB_WORDS / 2 + w]));
        }
    }
    return out;
}

unsigned fh_model_class_at(const void *p) {
    return fh_class_at(p);
}
