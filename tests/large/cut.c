/* realloc of a long block that the program's own advice has cut into several mappings, when the kernel has hardly any mapping
 * left. Moving its pages then fails at the beginning, in the middle or not at all. Whatever it does, the block's content stays:
 * in the new block, or in the old one if realloc refuses. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/pattern.h"
#include "../support/processes.h"

#include <sys/mman.h>

#ifndef MADV_DONTDUMP
#define MADV_DONTDUMP 16
#endif

enum { MOST_LEFT = 24, STEP = 2 };
static const size_t mib = (size_t)1 << 20, size = (size_t)9 << 20;

/* Cuts every second 128 KiB of it out of the mapping that its neighbours are in. */
static void cut(char *block) {
    char *begin = block + (-(uintptr_t)block & (2 * mib - 1));
    for (char *p = begin; p + mib < block + size; p += mib / 4) madvise(p, mib / 8, MADV_DONTDUMP);
}

/* Uses up mappings until so many are left. */
static void leave(size_t left) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), most = kernel_number("/proc/sys/vm/max_map_count", 65530);
    char *range = mmap(NULL, 2 * most * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(range != MAP_FAILED, "mmap");
    size_t now = mapping_count();
    for (size_t i = 1; now + 2 + left <= most; i += 2, now += 2) {
        if (mprotect(range + i * page, page, PROT_READ) != 0) break;
    }
}

static void move(void *left) {
    char *before = t_malloc(300 * mib), *block = t_malloc(size);
    CHECK(before && block, "malloc: NULL");
    for (int i = 0; i < 12; i++) CHECK(t_malloc(1200000), "malloc: NULL"); /* neighbours are in the way */
    pattern_fill(block, size, 1);
    t_free(before);
    cut(block);
    leave(*(size_t *)left);
    char *moved = t_realloc(block, size + 8 * mib);
    long wrong = pattern_wrong(moved ? moved : block, size, 1);
    CHECK(wrong < 0, "%s, and byte %ld is wrong", moved ? "moved" : "refused", wrong);
}

int main(int count, char **words) {
    if (kernel_number("/proc/sys/vm/max_map_count", 65530) > 200000) skip_test("there is no end of mappings here");
    if (count > 1) move(&(size_t){strtoul(words[1], NULL, 0)}); /* for a debugger */
    for (size_t left = 2; left <= MOST_LEFT && count == 1; left += STEP) {
        int status = run_in_child(move, &left);
        CHECK(status == 0, "with %zu mappings left: status %#x", left, (unsigned)status);
    }
    puts("ok");
    return 0;
}
