/* A program whose sizes change while one block in fifty of each size stays: 32 MiB of each, of which 31 could go home. So
 * what is alive is never above 40 MiB, but a heap that keeps the holes needs three times as much. Run in a control group
 * of 64 MiB by real_group.sh. Prints the most that was resident, unless it was killed. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <sys/resource.h>

enum { SIZES = 10, VOLUME = 32 << 20 };
static const size_t sizes[SIZES] = {100, 260, 600, 1400, 3000, 500, 7000, 180, 2200, 900};

int main(void) {
    size_t live = 0;
    for (size_t s = 0; s < SIZES; s++) {
        size_t count = VOLUME / sizes[s];
        void **blocks = t_malloc(count * sizeof *blocks);
        CHECK(blocks, "no memory for the list");
        for (size_t i = 0; i < count; i++) {
            blocks[i] = t_malloc(sizes[s]);
            CHECK(blocks[i], "no memory for blocks of %zu", sizes[s]);
            memset(blocks[i], 1, sizes[s]);
        }
        /* Survivors lie together, twenty pages apart from the next ones: whole pages between them are free. */
        size_t together = 4096 / sizes[s] + 1;
        for (size_t i = 0; i < count; i++) {
            if (i / together % 50 == 0) {
                live += sizes[s];
            } else {
                t_free(blocks[i]);
            }
        }
        t_free(blocks);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%zu MiB alive, %ld MiB resident at most\n", live >> 20, usage.ru_maxrss >> 10);
    return 0;
}
