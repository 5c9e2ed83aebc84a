/* Memory that a program has locked: mlockall(MCL_FUTURE | MCL_ONFAULT). The kernel does not drop locked pages
 * by MADV_DONTNEED. What is freed must be zero for calloc, and it must not come into memory for that.
 *
 *     sparse     only what is touched is locked (MCL_ONFAULT): of a long block two pages are. After its end no more are
 *     returned   blocks that were written to are freed: their memory returns to the OS */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/pattern.h"

#include <sys/mman.h>

enum { LONG = 1 << 30, BLOCK = 4 << 20, BLOCKS = 40 };

static const size_t mib = 1 << 20;

static void sparse(void) {
    size_t before = counted_resident_bytes();
    for (int i = 0; i < 3; i++) {
        char *p = t_malloc(LONG);
        CHECK(p, "1 GiB");
        p[0] = p[LONG / 2] = 1;
        t_free(p);
        p = t_calloc(1, LONG);
        CHECK(p && p[0] == 0 && p[LONG / 2] == 0, "calloc of 1 GiB is not zero");
        t_free(p);
    }
    t_malloc_trim(0);
    size_t now = counted_resident_bytes();
    CHECK(now < before + 32 * mib, "%zu MiB are resident, and %zu were, for two pages that were touched", now / mib,
          before / mib);
}

static void returned(void) {
    char *block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = t_malloc(BLOCK);
        CHECK(block[i], "4 MiB");
        memset(block[i], 1, BLOCK);
    }
    size_t before = counted_resident_bytes();
    for (int i = 0; i < BLOCKS; i++) t_free(block[i]);
    t_malloc_trim(0);
    size_t now = counted_resident_bytes();
    CHECK(now + 100 * mib < before, "of %zu MiB %zu are resident after all is free", before / mib, now / mib);
    char *p = t_calloc(1, LONG / 16);
    long wrong = first_not_zero(p, LONG / 16);
    CHECK(wrong < 0, "calloc: byte %ld is not zero", wrong);
    t_free(p);
}

int main(int count, char **words) {
    CHECK(count == 2, "usage: %s sparse or returned", words[0]);
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) skip_test("this process may not lock memory");
    if (strcmp(words[1], "sparse") == 0) {
        sparse();
    } else {
        returned();
    }
    puts("ok");
    return 0;
}
