/* Large blocks that get no memory leave nothing behind.
 *
 *     credit     60 GiB in blocks of 1 GiB are allocated and freed three times, and nothing of them is written. What was never
 *                in memory cannot be missed: of a burst of 512 MiB after it at most a tenth stays when it is freed.
 *     refused    under a limit on data of 256 MiB, four threads ask for blocks of 1 to 20 MiB until they are refused, and
 *                again. With nothing live, a block of three quarters of the limit is to be had, after the first round and the last.
 *     grown      twenty blocks grow by 1 MiB in turns until they have 800 MiB, and only their first byte is written. At most a
 *                quarter is in memory, because each of them may be on a huge page, and old places too.
 *
 * glibc's heap falls into pieces under the second: over its allocator only that all goes on is asserted. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

static const size_t mib = (size_t)1 << 20, gib = (size_t)1 << 30;

/* ── Credit ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { GIANTS = 60, ROUNDS = 3, BURST = 512, PIECE = 100000 };

static void ask_and_free_giants(void) {
    char *blocks[GIANTS];
    for (int i = 0; i < GIANTS; i++) {
        blocks[i] = t_malloc(gib);
        if (!blocks[i]) skip_test("this machine does not promise so much address space");
    }
    for (int i = 0; i < GIANTS; i++) t_free(blocks[i]);
}

static void credit(void) {
    static char *pieces[BURST * 11];
    int count = (int)(BURST * mib / PIECE);
    for (int round = 0; round < ROUNDS; round++) ask_and_free_giants();
    size_t before = counted_resident_bytes();
    for (int i = 0; i < count; i++) {
        pieces[i] = t_malloc(PIECE);
        CHECK(pieces[i], "NULL after %d blocks", i);
        memset(pieces[i], 1, PIECE);
    }
    size_t full = counted_resident_bytes();
    for (int i = 0; i < count; i++) t_free(pieces[i]);
    size_t after = counted_resident_bytes();
    printf("%zu MiB before the burst, %zu at its peak, %zu after it\n", before / mib, full / mib, after / mib);
    CHECK(full >= BURST * mib, "a burst of %d MiB that was written has %zu resident", BURST, full / mib);
    CHECK(after <= BURST * mib / 10, "%zu MiB stay of a burst of %d", after / mib, BURST);
}

/* ── Refused ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { THREADS = 4, KEPT = 32, ASKED = 4000, LIMIT = 256 };

static pthread_barrier_t all_started; /* a stack counts as data too */

static void *ask(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    pthread_barrier_wait(&all_started);
    char *blocks[KEPT] = {NULL};
    size_t refused = 0;
    for (int i = 0; i < ASKED; i++) {
        char **block = &blocks[random_below(&random, KEPT)];
        t_free(*block);
        *block = t_malloc((1 + random_below(&random, 20)) * mib);
        refused += *block == NULL;
    }
    for (int i = 0; i < KEPT; i++) t_free(blocks[i]);
    return (void *)(uintptr_t)refused;
}

static size_t ask_in_threads(uint64_t *random) {
    pthread_t threads[THREADS];
    size_t refused = 0;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_barrier_init(&all_started, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        int error = pthread_create(&threads[i], &small, ask, (void *)(uintptr_t)random_next(random));
        CHECK(error == 0, "a thread cannot start: %s", strerror(error));
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        refused += (size_t)(uintptr_t)result;
    }
    pthread_barrier_destroy(&all_started);
    pthread_attr_destroy(&small);
    return refused;
}

/* The largest block that is to be had, in MiB. */
static size_t largest(void) {
    for (size_t n = LIMIT; n > 0; n--) {
        void *block = t_malloc(n * mib);
        t_free(block);
        if (block) return n;
    }
    return 0;
}

static void refused(void) {
    uint64_t random = random_seed();
    struct rlimit limit = {LIMIT * mib, LIMIT * mib};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0, "setrlimit: %s", strerror(errno));
    size_t refusals = ask_in_threads(&random), first = largest();
    for (int round = 1; round < 5; round++) refusals += ask_in_threads(&random);
    size_t last = largest(), resident = counted_resident_bytes();
    printf("%zu refusals; the largest block: %zu MiB after a round, %zu after five; %zu KiB resident\n", refusals,
           first, last, resident >> 10);
    CHECK(refusals > 0, "nothing was refused");
    CHECK(last > 0, "no block at all is to be had");
    if (!t_is_freehold()) return;
    CHECK(first >= LIMIT / 4 * 3 && last >= LIMIT / 4 * 3, "%zu MiB after a round, %zu after five", first, last);
}

/* ── Grown ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { GROWN = 20, GROWN_TO = 40 };

static void grown(void) {
    char *blocks[GROWN] = {NULL};
    for (size_t n = 1; n <= GROWN_TO; n++) {
        for (int i = 0; i < GROWN; i++) {
            blocks[i] = t_realloc(blocks[i], n * mib);
            CHECK(blocks[i], "NULL for %zu MiB", n);
            blocks[i][0] = (char)i;
        }
    }
    size_t resident = counted_resident_bytes(), all = (size_t)GROWN * GROWN_TO * mib;
    printf("%d blocks of %d MiB that grew and were not written have %zu MiB\n", GROWN, GROWN_TO, resident / mib);
    CHECK(resident <= all / 4, "%zu of %zu MiB are in memory", resident / mib, all / mib);
    for (int i = 0; i < GROWN; i++) {
        CHECK(blocks[i][0] == (char)i, "block %d lost its first byte", i);
        t_free(blocks[i]);
    }
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count > 1 && strcmp(arguments[1], "refused") == 0) {
        refused();
    } else if (count > 1 && strcmp(arguments[1], "grown") == 0) {
        grown();
    } else {
        credit();
    }
    puts("ok");
    return 0;
}
