/* Huge blocks. Their table and counters are static, so this file is store/huge.c with something added: the linker takes it
 * instead of the library's. */
#include "store/huge.c"

#include "../support/check.h"
#include "break.h"

/* The first block of the table. */
static void first_one(void *context, uintptr_t begin, size_t size) {
    (void)size;
    if (!*(uintptr_t *)context) *(uintptr_t *)context = begin;
}
static void *first_block(void) {
    uintptr_t begin = 0;
    fh_huge_each(first_one, &begin);
    CHECK(begin, "no huge block to break");
    return (void *)begin;
}

static void entry_forgotten(void) {
    fh_store(entry_of(first_block()), 0);
}
static void one_too_many(void) {
    fh_add_relaxed(&live_count, 1);
}
static void cached_off(void) {
    fh_add_relaxed(&fh_counts.huge_cached, 4096);
}
static void slot_forgotten(void) {
    for (unsigned i = 0; i < FH_HUGE_CACHE_SLOTS; i++) {
        if (!fh_load(&cache[i])) continue;
        fh_store(&cache[i], 0);
        return;
    }
    CHECK(false, "nothing is cached");
}
static void block_in_block(void) {
    enter((char *)first_block() + UNIT, UNIT);
}
static void kept_and_live(void) {
    size_t bytes;
    void *p = fh_huge_kept(FH_HUGE_KEPT - 1, &bytes);
    CHECK(p, "no block was freed last");
    enter(p, bytes);
}

const breakage break_huge[] = {
    {FH_EQUATION_HUGE_LIVE, "a block is not in the table", entry_forgotten},
    {FH_EQUATION_HUGE_LIVE, "one block too many", one_too_many},
    {FH_EQUATION_HUGE_CACHED, "cached bytes that are nowhere", cached_off},
    {FH_EQUATION_HUGE_CACHED, "a slot of the cache is forgotten", slot_forgotten},
    {FH_EQUATION_HUGE_OVERLAP, "a block within another", block_in_block},
    {FH_EQUATION_HUGE_OVERLAP, "a block that is live and kept", kept_and_live},
};
const unsigned break_huge_count = sizeof break_huge / sizeof break_huge[0];
