/* What a thread makes and drops over and over has to fit into the depot up to the same MiB, whatever the size of a block: what
 * does not fit goes through the slabs in every round. The depot's slots are counted in magazines, and the smallest blocks fill
 * so little with one that they need more slots. */
#include "../support/alloc.h"
#include "../support/check.h"

#include "base/classes.h"
#include "store/depot.h"

enum { MOST = 100000, ROUNDS = 8, ATTEMPTS = 5, PER_CENT_AT_LEAST = 75, BOUND = 1 << 20 };

static void *block[MOST];

/* Bytes of blocks of that size in the depot, after more than a MiB of them has come and gone some times. */
static size_t held(size_t size) {
    int n = (int)((size_t)BOUND * 3 / 2 / size);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < n; i++) {
            block[i] = t_malloc(size);
            CHECK(block[i], "malloc: NULL");
        }
        for (int i = 0; i < n; i++) t_free(block[i]);
    }
    return fh_depot_blocks((unsigned)(size / 16)) * size;
}

int main(void) {
    static const size_t sizes[] = {16, 32, 64, 128};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = 0;
        /* More than once: a heap that stands still for a second, as on a busy machine, empties its depots. */
        for (int k = 0; k < ATTEMPTS && bytes < (size_t)BOUND * PER_CENT_AT_LEAST / 100; k++) bytes = held(sizes[i]);
        printf("%zu bytes: the depot holds %zu KiB\n", sizes[i], bytes >> 10);
        CHECK(bytes >= (size_t)BOUND * PER_CENT_AT_LEAST / 100, "the depot holds only %zu bytes in blocks of %zu",
              bytes, sizes[i]);
        /* A thread that is moved leaves what it had near the processor that it ran on: four depots at most. */
        CHECK(bytes <= (size_t)BOUND * 4 + BOUND / 2, "the depots hold %zu bytes in blocks of %zu", bytes, sizes[i]);
    }
    return 0;
}
