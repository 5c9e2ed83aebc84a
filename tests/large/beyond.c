/* A block larger than all memory and swap. Linux refuses such a mapping at once where vm.overcommit_memory is 0, and programs
 * rely on it: who reads a length from a file and asks for so much wants NULL, and not to be killed at the first use.
 *
 * Less than that is had, also several times, because only what is touched has memory. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <errno.h>
#include <sys/sysinfo.h>

static size_t memory_and_swap(void) {
    struct sysinfo s;
    CHECK(sysinfo(&s) == 0, "sysinfo");
    return (size_t)(s.totalram + s.totalswap) * s.mem_unit;
}

static bool guesses(void) {
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
    int mode = file ? fgetc(file) : '0';
    if (file) fclose(file);
    return mode == '0';
}

static void check_refused(const char *call, const void *p, size_t n) {
    CHECK(!p && errno == ENOMEM, "%s of %zu bytes, more than there can be: %p, errno %d", call, n, p, errno);
    errno = 0;
}

int main(void) {
    if (!guesses()) skip_test("vm.overcommit_memory is not 0");
    size_t all = memory_and_swap(), more = all + ((size_t)1 << 30), part = all / 3 * 2;
    if (more >= (size_t)256 << 30) skip_test("the window of addresses is hardly larger than this machine");
    char *small = t_malloc(100);
    CHECK(small, "100 bytes");
    strcpy(small, "kept");
    errno = 0;
    check_refused("malloc", t_malloc(opaque(more)), more);
    check_refused("calloc", t_calloc(opaque(more / 16), 16), more);
    check_refused("memalign", t_memalign(1 << 20, opaque(more)), more);
    check_refused("realloc", t_realloc(small, opaque(more)), more);
    CHECK(strcmp(small, "kept") == 0, "realloc changed the block that it left");
    t_free(small);

    char *two[2];
    for (int i = 0; i < 2; i++) {
        two[i] = t_malloc(opaque(part));
        CHECK(two[i], "block %d of %zu bytes", i, part);
        two[i][part - 1] = 1;
    }
    t_free(two[1]);
    /* What is asked for is a third of the machine, though the block is larger than it. */
    char *longer = t_realloc(two[0], opaque(part * 2));
    CHECK(longer && longer[part - 1] == 1, "realloc from %zu to %zu bytes", part, part * 2);
    t_free(longer);
    puts("ok");
    return 0;
}
