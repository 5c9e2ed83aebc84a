/* Two copies of the library in one process, without address space randomisation: this program has one of its own, and the other
 * is preloaded. Each finds a window, and can have 6 GiB in it. */
#include "../support/check.h"

#include <freehold/freehold.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/personality.h>

enum { BLOCKS = 6 };

static void *checked(void *block, const char *what, int i) {
    CHECK(block, "%s: NULL after %d GiB", what, i);
    *(volatile char *)block = 1;
    return block;
}

int main(int count, char **words) {
    const size_t gib = (size_t)1 << 30;
    void *own[BLOCKS], *others[BLOCKS];
    int persona = personality(0xFFFFFFFF);
    if (persona < 0 || (count == 1 && personality((unsigned long)persona | ADDR_NO_RANDOMIZE) < 0))
        skip_test("personality is not allowed here");
    if (count == 1) {
        execl("/proc/self/exe", words[0], "again", (char *)NULL);
        CHECK(false, "exec: %s", strerror(errno));
    }
    for (int i = 0; i < BLOCKS; i++) {
        own[i] = checked(fh_malloc(gib), "fh_malloc", i);
        others[i] = checked(malloc(gib), "malloc", i);
    }
    printf("fh_malloc has %p, malloc %p\n", own[0], others[0]);
    for (int i = 0; i < BLOCKS; i++) {
        fh_free(own[i]);
        free(others[i]);
    }
    CHECK(fh_verify() == 0, "the heap is not whole");
    return 0;
}
