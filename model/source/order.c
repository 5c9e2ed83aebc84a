/* What scenarios call of the recorder's order: blocks that go from thread to thread, and the calls on them. */
#include "order.h"

enum { FREE, IN_HAND, PASSED };
#define BLOCKS 5u

/* What the allocator and the program know of a block. Who changes it has the block until it gives it away. */
static fh_word states[BLOCKS];

/* 0 and 1 are in one region. 2 is in another one, and its note has the place of 0's. 3 is within the 16 bytes of 0. 4 shares both the
 * region's word and the note's place with 0. */
static const void *block_at(unsigned i) {
    static const uint64_t far[BLOCKS] = {0, 64, UINT64_C(256) << 20, 8, UINT64_C(4) << 30};
    return (const void *)(uintptr_t)(UINT64_C(0x700000000040) + far[i % BLOCKS]);
}

void fh_model_order_begin(struct order_dates *self, uint32_t number) {
    order_begin_thread(self, number);
}

void fh_model_order_stamp(struct order_dates *self, uint64_t ticks) {
    order_set_date(self, ticks);
}

/* Whether the block was free, or passed, and is in hand now. */
bool fh_model_order_take(unsigned i, bool passed) {
    uint64_t state = passed ? PASSED : FREE;
    return fh_cas_acq_rel(&states[i % BLOCKS], &state, IN_HAND);
}

void fh_model_order_leave(unsigned i, bool passes) {
    fh_store_release(&states[i % BLOCKS], passes ? PASSED : FREE);
}

/* A call on a block that is in hand. The ticks of the last stamp, or of one that is made here. */
uint64_t fh_model_order_call(struct order_dates *self, unsigned i, uint64_t last, uint64_t (*ticks_now)(void)) {
    const void *block = block_at(i);
    if (order_owns_region(self, block) || order_needs_no_stamp(self, block)) return last; /* as the recorder asks */
    last = ticks_now();
    order_set_date(self, last);
    if (order_has_note(block)) order_write_note(self, block);
    return last;
}
