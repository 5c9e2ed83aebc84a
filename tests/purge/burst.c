/* A burst and then sleep: 512 MiB of 64-byte blocks are allocated and freed, and the program does nothing more. At most
 * a tenth of its peak may stay, although nobody calls the allocator again and no helper thread exists. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <dirent.h>

enum { SIZE = 64, COUNT = (512 << 20) / SIZE };

static int threads_of_process(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder && (entry = readdir(folder));) count += entry->d_name[0] != '.';
    if (folder) closedir(folder);
    return count;
}

int main(void) {
    void **chain = NULL;
    for (int i = 0; i < COUNT; i++) {
        void **block = t_malloc(SIZE);
        CHECK(block, "malloc: NULL");
        memset(block, 1, SIZE);
        *block = chain;
        chain = block;
    }
    size_t peak = resident_bytes();
    CHECK(peak >= (size_t)SIZE * COUNT, "the blocks are not there: %zu MiB", peak >> 20);
    while (chain) {
        void **next = *chain;
        t_free(chain);
        chain = next;
    }
    size_t at_once = resident_bytes();
    usleep(1000000);
    size_t later = resident_bytes();
    printf("peak %zu MiB, after the last free %zu MiB, a second later %zu MiB\n", peak >> 20, at_once >> 20,
           later >> 20);
    CHECK(later * 10 <= peak, "%zu of %zu MiB stayed", later >> 20, peak >> 20);
    CHECK(threads_of_process() == 1, "%d threads", threads_of_process());
    return 0;
}
