/* Type-stable heaps (FH_HEAP_TYPE_STABLE): stable PART [plain]. With "plain" the heap has no such flag, and each part but one has to
 * find that: teeth.heap.stable. */
#include <freehold/defer.h>
#include <freehold/heap.h>

#include "../support/alloc.h"
#include "../support/check.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { KINDS = 8, LIVE = 400, ROUNDS = 60000, PLACES = 64, READERS = 2, WRITERS = 2 };
#define LIMIT ((size_t)2 << 20)
#define TAG UINT64_C(0x7A67000000000000)

static unsigned flags = FH_HEAP_TYPE_STABLE;

static size_t size_of(unsigned kind) {
    static const size_t sizes[KINDS] = {16, 32, 48, 96, 200, 1024, 3000, 40000};
    return sizes[kind];
}

static fh_heap *new_heap(size_t hard) {
    fh_heap *h = fh_heap_new(&(fh_heap_options){.name = "stable", .flags = flags, .hard_limit = hard});
    CHECK(h != NULL, "no heap: %d", errno);
    return h;
}

static uint64_t *make(fh_heap *h, unsigned kind) {
    uint64_t *p = fh_heap_malloc(h, size_of(kind));
    if (p) __atomic_store_n(p, TAG + kind, __ATOMIC_RELAXED);
    return p;
}

/* ── One thread ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A block that was freed says for ever what kind it was of, also where the heap is at its limit. */
static void kinds(void) {
    static uint64_t *block[LIVE], *old[ROUNDS];
    static unsigned kind[LIVE], old_kind[ROUNDS];
    fh_heap *h = new_heap(LIMIT);
    uint64_t seed = 1;
    unsigned refused = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned at = (unsigned)random_below(&seed, LIVE);
        if (block[at]) {
            old[i] = block[at];
            old_kind[i] = kind[at];
            fh_free(block[at]);
        }
        kind[at] = (unsigned)random_below(&seed, KINDS);
        block[at] = make(h, kind[at]);
        refused += !block[at];
    }
    CHECK(refused > 0, "the limit was never met");
    for (unsigned i = 0; i < ROUNDS; i++)
        CHECK(!old[i] || *old[i] == TAG + old_kind[i], "a block of kind %u is %llx", old_kind[i],
              (unsigned long long)*old[i]);
    for (unsigned at = 0; at < LIVE; at++) fh_free(block[at]);
    CHECK(fh_heap_destroy(h) == 0, "not destroyed: %d", errno);
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* Blocks above 64 KiB: a free one keeps what is in it, counts, and is used again for its own size alone. */
static void large(void) {
    enum { MANY = 20 };
    static uint64_t *block[MANY];
    fh_heap *h = new_heap(0);
    for (unsigned i = 0; i < MANY; i++) {
        block[i] = fh_heap_malloc(h, 100000 + (size_t)(i % 2) * 100000);
        CHECK(block[i] != NULL, "no block: %d", errno);
        block[i][0] = block[i][12000] = TAG + i;
    }
    fh_heap_figures before, after;
    CHECK(fh_heap_stats(h, &before) == 0, "no figures");
    for (unsigned i = 0; i < MANY; i++) fh_free(block[i]);
    CHECK(fh_heap_stats(h, &after) == 0 && after.count == 0, "%zu blocks are live", after.count);
    CHECK(after.taken == before.taken && after.resident >= before.resident, "%zu bytes, %zu resident", after.taken,
          after.resident);
    CHECK(fh_heap_malloc(h, 300000) != NULL, "another size");
    for (unsigned i = 0; i < MANY; i++)
        CHECK(block[i][0] == TAG + i && block[i][12000] == TAG + i, "block %u was written to", i);
    CHECK(fh_heap_stats(h, &before) == 0, "no figures");
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t *p = fh_heap_malloc(h, 100000 + (size_t)(i % 2) * 100000);
        CHECK(p && p[0] % 2 == i % 2 && p[0] - TAG < MANY, "not a block of the same size");
    }
    CHECK(fh_heap_stats(h, &after) == 0 && after.taken == before.taken, "more was taken");
    CHECK(fh_heap_reset(h) == 0 && fh_heap_stats(h, &after) == 0 && after.taken == 65536, "%zu bytes are left",
          after.taken);
    CHECK(fh_heap_destroy(h) == 0 && fh_verify() == 0, "not destroyed: %d", errno);
}

static void errors(void) {
    static char memory[1 << 16];
    static const fh_heap_pages pages;
    CHECK(!fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_TYPE_STABLE | FH_HEAP_PRIVATE}) && errno == EINVAL,
          "private");
    fh_heap_options given = {.flags = FH_HEAP_TYPE_STABLE, .memory = memory, .memory_size = sizeof memory};
    CHECK(!fh_heap_new(&given) && errno == EINVAL, "given memory");
    CHECK(!fh_heap_new(&(fh_heap_options){.flags = FH_HEAP_TYPE_STABLE, .pages = &pages}) && errno == EINVAL, "pages");
    fh_heap *h = new_heap(0);
    errno = 0;
    char *p = fh_heap_malloc(h, 65536);
    CHECK(p != NULL, "64 KiB");
    memset(p, 1, 65536);
    char *q = fh_heap_realloc(h, p, 70000);
    CHECK(q && q != p && q[65535] == 1 && p[65535] == 1, "not copied, or the old block was written to");
    CHECK(fh_heap_reset(h) == 0 && fh_heap_destroy(h) == 0, "not destroyed: %d", errno);
}

/* ── Readers ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static atomic_int stage;

static void wait_for(int s) {
    while (atomic_load(&stage) < s) usleep(100);
}

static void *passes_late(void *unused) {
    (void)unused;
    CHECK(fh_reader_register("late") == 1, "not registered");
    atomic_store(&stage, 1);
    wait_for(2);
    fh_quiescent();
    atomic_store(&stage, 3);
    wait_for(4);
    fh_reader_unregister();
    atomic_store(&stage, 5);
    return NULL;
}

/* Reset and destroy wait for a reader, and its blocks are as they were until then. */
static void grace(void) {
    fh_heap *h = new_heap(0);
    pthread_t reader;
    uint64_t *p = make(h, 3);
    CHECK(p && pthread_create(&reader, NULL, passes_late, NULL) == 0, "no thread");
    wait_for(1);
    fh_free(p);
    for (int i = 0; i < 3; i++)
        CHECK(fh_heap_reset(h) == -1 && errno == EAGAIN, "reset, while a reader has not passed");
    CHECK(*p == TAG + 3, "the block is gone");
    atomic_store(&stage, 2);
    wait_for(3);
    CHECK(fh_heap_reset(h) == 0, "the reader has passed: %d", errno);
    CHECK(make(h, 1) != NULL, "no memory after the reset");
    CHECK(fh_heap_destroy(h) == -1 && errno == EAGAIN, "destroy, while a reader has not passed");
    atomic_store(&stage, 4);
    wait_for(5);
    CHECK(fh_heap_destroy(h) == 0, "the reader is none any more: %d", errno);
    pthread_join(reader, NULL);
}

static fh_heap *shared;
static uint64_t *_Atomic place[PLACES];
static atomic_int over;
static atomic_ullong reads;

static void *read_on(void *number) {
    uint64_t seed = (uintptr_t)number + 7, n = 0;
    CHECK(fh_reader_register("reader") == 1, "not registered");
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        for (int i = 0; i < 64; i++, n++) {
            unsigned at = (unsigned)random_below(&seed, PLACES);
            uint64_t *p = atomic_load_explicit(&place[at], memory_order_acquire);
            if (!p) continue;
            for (int k = 0; k < 20; k++) {
                uint64_t tag = __atomic_load_n(p, __ATOMIC_RELAXED);
                CHECK(tag == TAG + at % KINDS, "a block of kind %u is %llx", at % KINDS, (unsigned long long)tag);
            }
        }
        fh_quiescent();
    }
    atomic_fetch_add(&reads, n);
    return NULL;
}

/* A place has blocks of one kind. They are freed at once, while readers are at them. */
static void *write_on(void *number) {
    uint64_t seed = (uintptr_t)number + 100;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        unsigned at = (unsigned)random_below(&seed, PLACES);
        uint64_t *fresh = make(shared, at % KINDS);
        fh_free(atomic_exchange(&place[at], fresh));
    }
    return NULL;
}

static void race(void) {
    pthread_t thread[READERS + WRITERS];
    double end = seconds_now() + test_seconds(1);
    shared = new_heap(LIMIT);
    for (uintptr_t i = 0; i < READERS + WRITERS; i++)
        CHECK(pthread_create(&thread[i], NULL, i < READERS ? read_on : write_on, (void *)i) == 0, "no thread");
    while (seconds_now() < end) usleep(10000);
    atomic_store(&over, 1);
    for (int i = READERS; i < READERS + WRITERS; i++) pthread_join(thread[i], NULL);
    while (fh_heap_destroy(shared) != 0) CHECK(errno == EAGAIN, "not destroyed: %d", errno);
    for (int i = 0; i < READERS; i++) pthread_join(thread[i], NULL);
    printf("%llu reads\n", (unsigned long long)atomic_load(&reads));
    CHECK(fh_verify() == 0, "the heap is damaged");
}

int main(int count, char **words) {
    if (count > 2 && strcmp(words[2], "plain") == 0) flags = 0;
    const char *part = count > 1 ? words[1] : "";
    if (strcmp(part, "kinds") == 0) kinds();
    if (strcmp(part, "errors") == 0) errors();
    if (strcmp(part, "large") == 0) large();
    if (strcmp(part, "grace") == 0) grace();
    if (strcmp(part, "race") == 0) race();
    return 0;
}
