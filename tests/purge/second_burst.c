/* Two bursts, then hardly anything: 256 MiB of 512-byte blocks are allocated and freed twice. The second burst shows that what
 * the first one gave back was missed, so the credit keeps all of it. It halves every second; but a program that neither
 * takes nor releases a slot has to notice, or everything stays. After three seconds and a few small blocks, half may stay. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <sys/mman.h>

enum { SIZE = 512, COUNT = (256 << 20) / SIZE, SMALL = 20000 };

static void burst(void **block) {
    for (int i = 0; i < COUNT; i++) {
        block[i] = t_malloc(SIZE);
        CHECK(block[i], "malloc: NULL");
        memset(block[i], 1, SIZE);
    }
    for (int i = 0; i < COUNT; i++) t_free(block[i]);
}

/* Slow paths, but no slot more or less. */
static void small_things(void) {
    for (int i = 0; i < SMALL; i++) t_free(t_malloc((size_t)(100 + i % 2000)));
}

int main(void) {
    size_t bytes = COUNT * sizeof(void *);
    void **block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(block != MAP_FAILED, "mmap");
    size_t before = resident_bytes();
    burst(block);
    burst(block);
    size_t freed = resident_bytes() - before;
    usleep(3000000);
    small_things();
    size_t later = resident_bytes() - before;
    printf("%zu MiB twice: %zu MiB stay, three seconds and some small blocks later %zu MiB\n",
           (size_t)SIZE * COUNT >> 20, freed >> 20, later >> 20);
    CHECK(later <= (size_t)SIZE * COUNT / 2, "%zu MiB stayed", later >> 20);
    return 0;
}
