/* Memory runs out, for real: allocates until NULL, under whatever limit the caller of this program has set
 * (`ulimit -v`, `ulimit -d`, strict overcommit; see limits.sh), and recovers.
 *
 *   - NULL comes with ENOMEM, never as a crash or a block that faults when it is touched;
 *   - most of what the limit allows can really be had: argument 1 is the least in MiB, argument 2 the most that will
 *     be asked for (so that a test without a limit ends, too);
 *   - after freeing, the same amount can be had again, in blocks of another size. */
#include "../support/alloc.h"
#include "../support/check.h"

#include <errno.h>

/* Blocks are chained through their first word: nothing else may need memory here. */
struct link {
    struct link *next;
};

static struct link *fill(size_t size, size_t most, size_t *got) {
    struct link *chain = NULL;
    *got = 0;
    while (*got < most) {
        errno = 0;
        struct link *block = t_malloc(size);
        if (!block) {
            CHECK(errno == ENOMEM, "malloc(%zu) failed with errno %d", size, errno);
            break;
        }
        for (size_t i = 0; i < size; i += 4096) {
            ((char *)block)[i] = 1;
        }
        ((char *)block)[size - 1] = 1;
        block->next = chain;
        chain = block;
        *got += size;
    }
    return chain;
}

/* Frees all of a chain, or every other block of it. */
static struct link *drain(struct link *chain, int every_other) {
    struct link *kept = NULL;
    for (int i = 0; chain; i++) {
        struct link *next = chain->next;
        if (every_other && i % 2) {
            chain->next = kept;
            kept = chain;
        } else {
            t_free(chain);
        }
        chain = next;
    }
    return kept;
}

/* At the limit every call must fail as it should, leave what it was given alone, and free must still work. */
static void at_the_limit(void) {
    static const size_t large = (size_t)1 << 40;
    char *block = t_malloc(8);
    errno = 0;
    CHECK(!t_calloc(1, large) && errno == ENOMEM, "calloc at the limit: errno %d", errno);
    errno = 0;
    CHECK(!t_aligned_alloc(4096, large) && errno == ENOMEM, "aligned_alloc at the limit: errno %d", errno);
    void *unchanged = &block;
    CHECK(t_posix_memalign(&unchanged, 64, large) == ENOMEM, "posix_memalign at the limit");
    if (block) {
        memset(block, 'x', 8);
        CHECK(!t_realloc(block, large) && memcmp(block, "xxxxxxxx", 8) == 0, "realloc at the limit");
        t_free(block);
    }
}

int main(int count, char **arguments) {
    size_t least = (count > 1 ? strtoull(arguments[1], NULL, 0) : 0) << 20;
    size_t most = (count > 2 ? strtoull(arguments[2], NULL, 0) : 512) << 20;
    static const size_t sizes[] = {64, 5000, 200000, 5000000, 300};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t got, again;
        struct link *chain = fill(sizes[i], most, &got);
        at_the_limit();
        CHECK(got >= least, "blocks of %zu: only %zu MiB before NULL", sizes[i], got >> 20);
        /* Half of them back, one here and one there: as many must then be had again. */
        chain = drain(chain, 1);
        struct link *second = fill(sizes[i], got / 2, &again);
        CHECK(again >= got / 2 - got / 16, "blocks of %zu: %zu MiB, half freed, then only %zu MiB", sizes[i], got >> 20,
              again >> 20);
        drain(second, 0);
        drain(chain, 0);
        printf("blocks of %zu: %zu MiB, then %s\n", sizes[i], got >> 20, got < most ? "ENOMEM" : "enough");
        fflush(stdout);
    }
    return 0;
}
