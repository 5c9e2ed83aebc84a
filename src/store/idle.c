#include "store/idle.h"

#include "base/settings.h"
#include "store/advice.h"
#include "store/depot.h"
#include "store/policy.h"
#include "store/purge.h"
#include "store/trim.h"
#include "store/window.h"

fh_word fh_idle_class[FH_CLASSES];

/* Bytes of the class's free blocks when it was purged last: what it takes to go through it again is a share of them. */
static fh_word free_then[FH_CLASSES];

#define HALVES (2 * FH_REGION_CHUNKS) /* of a region: 2 MiB each, a huge page */
#define HALF_SLOTS (FH_CHUNK_SLOTS / 2)

/* The classes that are idle now and have something to give back, as bits. */
typedef struct {
    uint64_t bits[2];
} class_set;

/* Moves each class one step on, and collects those that are to be purged in this look. */
static class_set step(void) {
    class_set due = {{0, 0}};
    for (unsigned c = 1; c <= FH_SMALL_LAST; c++) {
        uint64_t seen = fh_load(&fh_idle_class[c]);
        bool purge =
            seen == FH_IDLE_WAITING ||
            (seen > FH_IDLE_PURGED && fh_idle_again((size_t)(seen - FH_IDLE_PURGED), (size_t)fh_load(&free_then[c])));
        if (seen >= FH_IDLE_PURGED && !purge) continue;
        /* Fails if somebody wants the class at this moment, or gives a block of it: then the next look will see. */
        if (!fh_cas_relaxed(&fh_idle_class[c], &seen, purge ? FH_IDLE_PURGED : FH_IDLE_WAITING) || !purge) continue;
        due.bits[c / 64] |= UINT64_C(1) << c % 64;
        fh_store(&free_then[c], 0);
        /* What the depots keep of the class is wanted as little, and strewn over its slabs. */
        fh_depot_empty(c);
    }
    return due;
}

/* What is done with each marked slab of a due class: once to weigh what a half of a chunk could give, once to take it. */
typedef void (*visitor)(size_t slot, unsigned c, uint32_t *free_in_half);

static void weigh(size_t slot, unsigned c, uint32_t *free_in_half) {
    size_t bytes = fh_trim_free_bytes(slot, c);
    *free_in_half += (uint32_t)bytes;
    fh_add_relaxed(&free_then[c], bytes);
}

static void give_back(size_t slot, unsigned c, uint32_t *free_in_half) {
    size_t chunk = slot / FH_CHUNK_SLOTS;
    unsigned half = slot % FH_CHUNK_SLOTS / HALF_SLOTS;
    if (!fh_advice_is_huge(chunk) || fh_advice_may_split(chunk, half, *free_in_half)) fh_trim_slab(slot, c);
}

static void visit(fh_region *region, size_t number, unsigned c, visitor what, uint32_t *free_in_half) {
    for (uint64_t chunks = fh_load_acquire(&region->marks.mark[c]); chunks; chunks &= chunks - 1) {
        unsigned place = fh_lowest_bit(chunks);
        size_t first = (number * FH_REGION_CHUNKS + place) * FH_CHUNK_SLOTS;
        for (uint64_t slots = fh_load_acquire(&region->chunk[place].mark[c]); slots; slots &= slots - 1) {
            size_t slot = first + fh_lowest_bit(slots);
            what(slot, c, &free_in_half[2 * place + slot % FH_CHUNK_SLOTS / HALF_SLOTS]);
        }
    }
}

static void visit_all(size_t number, class_set due, visitor what, uint32_t *free_in_half) {
    fh_region *region = fh_region_at(number);
    if (!region) return;
    for (unsigned i = 0; i < 2; i++) {
        for (uint64_t rest = due.bits[i]; rest; rest &= rest - 1)
            visit(region, number, 64 * i + fh_lowest_bit(rest), what, free_in_half);
    }
}

static void look(void) {
    class_set due = step();
    if (!(due.bits[0] | due.bits[1])) return;
    for (size_t number = 0; number * FH_REGION_CHUNKS < fh_window_chunks(); number++) {
        uint32_t free_in_half[HALVES] = {0};
        visit_all(number, due, weigh, free_in_half);
        visit_all(number, due, give_back, free_in_half);
    }
}

void fh_idle_grown(size_t chunks) {
    static fh_word last;
    uint64_t then = fh_load(&last);
    if (FH_LIKELY(!fh_idle_is_due(chunks, (size_t)then)) || fh_settings.purge == FH_PURGE_LAZY) return;
    /* Whoever moves the mark looks; the others go on. */
    if (fh_cas_relaxed(&last, &then, chunks)) look();
}
