// SPDX-License-Identifier: MIT OR Apache-2.0
// The tables of the order, and what is rarely done with them.
#include "order.h"

_Alignas(ORDER_PAGE) fh_word order_regions[ORDER_REGIONS];
_Alignas(ORDER_PAGE) fh_word order_notes[ORDER_NOTES];
fh_word order_era;
_Static_assert(sizeof order_regions % ORDER_PAGE == 0 && sizeof order_notes % ORDER_PAGE == 0, "whole pages");

void order_begin_thread(struct order_dates *self, uint32_t number) {
    bool has_number = number < ORDER_UNNUMBERED;
    self->number = has_number ? number : ORDER_UNNUMBERED;
    self->signature = has_number ? self->number : 0;
}

// The era comes before any note of this date.
void order_set_date(struct order_dates *self, uint64_t ticks) {
    uint64_t dates = ticks >> ORDER_DATE_STEP, known = fh_load(&order_era);
    self->date = dates % ((uint64_t)1 << ORDER_DATE_BITS) << ORDER_THREAD_BITS;
    self->era = dates >> ORDER_DATE_BITS;
    while (known < self->era && !fh_cas_relaxed(&order_era, &known, self->era)) {
    }
}

// Whether only we had to do with the region so far. Another thread that had is told that it is not alone any more.
static bool take_region(const struct order_dates *self, const void *block) {
    fh_word *owner = order_region_of(block);
    uint64_t was = fh_load(owner);
    if (was == self->number) {
        return true;
    }
    if (was == 0 && self->number != ORDER_UNNUMBERED && fh_cas_relaxed(owner, &was, self->number)) {
        return true;
    }
    if (was != ORDER_SEVERAL) {
        fh_swap_acq_rel(owner, ORDER_SEVERAL);
    }
    return false;
}

bool order_needs_no_stamp(const struct order_dates *self, const void *block) {
    return take_region(self, block) || (order_has_note(block) && order_is_dated(self, block));
}

void order_keep_off(const void *first, size_t bytes) {
    for (size_t offset = 0; offset <= bytes; offset += 64) {
        fh_store(order_region_of((const char *)first + offset), ORDER_SEVERAL);
    }
}
