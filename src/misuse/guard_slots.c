#include "misuse/guard_slots.h"

#include "base/assert.h"
#include "base/bits.h"

#define BUSY (UINT64_C(1) << 63)
#define TRIES 4u

/* Written once, before the first slot is taken: `many` last, release. */
static fh_guard_slot *slot_table;
static fh_word *ring;
static fh_word many;

static fh_word opened, fresh, head, tail;
static fh_word paid[2]; /* by clock */
static fh_word waiting; /* bytes of the blocks in the ring, and of those on their way in or out */

size_t fh_guard_slots_bytes(unsigned slots) {
    return slots * (sizeof(fh_guard_slot) + sizeof(fh_word));
}

void fh_guard_slots_start(void *memory, unsigned slots) {
    FH_ASSERT(fh_is_power_of_two(slots));
    slot_table = memory;
    ring = (fh_word *)(void *)(slot_table + slots);
    fh_store_release(&many, slots);
}

/* acquire: the tables before it. */
static uint64_t places(void) {
    return fh_load_acquire(&many);
}

unsigned fh_guard_fresh(void) {
    return (unsigned)fh_load(&fresh);
}

uint64_t fh_guard_waiting(void) {
    return fh_load(&waiting);
}

/* ── State ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static fh_guard_kind kind_of(uint64_t state) {
    return (fh_guard_kind)(state & 0xFF);
}

static uint64_t next_state(uint64_t before, fh_guard_kind kind, uint32_t stack) {
    const uint64_t one = UINT64_C(1) << 8, times = UINT64_C(0xFFFFFF00);
    uint64_t taken = (before & times) + (kind == FH_GUARD_TAKEN ? one : 0);
    return (uint64_t)kind | (taken & times) | (uint64_t)stack << 32;
}

/* The slot is this thread's alone. The exchange is acq_rel: acquire for what its last owner did, release for fh_guard_look. */
static unsigned own(unsigned slot) {
    fh_word *state = &slot_table[slot].state;
    fh_swap_acq_rel(state, next_state(fh_load(state), FH_GUARD_TAKEN, 0));
    return slot;
}

fh_guard_view fh_guard_look(unsigned slot) {
    const fh_guard_slot *s = &slot_table[slot];
    for (unsigned i = 0; i < TRIES; i++) {
        /* acquire, all of them: the state is read first, and again behind the rest. */
        uint64_t state = fh_load_acquire(&s->state);
        fh_guard_view view = {.kind = kind_of(state),
                              .block = (uintptr_t)fh_load_acquire(&s->block),
                              .size = (size_t)fh_load_acquire(&s->size),
                              .pages = (size_t)fh_load_acquire(&s->pages),
                              .made = (uint32_t)fh_load_acquire(&s->made),
                              .freed = (uint32_t)(state >> 32)};
        if (view.kind == FH_GUARD_TAKEN || fh_load(&s->state) == state) return view;
    }
    return (fh_guard_view){.kind = FH_GUARD_TAKEN};
}

void fh_guard_begin(unsigned slot, uintptr_t block, size_t size, size_t pages, uint32_t stack) {
    fh_guard_slot *s = &slot_table[slot];
    uint64_t state = fh_load(&s->state);
    FH_ASSERT(kind_of(state) == FH_GUARD_TAKEN && size <= pages);
    /* release, each: a thread that reads one of them sees that the slot was TAKEN when it looks at its state again. */
    fh_store_release(&s->block, block);
    fh_store_release(&s->size, size);
    fh_store_release(&s->pages, pages);
    fh_store_release(&s->made, stack);
    fh_store_release(&s->state, next_state(state, FH_GUARD_LIVE, 0)); /* release: the above before it */
}

bool fh_guard_end(unsigned slot, uintptr_t block, uint32_t stack, fh_guard_view *view) {
    fh_guard_slot *s = &slot_table[slot];
    uint64_t state = fh_load_acquire(&s->state); /* acquire: the rest of the slot */
    *view = fh_guard_look(slot);
    if (view->kind != FH_GUARD_LIVE || view->block != block || kind_of(state) != FH_GUARD_LIVE) return false;
    /* acq_rel: what was written into the block before it was freed; and the stack for the call that loses. */
    if (fh_cas_acq_rel(&s->state, &state, next_state(state, FH_GUARD_FREED, stack))) return true;
    *view = fh_guard_look(slot);
    return false;
}

/* ── The ring ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* acq_rel: gives the slot to the thread that takes it out, with all that was written to it before. */
static uint64_t swap(uint64_t at, uint64_t entry) {
    return fh_swap_acq_rel(&ring[at & (places() - 1)], entry);
}

void fh_guard_put(unsigned slot) {
    uint64_t entry = (uint64_t)slot + 1;
    fh_add_relaxed(&waiting, fh_load(&slot_table[slot].pages));
    while (entry) entry = swap(fh_add_relaxed(&head, 1), entry);
}

void fh_guard_return(unsigned slot) {
    fh_store(&slot_table[slot].pages, 0);
    fh_guard_put(slot);
}

/* The place of the oldest slot, for this thread alone. False: there is none. */
static bool take_tail(uint64_t *at) {
    uint64_t seen = fh_load(&tail), end = fh_load(&head), most = places();
    while (seen < end) {
        uint64_t from = end - seen > most ? end - most : seen; /* what the ring has lapped is at a later place */
        *at = from;
        /* relaxed: the place's exchange is what hands the slot over. */
        if (fh_cas_relaxed(&tail, &seen, from + 1)) return true;
    }
    return false;
}

static unsigned from_ring(void) {
    uint64_t at;
    while (take_tail(&at)) {
        uint64_t entry = swap(at, 0);
        if (!entry) continue;
        unsigned slot = (unsigned)(entry - 1);
        fh_sub_relaxed(&waiting, fh_load(&slot_table[slot].pages));
        return own(slot);
    }
    return FH_GUARD_NONE;
}

/* ── Slots that were never taken ─────────────────────────────────────────────────────────────────────────────────── */

/* True if there are more slots opened than `than`. */
static bool open_more(uint64_t than, bool (*ready)(unsigned first)) {
    uint64_t seen = fh_load_acquire(&opened);
    if ((seen & ~BUSY) > than) return true; /* acquire: they are open */
    if (seen & BUSY || seen >= places()) return false;
    if (!fh_cas_acquire(&opened, &seen, seen | BUSY)) return false;
    bool done = ready((unsigned)seen);
    fh_store_release(&opened, done ? seen + FH_GUARD_STEP : seen); /* release: they are open before */
    return done;
}

static unsigned from_fresh(bool (*ready)(unsigned first)) {
    uint64_t seen = fh_load(&fresh);
    while (open_more(seen, ready)) {
        /* relaxed: the number is this thread's, and nothing else of the slot was written yet. */
        if (fh_cas_relaxed(&fresh, &seen, seen + 1)) return own((unsigned)seen);
    }
    return FH_GUARD_NONE;
}

unsigned fh_guard_take(uint64_t keep, bool (*ready)(unsigned first)) {
    unsigned slot = fh_load(&waiting) > keep ? from_ring() : FH_GUARD_NONE;
    if (slot == FH_GUARD_NONE) slot = from_fresh(ready);
    return slot != FH_GUARD_NONE ? slot : from_ring();
}

/* ── How many ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* What a thread may be late with its reading of a clock, in pieces, and not be taken for another process. */
#define LATE 8u

/* Who loses looks again, because another one was afforded meanwhile. */
bool fh_guard_affords(fh_guard_clock clock, uint64_t now, uint64_t each, uint64_t most) {
    uint64_t seen = fh_load(&paid[clock]), next;
    do {
        bool begins = seen < now || seen - now > each * (most + LATE);
        next = (begins ? now : seen) + each;
        if (next - now > each * most) return false;
    } while (!fh_cas_relaxed(&paid[clock], &seen, next));
    return true;
}
