#include "store/idle.h"

#include "base/settings.h"
#include "store/advice.h"
#include "store/depot.h"
#include "store/policy.h"
#include "store/purge.h"
#include "store/sublet.h"
#include "store/trim.h"
#include "store/window.h"
#include "system/system.h"

fh_word fh_idle_class[FH_CLASSES], fh_idle_looks;

/* Bytes of the class's free blocks when it was purged last: what it takes to go through it again is a share of them. */
static fh_word free_then[FH_CLASSES];

#define HALVES (2 * FH_REGION_CHUNKS) /* of a region: 2 MiB each, a huge page */
#define HALF_SLOTS (FH_CHUNK_SLOTS / 2)

/* The classes that are idle now and have something to give back, as bits. */
typedef struct {
    uint64_t bits[FH_CLASSES / 64 + 1];
} class_set;

/* Looks that a class must go unwanted: doubled each time that it was wanted again after its purge. */
static fh_word patience[FH_CLASSES];

void fh_idle_wanted_again(unsigned c) {
    if (fh_load(&fh_idle_class[c]) >= FH_IDLE_PURGED) {
        uint64_t looks = fh_load(&patience[c]);
        fh_store(&patience[c], looks == 0 ? 2 : looks < FH_IDLE_PATIENCE ? 2 * looks : looks);
    }
    fh_store(&fh_idle_class[c], FH_IDLE_WANTED);
}

/* True if a class is idle by now and has something to give back; moves it one step on. */
static bool step(unsigned c) {
    uint64_t seen = fh_load(&fh_idle_class[c]), next = seen + 1;
    if (seen >= FH_IDLE_PURGED) {
        if (!fh_idle_again((size_t)(seen - FH_IDLE_PURGED), (size_t)fh_load(&free_then[c]))) return false;
        next = FH_IDLE_PURGED;
    } else if (seen >= fh_load(&patience[c]) && seen > 0) {
        next = FH_IDLE_PURGED;
    }
    /* Fails if somebody wants the class at this moment, or gives a block of it: then the next look will see. */
    return fh_cas_relaxed(&fh_idle_class[c], &seen, next) && next == FH_IDLE_PURGED;
}

/* Moves each class one step on, and collects those that are to be purged in this look. */
static class_set step_all(void) {
    class_set due = {{0}};
    for (unsigned c = 1; c < FH_CLASSES; c++) {
        if ((c > FH_SMALL_LAST && c != FH_CLASS_SUBLET) || !step(c)) continue;
        due.bits[c / 64] |= UINT64_C(1) << c % 64;
        fh_store(&free_then[c], 0);
        /* What the depots keep of the class is wanted as little, and strewn over its slabs. */
        if (c != FH_CLASS_SUBLET) fh_depot_empty(c);
    }
    return due;
}

/* What is done with each marked slab of a due class: once to weigh what a half of a chunk could give, once to take it. */
typedef void (*visitor)(size_t slot, unsigned c, uint32_t *free_in_half);

static void weigh(size_t slot, unsigned c, uint32_t *free_in_half) {
    size_t bytes = fh_trim_free_bytes(slot);
    *free_in_half += (uint32_t)bytes;
    fh_add_relaxed(&free_then[c], bytes);
}

static void give_back(size_t slot, unsigned c, uint32_t *free_in_half) {
    size_t chunk = slot / FH_CHUNK_SLOTS;
    unsigned half = slot % FH_CHUNK_SLOTS / HALF_SLOTS;
    if (!fh_advice_is_huge(chunk) || fh_advice_may_split(chunk, half, *free_in_half)) fh_trim_slab(slot);
    if (c >= FH_HOST_FIRST && c <= FH_HOST_LAST) fh_sublet_open(slot, c);
}

static void visit(fh_region *region, size_t number, unsigned c, visitor what, uint32_t *free_in_half) {
    for (uint64_t chunks = fh_load_acquire(&region->hints.hint[c]); chunks; chunks &= chunks - 1) {
        unsigned place = fh_lowest_bit(chunks);
        size_t first = (number * FH_REGION_CHUNKS + place) * FH_CHUNK_SLOTS;
        for (uint64_t slots = fh_load_acquire(&region->chunk[place].hint[c]); slots; slots &= slots - 1) {
            size_t slot = first + fh_lowest_bit(slots);
            what(slot, c, &free_in_half[2 * place + slot % FH_CHUNK_SLOTS / HALF_SLOTS]);
        }
    }
}

static void visit_all(size_t number, class_set due, visitor what, uint32_t *free_in_half) {
    fh_region *region = fh_region_at(number);
    if (!region) return;
    for (unsigned i = 0; i < sizeof due.bits / sizeof due.bits[0]; i++) {
        for (uint64_t rest = due.bits[i]; rest; rest &= rest - 1)
            visit(region, number, 64 * i + fh_lowest_bit(rest), what, free_in_half);
    }
}

static void look(void) {
    class_set due = step_all();
    uint64_t any = 0;
    for (unsigned i = 0; i < sizeof due.bits / sizeof due.bits[0]; i++) any |= due.bits[i];
    if (!any) return;
    for (size_t number = 0; number * FH_REGION_CHUNKS < fh_window_chunks(); number++) {
        uint32_t free_in_half[HALVES] = {0};
        visit_all(number, due, weigh, free_in_half);
        visit_all(number, due, give_back, free_in_half);
    }
    fh_add_relaxed(&fh_idle_looks, 1);
}

/* Bytes taken from slabs, each shard's on a line of its own; and how many there were at the last look. */
static _Alignas(FH_CACHE_LINE) struct { _Alignas(FH_CACHE_LINE) fh_word bytes; } flow[FH_SHARDS];
static fh_word flow_then;

#define FLOW_STEP_SHIFT 20 /* the sum is made once a MiB */

__attribute__((noinline)) static void flowed(void) {
    size_t chunks = fh_window_chunks();
    uint64_t now = 0, then = fh_load(&flow_then);
    for (unsigned i = 0; i < FH_SHARDS; i++) now += fh_load(&flow[i].bytes);
    if (!fh_idle_is_due_by_flow(chunks * FH_CHUNK_SIZE, now - then) || fh_settings.purge == FH_PURGE_LAZY) return;
    /* Whoever moves the mark looks; the others go on. */
    if (fh_cas_relaxed(&flow_then, &then, now)) look();
}

void fh_idle_taken(size_t bytes) {
    uint64_t before = fh_add_relaxed(&flow[fh_system_cpu_hint() % FH_SHARDS].bytes, bytes);
    if (FH_UNLIKELY((before ^ (before + bytes)) >> FLOW_STEP_SHIFT)) flowed();
}

void fh_idle_grown(size_t chunks) {
    static fh_word last;
    uint64_t then = fh_load(&last);
    if (FH_LIKELY(!fh_idle_is_due(chunks, (size_t)then)) || fh_settings.purge == FH_PURGE_LAZY) return;
    /* Whoever moves the mark looks; the others go on. */
    if (fh_cas_relaxed(&last, &then, chunks)) look();
}
