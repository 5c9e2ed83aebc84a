/* No block is handed out twice, and none is lost: threads that allocate, pass each other blocks and free them, with 2 to 16
 * at once. Every block is stamped by an atomic exchange when it comes and when it goes, so that whoever gets a block that
 * somebody else has sees it at that moment. All bytes of a block are its owner's: their middle carries a second stamp.
 *
 * The program is also linked with broken twins of the library, in which one instruction of the slab protocol is wrong;
 * there it must fail (CMakeLists.txt). Seconds: FREEHOLD_TEST_SECONDS, FREEHOLD_SOAK, or 4. */
#include "freehold/freehold.h"
#include "../support/check.h"

#include <pthread.h>
#include <stdatomic.h>

#define MOST 16
#define MINE 600
#define SHARED 256
#define TAKEN UINT64_C(0xA110CA7ED0B10C00)

static _Atomic(void *) shared[SHARED];
static atomic_ulong made, freed;
static atomic_int stop;

static const size_t sizes[] = {16, 16, 48, 64, 256, 1024, 4096, 65536};
#define SIZES (sizeof sizes / sizeof sizes[0])

static size_t usable(const void *p) {
    return fh_malloc_usable_size((void *)p);
}

static void *come(size_t n) {
    _Atomic(uint64_t) *p = fh_malloc(n);
    CHECK(p != NULL, "no memory");
    uint64_t before = atomic_exchange(p, TAKEN);
    CHECK(before != TAKEN, "%p is handed out twice", (void *)p);
    if (n >= 32) ((uint64_t *)p)[usable(p) / 16] = (uintptr_t)p;
    return p;
}

static void go(void *block) {
    _Atomic(uint64_t) *p = block;
    size_t n = usable(block);
    if (n >= 32) CHECK(((uint64_t *)p)[n / 16] == (uintptr_t)p, "the middle of %p was overwritten", block);
    uint64_t before = atomic_exchange(p, 0);
    CHECK(before == TAKEN, "%p was somebody else's as well", block);
    fh_free(block);
}

static void *work(void *number) {
    uint64_t seed = (uintptr_t)number * 77 + 1, mine_made = 0, mine_freed = 0;
    void *mine[MINE] = {0};
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        for (int i = 0; i < 1000; i++) {
            unsigned at = (unsigned)random_below(&seed, MINE);
            if (mine[at]) {
                /* Every other block crosses to whoever comes by. */
                void *p = mine[at];
                if (i & 1) p = atomic_exchange(&shared[random_below(&seed, SHARED)], p);
                mine[at] = NULL;
                if (p) go(p), mine_freed++;
            } else {
                mine[at] = come(sizes[random_below(&seed, SIZES)]);
                mine_made++;
            }
        }
        /* Often, so that blocks go to their slabs and not only from bin to bin. */
        if (random_below(&seed, 4) == 0) fh_thread_flush();
    }
    for (int i = 0; i < MINE; i++) {
        if (mine[i]) go(mine[i]), mine_freed++;
    }
    atomic_fetch_add(&made, mine_made);
    atomic_fetch_add(&freed, mine_freed);
    return NULL;
}

int main(void) {
    double seconds = test_seconds(4);
    for (int n = 2; n <= MOST; n *= 2) {
        pthread_t thread[MOST];
        atomic_store(&stop, 0);
        for (int i = 0; i < n; i++) pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1));
        for (double end = seconds_now() + seconds / 4; seconds_now() < end;) usleep(10000);
        atomic_store(&stop, 1);
        for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
        CHECK(fh_verify() == 0, "the heap is not whole after %d threads", n);
    }
    unsigned long left = 0;
    for (int i = 0; i < SHARED; i++) {
        void *p = atomic_exchange(&shared[i], NULL);
        if (p) go(p), left++;
    }
    printf("%lu blocks made, %lu freed by threads, %lu at the end\n", made, freed, left);
    CHECK(made == freed + left && made > 10000, "%lu blocks are unaccounted for", made - freed - left);
    return 0;
}
