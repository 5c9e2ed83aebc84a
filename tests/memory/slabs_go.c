/* A slab goes with its last block: of each size 8 MiB are taken and freed, and what stays free is in two of the longest slabs at
 * most. No call asks for anything to be given back. A release that is missed is made up for only when memory is looked for, so
 * nothing else would show it. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/statistics.h"

#include <freehold/freehold.h>

#include <stdlib.h>

enum { MIB = 1 << 20, BYTES = 8 * MIB, LARGEST = 64 << 10, STAYS = 2 * MIB };

static size_t free_in_slabs(void) {
    static char text[1 << 17];
    CHECK(fh_stats_json(text, sizeof text) < sizeof text, "the statistics are longer than %zu bytes", sizeof text);
    return statistic(text, "free_bytes");
}

static void *blocks[BYTES / 16];

/* Returns the bytes that stay. */
static size_t go_through(size_t size, bool reverse) {
    size_t count = BYTES / size, before = free_in_slabs();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = t_malloc(size);
        CHECK(blocks[i], "malloc(%zu): NULL", size);
    }
    for (size_t i = 0; i < count; i++) t_free(blocks[reverse ? count - 1 - i : i]);
    size_t after = free_in_slabs();
    return after > before ? after - before : 0;
}

int main(void) {
    size_t most = 0, sizes = 0, of = 0;
    for (size_t size = 16; size <= LARGEST; sizes++) {
        for (int reverse = 0; reverse < 2; reverse++) {
            size_t stays = go_through(size, reverse);
            CHECK(stays <= STAYS, "of %d KiB in blocks of %zu bytes %zu KiB stay in slabs, freed in %s order",
                  BYTES >> 10, size, stays >> 10, reverse ? "reverse" : "the same");
            if (stays > most) most = stays, of = size;
        }
        /* The first size of the next class. */
        void *block = t_malloc(size);
        CHECK(block, "malloc(%zu): NULL", size);
        size = t_usable_size(block) + 1;
        t_free(block);
    }
    printf("%zu sizes: %zu KiB stay at most, of %zu bytes\n", sizes, most >> 10, of);
    CHECK(sizes > 100, "only %zu sizes", sizes);
    return 0;
}
