#include "heap/stripes.h"

#include "base/assert.h"
#include "base/hooks.h"
#include "cache/alloc.h"
#include "cache/thread.h"
#include "heap/claim.h"
#include "heap/quota.h"
#include "heap/stacks.h"
#include "heap/words.h"

#include <errno.h>
#include <string.h>

#define TICKETS 2048u
#define TICKET_UNIT FH_STRIPE_SIZE
#define NUMBER_UNIT (TICKET_UNIT * TICKETS)
#define GENERATION_SHIFT 48u
/* What is left to set aside of a stripe's room when it is full, and to claim when it is empty. */
#define HALF(bin) (((size_t)((bin)->end - (bin)->begin) / sizeof(uint64_t) + 1) / 2)

_Static_assert(NUMBER_UNIT == 1u << 24 && TICKETS > FH_STRIPES && FH_NO_TICKET < TICKET_UNIT, "the parts of a ticket");

/* ── Tickets ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A ticket that is in its place in the table is that of a thread that lives. 0: the place is free. */
static fh_word tickets[TICKETS];
static fh_word issued;

static uint64_t this_generation(void) {
    return fh_thread_generation() << GENERATION_SHIFT;
}

static bool is_of_now(uint64_t ticket) {
    return ticket >> GENERATION_SHIFT == this_generation() >> GENERATION_SHIFT;
}

static fh_word *place_of(uint64_t ticket) {
    return &tickets[ticket / TICKET_UNIT % TICKETS];
}

/* Acquire: what a thread that is gone did in its stripes. */
static bool lives(uint64_t ticket) {
    return is_of_now(ticket) && fh_load_acquire(place_of(ticket)) == ticket;
}

/* The lowest free place, so that few threads have different stripes. */
static uint64_t new_ticket(void) {
    uint64_t number = (fh_add_relaxed(&issued, 1) + 1) * NUMBER_UNIT % (UINT64_C(1) << GENERATION_SHIFT);
    for (uint64_t i = 0; i < TICKETS; i++) {
        uint64_t seen = fh_load(&tickets[i]), mine = this_generation() | number | i * TICKET_UNIT;
        if (seen && is_of_now(seen)) continue;
        if (fh_cas_acq_rel(&tickets[i], &seen, mine)) return mine;
    }
    return FH_NO_TICKET;
}

void fh_hook_ticket_ends(fh_thread *t) {
    uint64_t ticket = t->ticket;
    if (ticket == FH_NO_TICKET) return;
    t->ticket = FH_NO_TICKET;
    /* Release: what this thread did in its stripes, for those who take them over. */
    fh_store_release(place_of(ticket), 0);
}

/* ── A thread's stripe ───────────────────────────────────────────────────────────────────────────────────────────── */

static size_t blocks_of(unsigned c) {
    size_t blocks = FH_STRIPE_BYTES / fh_class_size(c);
    return blocks < FH_STRIPE_BLOCKS ? blocks : FH_STRIPE_BLOCKS;
}

static void prepare(fh_stripe *s) {
    unsigned at = (unsigned)fh_round_up(sizeof *s, sizeof(uint64_t));
    for (unsigned c = 1; c <= FH_STRIPE_LAST; c++) {
        unsigned end = at + (unsigned)(blocks_of(c) * sizeof(uint64_t));
        s->bin[c] = (fh_stripe_bin){(uint16_t)at, (uint16_t)at, (uint16_t)end, (uint16_t)fh_extent_out_at(c)};
        at = end;
    }
    FH_ASSERT(at <= FH_STRIPE_SIZE);
    fh_store(&s->ready, 1);
}

/* The calling thread's stripe. NULL: it has none, because its stripe is another thread's, or because it is over. */
static fh_stripe *own_stripe(uint64_t stripes) {
    fh_thread *t = fh_own();
    if (t->ticket == FH_NO_TICKET) {
        int error = errno; /* free keeps it */
        t = fh_thread_enter();
        fh_thread_leave(t);
        errno = error;
        if (!t || (t->ticket = new_ticket()) == FH_NO_TICKET) return NULL;
    }
    fh_stripe *s = fh_stripe_of(stripes, t->ticket);
    /* Acquire: an owner that is seen here has its ticket in the table. Else a thread that lives would seem to be gone. */
    uint64_t seen = fh_load_acquire(&s->owner);
    if (FH_LIKELY(seen == t->ticket)) return s;
    if (seen && lives(seen)) return NULL;
    /* Acquire: what an owner did that has given it up. Release: the ticket in the table, as above. */
    if (!fh_cas_acq_rel(&s->owner, &seen, t->ticket)) return NULL;
    if (!fh_load(&s->ready)) prepare(s);
    return s;
}

/* The lowest n blocks of a bin are free again. */
static void give_back(fh_stripe *s, fh_stripe_bin *bin, size_t n) {
    uint64_t place[FH_STRIPE_BLOCKS], *from = (uint64_t *)(void *)((char *)s + bin->begin);
    size_t has = (size_t)(bin->top - bin->begin) / sizeof(uint64_t);
    FH_ASSERT(n <= has && has <= FH_STRIPE_BLOCKS);
    for (size_t i = 0; i < has; i++) place[i] = from[i];
    /* No block is in the bin twice, wherever the thread is stopped. */
    bin->top = bin->begin;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    for (size_t i = n; i < has; i++) from[i - n] = place[i];
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    bin->top = (uint16_t)(bin->begin + (has - n) * sizeof(uint64_t));
    for (size_t i = 0; i < n; i++) {
        if (!place[i]) continue;
        const fh_byte *out = fh_place_out(place[i]);
        fh_extent *e = (fh_extent *)((uintptr_t)out & ~(uintptr_t)(FH_SLOT_SIZE - 1));
        size_t first = ((uintptr_t)out - (uintptr_t)e - e->out) / 64 * 64;
        uint64_t bits = 0;
        /* With all others of its word of bits. */
        for (size_t k = i; k < n; k++) {
            size_t number = (size_t)((uintptr_t)fh_place_out(place[k]) - (uintptr_t)e - e->out - first);
            if (!place[k] || number >= 64) continue;
            bits |= UINT64_C(1) << number;
            place[k] = 0;
        }
        uint64_t before = fh_bits_set(e->owned.heap, &e->free[first / 64], bits);
        FH_ASSERT((before & bits) == 0);
        (void)before;
        fh_extent_freed(e);
    }
}

/* All blocks of a stripe that is the calling thread's, and the stripe itself. True: it had some. */
static bool give_up(fh_stripe *s) {
    bool had = false;
    for (unsigned c = 1; c <= FH_STRIPE_LAST; c++) {
        fh_stripe_bin *bin = &s->bin[c];
        if (bin->top == bin->begin) continue;
        give_back(s, bin, (size_t)(bin->top - bin->begin) / sizeof(uint64_t));
        had = true;
    }
    fh_store_release(&s->owner, 0); /* its bins, before the next owner */
    return had;
}

/* ── Whether they are used ───────────────────────────────────────────────────────────────────────────────────────── */

/* The stripes of a heap, if they are to be used now. Else 0, and the calling thread has nothing in one. */
static uint64_t in_use(fh_heap *h) {
    uint64_t stripes = fh_load_acquire(&h->striped);
    if (FH_LIKELY(stripes)) return stripes;
    stripes = fh_load_acquire(&h->stripes);
    if (fh_quota_has_room(h, FH_STRIPES_ROOM)) {
        fh_store_release(&h->striped, stripes);
        return stripes;
    }
    fh_stripe *s = fh_stripe_of(stripes, fh_own()->ticket);
    if (fh_load(&s->owner) == fh_own()->ticket) (void)give_up(s);
    return 0;
}

void fh_stripes_begin(fh_heap *h) {
    if (fh_load(&h->stripes) || !fh_stripes_may(h) || fh_load(&h->charged) < FH_STRIPES_FROM ||
        !fh_quota_has_room(h, FH_STRIPES_ROOM))
        return;
    bool clean;
    fh_heap *full;
    char *slot = fh_heap_claim(h, FH_SLOT_SIZE, FH_SLOT_SIZE, FH_SLOT_SIZE, &clean, &full);
    if (!slot) return;
    *(fh_owned *)(void *)slot = (fh_owned){h, FH_OWNED_STRIPES};
    /* Clean, they are as they should be, and have no memory until a thread owns them. */
    for (unsigned i = 0; i < FH_STRIPES && !clean; i++) {
        fh_stripe *s = fh_stripe_of((uintptr_t)slot, i * FH_STRIPE_SIZE);
        fh_store(&s->owner, 0);
        fh_store(&s->ready, 0);
    }
    fh_store_release(&fh_slab_at(fh_slot_of(slot))->heap, (uintptr_t)slot);
    uint64_t none = 0;
    /* Release: their beginnings. */
    if (fh_cas_acq_rel(&h->stripes, &none, (uintptr_t)slot)) {
        fh_store_release(&h->striped, (uintptr_t)slot);
    } else {
        fh_heap_drop_slot(h, slot);
    }
}

bool fh_stripes_empty(fh_heap *h) {
    uint64_t stripes = fh_load_acquire(&h->stripes);
    bool given = false;
    if (!stripes) return false;
    fh_store(&h->striped, 0);
    (void)own_stripe(stripes); /* the ticket */
    uint64_t ticket = fh_own()->ticket;
    for (unsigned i = 0; i < FH_STRIPES; i++) {
        fh_stripe *s = fh_stripe_of(stripes, i * FH_STRIPE_SIZE);
        uint64_t seen = fh_load_acquire(&s->owner); /* as in own_stripe, and the rest too */
        if (!seen || ticket == FH_NO_TICKET) continue;
        if (seen != ticket && (lives(seen) || !fh_cas_acq_rel(&s->owner, &seen, ticket))) continue;
        given |= fh_load(&s->ready) && give_up(s);
    }
    return given;
}

void *fh_stripes_end(fh_heap *h) {
    void *slot = (void *)(uintptr_t)fh_load_acquire(&h->stripes);
    fh_store(&h->striped, 0);
    fh_store(&h->stripes, 0);
    return slot;
}

/* ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Claims up to n blocks of a word of e. Returns how many. */
static size_t claim_in(fh_stripe *s, fh_stripe_bin *bin, fh_extent *e, unsigned w, size_t n) {
    uint64_t seen = fh_load(&e->free[w]), bits = 0, rest;
    size_t has = 0;
    do {
        for (rest = seen, bits = 0, has = 0; rest && has < n; rest &= rest - 1, has++) bits |= rest & -rest;
        if (!bits) return 0;
    } while (!fh_bits_claim(e->owned.heap, &e->free[w], &seen, bits));
    for (; bits; bits &= bits - 1) {
        unsigned i = w * 64 + fh_lowest_bit(bits);
        fh_stripe_push(s, bin, (char *)e + i * (size_t)fh_class_size(e->c), fh_extent_out(e, i));
    }
    return has;
}

/* Fills half of an empty bin, from the upper extent that has free blocks. */
static void refill(fh_heap *h, fh_stripe *s, unsigned c) {
    fh_stripe_bin *bin = &s->bin[c];
    size_t most = HALF(bin), has = 0;
    uint64_t top = fh_load_acquire(&h->stack[FH_STACK_OPEN][c]); /* its header */
    fh_extent *e;
    while (has == 0 && (e = fh_stack_top(top)) != NULL) {
        unsigned from = (unsigned)fh_load(&e->from);
        for (unsigned i = 0; i < e->words && has < most; i++) {
            unsigned w = from + i < e->words ? from + i : from + i - e->words;
            size_t more = claim_in(s, bin, e, w, most - has);
            if (more && i) fh_store(&e->from, w);
            has += more;
        }
        if (!has) fh_extent_close(e, &top);
    }
}

void *fh_stripes_take(fh_heap *h, unsigned c) {
    uint64_t stripes = in_use(h);
    fh_stripe *s = stripes && c <= FH_STRIPE_LAST ? own_stripe(stripes) : NULL;
    if (!s) return NULL;
    void *p = fh_stripe_pop(s, c);
    if (p) return p;
    refill(h, s, c);
    return fh_stripe_pop(s, c);
}

bool fh_stripes_keep(fh_extent *e, unsigned i) {
    uint64_t stripes = in_use(e->owned.heap);
    fh_stripe *s = stripes && e->c <= FH_STRIPE_LAST ? own_stripe(stripes) : NULL;
    if (!s) return false;
    fh_stripe_bin *bin = &s->bin[e->c];
    if (bin->top == bin->end) give_back(s, bin, HALF(bin));
    fh_stripe_push(s, bin, (char *)e + i * (size_t)fh_class_size(e->c), fh_extent_out(e, i));
    return true;
}
