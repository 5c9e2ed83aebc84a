/* No header on a block: eight million blocks of 64 bytes may cost 1.03 times their payload, all of the process
 * counted.  The blocks are chained through themselves, so that the list of them costs nothing. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

enum { COUNT = 8000000, SIZE = 64 };

int main(void) {
    size_t before = resident_bytes();
    void **chain = NULL;
    for (int i = 0; i < COUNT; i++) {
        void **block = t_malloc(SIZE);
        CHECK(block, "malloc: NULL");
        memset(block, 1, SIZE);
        *block = chain;
        chain = block;
    }
    size_t after = resident_bytes();
    double ratio = (double)after / ((double)COUNT * SIZE);
    printf("%d blocks of %d bytes: resident %zu MiB (before: %zu KiB), %.4f of the payload\n", COUNT, SIZE, after >> 20,
           before >> 10, ratio);
    /* The system's allocator has a header; there this program only shows that the measure sees it. */
    CHECK(!t_is_freehold() || ratio <= 1.03, "%.4f of the payload; 1.03 is the most", ratio);
    CHECK(ratio >= 1.0, "%.4f of the payload: the blocks are not there", ratio);
    int count = 0;
    while (chain) {
        void **next = *chain;
        t_free(chain);
        chain = next;
        count++;
    }
    CHECK(count == COUNT, "%d blocks in the chain", count);
    return 0;
}
