/* What scenarios call of guarded blocks: their slots, without pages. */
#include "misuse/guard_slots.h"
#include "store/window.h"

/* Slots of a chunk that no other scenario uses, as the explorer restores the memory of the first four chunks for each run. */
#define TABLES (3 * FH_CHUNK_SLOTS + 2)
#define SLOTS FH_GUARD_STEP
#define PAGES 4096u
#define STACK 7u

void fh_model_begin_guards(void) {
    fh_window_start();
    fh_guard_slots_start(fh_slot_address(TABLES), SLOTS);
}

static bool ready(unsigned first) {
    (void)first;
    return true;
}

static uintptr_t block_in(unsigned slot) {
    return ((uintptr_t)slot + 1) * PAGES;
}

/* A slot with a live block of `size` bytes, or ~0. */
unsigned fh_model_guard_take(uint64_t keep, size_t size) {
    unsigned slot = fh_guard_take(keep, ready);
    if (slot != FH_GUARD_NONE) fh_guard_begin(slot, block_in(slot), size, PAGES, STACK);
    return slot;
}

/* True if there is time for a guard, of which at this moment there is for one. */
bool fh_model_guard_affords(void) {
    return fh_guard_affords(FH_GUARD_CPU_CLOCK, 1000, 10, 1);
}

/* The block's size, which the stack of the free says too; 0: another one freed it. */
size_t fh_model_guard_free(unsigned slot, size_t size) {
    fh_guard_view view;
    if (!fh_guard_end(slot, block_in(slot), (uint32_t)size, &view)) return 0;
    fh_guard_put(slot);
    return view.size;
}

/* What a touch would find of a slot: the size of a live block, 0 if there is none, ~0 if it does not fit together. */
size_t fh_model_guard_look(unsigned slot) {
    fh_guard_view view = fh_guard_look(slot);
    if (view.kind != FH_GUARD_LIVE && view.kind != FH_GUARD_FREED) return 0;
    bool fits = view.block == block_in(slot) && view.pages == PAGES && view.made == STACK;
    if (view.kind == FH_GUARD_FREED) return fits && view.freed == view.size ? 0 : ~(size_t)0;
    return fits && view.freed == 0 ? view.size : ~(size_t)0;
}

/* Slots in the ring, ~0 if one is there twice; and in *wrong, whether the bytes that wait are another number. */
size_t fh_model_guards_waiting(bool *wrong) {
    extern __thread fh_word *ring; /* guard_slots.c's own, made visible by build.rs */
    extern fh_word many;
    uint64_t seen = 0, n = 0;
    *wrong = false;
    if (!fh_load(&many)) return 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t entry = fh_load(&ring[i]);
        if (!entry) continue;
        if (seen >> (entry - 1) & 1) return ~(size_t)0;
        seen |= UINT64_C(1) << (entry - 1);
        n++;
    }
    *wrong = fh_guard_waiting() != n * PAGES;
    return n;
}

size_t fh_model_guards_made(void) {
    return fh_guard_fresh();
}
