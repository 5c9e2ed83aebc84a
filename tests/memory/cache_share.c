/* What a thread caches of small blocks is a quarter of what is in use at most, but a MiB in any case. A program of 2 MiB that went
 * through a few sizes once cached nearly all of it. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/statistics.h"

#include <freehold/freehold.h>

#include <stdlib.h>

enum { BLOCKS = 500, ROUNDS = 6, MIB = 1 << 20 };

/* Bytes that threads cache, after each of ten sizes was allocated and freed, over and over. */
static size_t cached_after(size_t *in_use) {
    static void *block[BLOCKS];
    static char text[1 << 17];
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t size = 64; size <= 640; size += 64) {
            for (int i = 0; i < BLOCKS; i++) {
                block[i] = t_malloc(size);
                CHECK(block[i], "malloc(%zu): NULL", size);
            }
            for (int i = 0; i < BLOCKS; i++) t_free(block[i]);
        }
    }
    CHECK(fh_stats_json(text, sizeof text) < sizeof text, "the statistics are longer than %zu bytes", sizeof text);
    *in_use = statistic(text, "limit_in_use");
    return statistic(text, "thread_cached_bytes");
}

int main(void) {
    size_t in_use, small = cached_after(&in_use), most = in_use / 4 > MIB ? in_use / 4 : MIB;
    printf("a heap of %zu KiB: %zu KiB cached, at most %zu\n", in_use >> 10, small >> 10, most >> 10);
    CHECK(in_use < 8 * (size_t)MIB, "%zu KiB in use is not a small heap", in_use >> 10);
    CHECK(small <= most, "%zu KiB cached of %zu in use", small >> 10, in_use >> 10);
    /* In a large heap the same calls may leave more: the bound is a share, not a MiB. */
    char *large = t_malloc(32 * (size_t)MIB);
    CHECK(large, "no memory");
    size_t more = cached_after(&in_use);
    printf("a heap of %zu KiB: %zu KiB cached\n", in_use >> 10, more >> 10);
    CHECK(more > MIB && more <= 2 * (size_t)MIB, "%zu KiB cached of %zu in use", more >> 10, in_use >> 10);
    t_free(large);
    puts("ok");
    return 0;
}
