/* Which slabs of a cold class are opened to other sizes (src/reclaim/cold.c): those that are mostly free. A slab of which half is
 * free has few holes that a guest fits into, and each of its own blocks takes the slow way when it is freed. The store itself is
 * asked where the blocks are that have stayed. */
#include "../support/alloc.h"
#include "../support/check.h"

#include "store/holes.h"

enum { SMALL = 48, LARGE = 1000, BLOCKS = (24 << 20) / SMALL, LATER = (64 << 20) / LARGE };

static void *small[BLOCKS], *large[LATER];

/* Of the class's blocks `free` in eight are freed at random. Returns of how many in a hundred that have stayed the slab is
 * borrowed, once the heap has grown by another size. */
static size_t opened(uint64_t free, uint64_t *random) {
    size_t stayed = 0, borrowed = 0;
    for (size_t i = 0; i < BLOCKS; i++) CHECK(small[i] = t_malloc(SMALL), "malloc: NULL");
    for (size_t i = 0; i < BLOCKS; i++) {
        if (random_below(random, 8) >= free) continue;
        t_free(small[i]);
        small[i] = NULL;
    }
    for (size_t i = 0; i < LATER; i++) CHECK(large[i] = t_malloc(LARGE), "malloc: NULL");
    for (size_t i = 0; i < BLOCKS; i++) {
        stayed += small[i] != NULL;
        borrowed += small[i] && fh_holes_has(small[i]);
    }
    for (size_t i = 0; i < BLOCKS; i++) t_free(small[i]);
    for (size_t i = 0; i < LATER; i++) t_free(large[i]);
    t_malloc_trim(0);
    printf("%d in 8 are free: %zu of %zu are in borrowed slabs\n", (int)free, borrowed, stayed);
    return borrowed * 100 / stayed;
}

int main(void) {
    uint64_t random = random_seed();
    size_t half = opened(4, &random), most = opened(7, &random);
    CHECK(half <= 2, "%zu %% of what stayed is in borrowed slabs, of which half is free", half);
    CHECK(most >= 50, "%zu %% of what stayed is in borrowed slabs, of which most is free", most);
    return 0;
}
