/* Large blocks are cut out of chunks, and when all of them are free again, each chunk must be one free run, whatever was cut
 * in which order and by whom. Threads make, grow, shrink and free blocks of 64 KiB to 2 MiB at random, also each other's,
 * in an order that leaves as many splinters as it can; then nothing may be left of it: no slot in use but the allocator's
 * own, no chunk that is not found as whole. */
#include "../support/alloc.h"
#include "../support/check.h"

#include "base/types.h"
#include "store/window.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TABLE = 400, MOST_THREADS = 32 };

static _Atomic(char *) table[TABLE];
static long rounds;

static size_t any_size(uint64_t *random) {
    size_t most = random_below(random, 4) ? 5 : 32;
    return (random_below(random, most) + 1) * FH_SLOT_SIZE + random_below(random, FH_SLOT_SIZE) + 1;
}

/* First and last byte hold what the block's size says, so that two blocks in one place would be seen. */
static char *stamp(char *p, size_t n) {
    CHECK(p, "malloc(%zu): NULL", n);
    size_t usable = t_usable_size(p);
    CHECK(usable >= n, "%zu usable bytes of %zu", usable, n);
    p[0] = p[usable - 1] = (char)(usable >> FH_SLOT_SHIFT);
    return p;
}

static void check(const char *p) {
    size_t usable = t_usable_size((void *)p);
    char wanted = (char)(usable >> FH_SLOT_SHIFT);
    CHECK(p[0] == wanted && p[usable - 1] == wanted, "a block of %zu was overwritten", usable);
}

static char *changed(char *p, uint64_t *random) {
    size_t n = any_size(random);
    if (!p) {
        bool aligned = random_below(random, 8) == 0;
        size_t align = FH_SLOT_SIZE << random_below(random, 5);
        return stamp(aligned ? t_aligned_alloc(align, (n + align - 1) & ~(align - 1)) : t_malloc(n), n);
    }
    check(p);
    if (random_below(random, 3)) {
        t_free(p);
        return NULL;
    }
    return stamp(t_realloc(p, n), n);
}

static void *work(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    for (long i = 0; i < rounds; i++) {
        char *p = atomic_exchange(&table[random_below(&random, TABLE)], NULL);
        p = changed(p, &random);
        if (!p) continue;
        p = atomic_exchange(&table[random_below(&random, TABLE)], p);
        if (p) {
            check(p);
            t_free(p);
        }
    }
    return NULL;
}

static void run(int threads, uint64_t *random) {
    pthread_t ids[MOST_THREADS];
    rounds = 60000 / threads;
    for (int i = 0; i < threads; i++) {
        CHECK(pthread_create(&ids[i], NULL, work, (void *)(uintptr_t)random_next(random)) == 0, "pthread_create");
    }
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < TABLE; i++) {
        char *p = atomic_exchange(&table[i], NULL);
        if (p) check(p);
        t_free(p);
    }
}

/* Slots in use, and the pieces that the free ones of all chunks are in. */
static void look(size_t *used, size_t *whole) {
    *used = *whole = 0;
    for (size_t chunk = 0; chunk < fh_window_chunks(); chunk++) {
        uint64_t free = fh_load_acquire(&fh_chunk_at(chunk)->free);
        *used += FH_CHUNK_SLOTS - fh_count_bits(free);
        *whole += free == ~UINT64_C(0);
    }
}

int main(void) {
    uint64_t random = random_seed();
    static const int threads[] = {1, 2, 8, MOST_THREADS};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        run(threads[i], &random);
        t_thread_flush();
        t_malloc_trim(0);
        size_t used, whole, chunks = fh_window_chunks();
        look(&used, &whole);
        printf("%2d threads: %zu chunks, %zu of them one free run, %zu slots in use\n", threads[i], chunks, whole,
               used);
        /* The main thread's cache, and the magazines of its bins, lie in a few slabs of one chunk. */
        CHECK(whole + 1 >= chunks, "%zu of %zu chunks are one free run", whole, chunks);
        CHECK(used <= 12, "%zu slots are in use by nobody", used);
        /* And they are found as what they are: two blocks of 2 MiB fit into each, and no chunk has to be brought. */
        static char *halves[4096];
        size_t fit = 2 * whole < 4096 ? 2 * whole : 4096;
        for (size_t k = 0; k < fit; k++) halves[k] = stamp(t_malloc(2 * FH_MIB), 2 * FH_MIB);
        CHECK(fh_window_chunks() == chunks, "%zu chunks became %zu", chunks, fh_window_chunks());
        for (size_t k = 0; k < fit; k++) t_free(halves[k]);
    }
    return 0;
}
