/* malloc_trim(0) gives everything back at once: what the calling thread has in its magazines, what the depots hold, the
 * slabs that are all free, freed large and huge blocks. A few MiB of the allocator's records about the heap may stay. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

enum { BLOCKS = 12000 };

static void *blocks[BLOCKS];

/* Blocks of all sizes, small ones mostly, and one in a hundred up to 4 MiB. */
static size_t some_size(uint64_t *random) {
    uint64_t which = random_below(random, 100);
    if (which == 0) return random_below(random, 4 << 20) + 1;
    return random_below(random, which < 70 ? 1024 : 32768) + 1;
}

static size_t fill(uint64_t *random) {
    size_t bytes = 0;
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = some_size(random);
        blocks[i] = t_malloc(size);
        CHECK(blocks[i], "malloc(%zu): NULL", size);
        memset(blocks[i], 1, size);
        bytes += size;
    }
    return bytes;
}

int main(void) {
    uint64_t random = random_seed();
    t_free(t_malloc(1));
    size_t before = resident_bytes();
    for (int round = 0; round < 3; round++) {
        size_t bytes = fill(&random), peak = resident_bytes();
        CHECK(peak >= bytes, "%zu MiB were written, %zu are resident", bytes >> 20, peak >> 20);
        for (int i = 0; i < BLOCKS; i++) t_free(blocks[i]);
        size_t freed = resident_bytes();
        int given = t_malloc_trim(0);
        size_t after = resident_bytes();
        printf("%zu MiB live, %zu resident; freed: %zu; trimmed: %zu KiB more than at first, malloc_trim said %d\n",
               bytes >> 20, peak >> 20, freed >> 20, (after - before) >> 10, given);
        CHECK(given == 1, "malloc_trim gave nothing back, it says");
        /* 576 bytes of record for each 64 KiB are 1 %; as much again for what a thread cache is. */
        CHECK(after - before <= peak / 64 + (2 << 20), "%zu KiB stayed of %zu", (after - before) >> 10, peak >> 10);
        CHECK(t_malloc_trim(0) == 0, "a second malloc_trim found something that the first had left");
    }
    /* Bytes to keep are kept, if they are there. */
    fill(&random);
    for (int i = 0; i < BLOCKS; i++) t_free(blocks[i]);
    t_malloc_trim(0);
    fill(&random);
    for (int i = 0; i < BLOCKS; i++) t_free(blocks[i]);
    size_t keep = 4 << 20, peak = resident_bytes();
    t_malloc_trim(keep);
    CHECK(resident_bytes() <= peak, "trimming with %zu bytes to keep made the process larger", keep);
    return 0;
}
