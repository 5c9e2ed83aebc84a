/* A heap of 60 GiB that is hardly touched, then one with holes in it, then blocks that grow and move: the kernel keeps a record for each mapping and
 * allows 65,530 of them by default, and some machines far fewer. Neighbouring chunks must be one mapping. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { BLOCKS = 60 << 10, BLOCK = 1 << 20, FEW = 200, HUGE = 256 << 20, MOVED = 3000, MOVES_FROM = (2 << 20) + 4096 };

static void *blocks[BLOCKS], *huge[MOVED];

static int mappings(void) {
    static char text[65536];
    int count = 0, file = open("/proc/self/maps", O_RDONLY);
    for (ssize_t got; (got = read(file, text, sizeof text)) > 0;) {
        for (ssize_t i = 0; i < got; i++) count += text[i] == '\n';
    }
    close(file);
    return count;
}

/* Each block has a neighbour and grows, so it moves by its pages until there are too many mappings, and then by its bytes. What
 * was moved is a mapping of its own until it is purged. What stays then is where a chunk is on huge pages, because a block
 * grew there, and its neighbour is not: less than a mapping for each chunk. */
static void move_blocks(void) {
    int before = mappings(), most = before;
    for (int i = 0; i < MOVED; i++) {
        huge[i] = t_malloc(MOVES_FROM);
        if (!huge[i]) {
            skip_part("this machine does not promise 20 GiB");
            return;
        }
        *(volatile char *)huge[i] = 1;
    }
    for (int i = 0; i < MOVED; i++) {
        huge[i] = t_realloc(huge[i], 2 * MOVES_FROM);
        CHECK(huge[i] && *(char *)huge[i] == 1, "moved, and its bytes are lost");
        if (i % 500 == 499 && mappings() > most) most = mappings();
    }
    for (int i = 0; i < MOVED; i++) t_free(huge[i]);
    t_malloc_trim(0);
    int after = mappings();
    printf("mappings: %d at most while %d blocks moved, %d when they are freed\n", most, MOVED, after);
    CHECK(most > before + 1000, "%d mappings: nothing was moved, and this shows nothing", most);
    CHECK(most < 20000, "%d mappings; a third of what the kernel allows are the most", most);
    CHECK(after < before + MOVED * (MOVES_FROM / 4096) * 3 / 1024, "%d mappings stay of %d", after, most);
}

int main(void) {
    /* In chunks without huge pages, where a byte that is touched is a page and not 2 MiB: in a heap of its own. */
    pid_t child = fork();
    if (child == 0) {
        move_blocks();
        exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "blocks that move: status %x",
          (unsigned)status);
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
