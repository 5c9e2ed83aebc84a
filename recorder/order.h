// SPDX-License-Identifier: MIT OR Apache-2.0
// The order of the calls at each address, found without a lock and almost without stamps.
//
// A stamp is a reading of the clock. Each call is dated by the last stamp of its thread, so two calls of one thread have their
// order. Two calls of different threads on one address have theirs if the second one's stamp is younger than the first one's.
// A thread whose stamp is not younger makes a new one: that is younger than all stamps of calls before it.
//
// Who had to do with the blocks of a region of 64 KiB is in its word: 0 nobody, a thread's number, or several threads. While it is
// one, no call there needs more. Addresses that are 4 GiB apart share a region's word, which costs time and nothing else.
//
//     nobody ──one call──▶ a thread ──a call of another──▶ several
//
// In a region of several threads each block has a note of its last call: of which thread, and how old that thread's stamp was.
//
//     a note     address / 64 MiB: 22 bits │ 1 │ date of the stamp: 26 bits │ thread: 15 bits
//
// It is Lamport's clock: the note is the message between two calls, and its date is what the next call must be younger than.
// Only whose block it is reads and writes its note, so two threads never write one for the same block at once. For two blocks that
// share a place they may. Then one note is lost: who looks for it finds another address, and makes a new stamp.
//
// A call in a region of one thread leaves no note. So a thread that comes later makes a stamp, younger than all that the first one
// did without seeing it. What it releases itself, the first one allocates only after it can see what the region has become. So all
// of this is asked after an allocation, and before a release.
//
// A date is a stamp's ticks within an era of 2^26 dates. `order_era` is no less than the era of any stamp that a call before this
// one has used, and who has a stamp of an earlier era makes a new one. So if the note's stamp is really younger than the thread's
// own, both are of one era, and their dates compare right. A note of an era before may look too young: that costs a stamp.
#ifndef FREEHOLD_RECORDER_ORDER_H
#define FREEHOLD_RECORDER_ORDER_H

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum { ORDER_REGION = 65536, ORDER_REGIONS = 1 << 16, ORDER_SEVERAL = 0xFFFF };
enum { ORDER_AREA_BITS = 26, ORDER_ROWS = 1 << 20, ORDER_NOTES = 4 * ORDER_ROWS };
enum { ORDER_THREAD_BITS = 15, ORDER_DATE_BITS = 26, ORDER_UNNUMBERED = 0x7FFF };
// One step of dates, in bits of ticks: 43 ns where there are three ticks a nanosecond.
#if defined(__x86_64__)
enum { ORDER_DATE_STEP = 7 };
#else
enum { ORDER_DATE_STEP = 0 };
#endif
#define ORDER_NOTE_SET ((uint64_t)1 << (ORDER_DATE_BITS + ORDER_THREAD_BITS))

// A thread's own. Threads from ORDER_UNNUMBERED on have no number here: no region is theirs, and each note is another's.
struct order_dates {
    uint64_t date, era; // of the last stamp, as in a note
    uint64_t number, signature;
};

// Pages of these are only there once they are used. The owner of the tables may map something else in their place.
enum { ORDER_PAGE = 65536 };
extern fh_word order_regions[ORDER_REGIONS];
extern fh_word order_notes[ORDER_NOTES];
extern fh_word order_era; // only grows
_Static_assert((uint64_t)ORDER_REGION *ORDER_REGIONS == (uint64_t)1 << 32, "the regions of half an address");
_Static_assert(64 * (uint64_t)ORDER_ROWS == (uint64_t)1 << ORDER_AREA_BITS, "an area has a place for each 16 bytes");

static inline fh_word *order_region_of(const void *address) {
    return &order_regions[(uint32_t)(uintptr_t)address / ORDER_REGION];
}

// Most blocks begin at multiples of 64. Their notes are side by side, and in each area in another quarter of the table.
static inline fh_word *order_note_of(const void *address) {
    uintptr_t at = (uintptr_t)address, quarter = (at / 16 + (at >> ORDER_AREA_BITS)) % 4;
    return &order_notes[quarter * ORDER_ROWS + at / 64 % ORDER_ROWS];
}

// Blocks that are closer than 16 bytes would share one note, so one that begins at no multiple of 16 has none, and a stamp each time.
// NULL is no block: with a note its next release would be recorded.
static inline bool order_has_note(const void *block) {
    return (uintptr_t)block % 16 == 0 && block != NULL;
}

static inline uint64_t order_note_key(const void *address) {
    return (uint64_t)(uintptr_t)address >> ORDER_AREA_BITS << (ORDER_DATE_BITS + ORDER_THREAD_BITS + 1) |
           ORDER_NOTE_SET;
}

// Relaxed: what another thread did at this address before, it did before it gave the block away, and so the load sees it.
static inline bool order_owns_region(const struct order_dates *self, const void *block) {
    return fh_load(order_region_of(block)) == self->number;
}

// Release, and acquire below: with the note comes the era that its stamp may have begun.
static inline void order_write_note(const struct order_dates *self, const void *block) {
    fh_store_release(order_note_of(block), order_note_key(block) | self->date | self->signature);
}

// Whether the last call on the block was this thread's own, or has an older stamp. If so, the note is ours now. An empty note and
// that of another block are larger than any date.
static inline bool order_is_dated(const struct order_dates *self, const void *block) {
    uint64_t note = fh_load_acquire(order_note_of(block)) ^ order_note_key(block);
    bool is_own = note < ORDER_NOTE_SET && (note & ORDER_UNNUMBERED) == self->number;
    bool is_older = note < self->date && self->era == fh_load(&order_era);
    if (!is_own && !is_older) {
        return false;
    }
    if (note != (self->date | self->signature)) {
        order_write_note(self, block);
    }
    return true;
}

void order_begin_thread(struct order_dates *self, uint32_t number); // from 1
void order_set_date(struct order_dates *self, uint64_t ticks); // after each stamp, and before a call is dated by it
// Whether the last stamp is good for a call on that block. If not, the caller makes a new one, and writes the note if there is one.
bool order_needs_no_stamp(const struct order_dates *self, const void *block);
void order_keep_off(const void *first, size_t bytes); // no block there is any thread's alone

#pragma GCC visibility pop
#endif
