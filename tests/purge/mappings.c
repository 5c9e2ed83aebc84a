/* A heap of 60 GiB that is hardly touched, and then one with holes in it: the kernel keeps a record for each mapping and
 * allows 65,530 of them by default, and some machines far fewer. Neighbouring chunks must be one mapping. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <fcntl.h>

enum { BLOCKS = 60 << 10, BLOCK = 1 << 20, FEW = 200, HUGE = 256 << 20 };

static void *blocks[BLOCKS], *huge[FEW];

static int mappings(void) {
    static char text[65536];
    int count = 0, file = open("/proc/self/maps", O_RDONLY);
    for (ssize_t got; (got = read(file, text, sizeof text)) > 0;) {
        for (ssize_t i = 0; i < got; i++) count += text[i] == '\n';
    }
    close(file);
    return count;
}

int main(void) {
    int before = mappings();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = t_malloc(BLOCK);
        if (!blocks[i]) skip_test("this machine does not promise 60 GiB");
    }
    int full = mappings();
    for (int i = 0; i < FEW; i++) huge[i] = t_malloc(HUGE);
    int with_huge = mappings();
    for (int i = 0; i < FEW; i++) t_free(huge[i]);
    /* Every second block goes, and some that were written to: no path may split a mapping for each. */
    for (int i = 0; i < BLOCKS; i += 64) *(volatile char *)blocks[i] = 1;
    for (int i = 0; i < BLOCKS; i += 2) t_free(blocks[i]);
    t_malloc_trim(0);
    int holes = mappings();
    printf("mappings: %d at first, %d with 60 GiB, %d with 50 GiB of huge blocks besides, %d with holes\n", before,
           full, with_huge, holes);
    CHECK(full < 1000 && with_huge < 1000 && holes < 1000, "%d, %d, %d mappings; 1,000 are the most", full, with_huge,
          holes);
    for (int i = 1; i < BLOCKS; i += 2) t_free(blocks[i]);
    return 0;
}
