/* Producers and consumers: what a block costs that is freed by another thread than the one that made it.
 *
 * 1→1, 1→3 and 3→1 threads pass blocks of 64 bytes through rings. Counted, and not timed: the locked instructions of the
 * library for each block, at most 1/16; and peak memory, at most 1.3 × what was live + 8 MiB, although the consumers only
 * ever free, and no more in the second half than in the first (but for 2 MiB). Every block carries a stamp that is cleared before it is freed: one handed out twice is seen at once, and
 * the sum of all stamps says that none was lost. */
#include "base/atomic.h"
#include "freehold/freehold.h"
#include "../support/check.h"
#include "../support/memory.h"

#include <pthread.h>
#include <stdatomic.h>

#define RING 4096
#define SIZE 64
#define STAMP UINT64_C(0xF0E1D2C3B4A59687)

static __thread unsigned long locked_here;
static atomic_ulong locked;

void fh_proof_step(fh_proof_site *site, const void *word, int writes) {
    (void)word, (void)writes;
    locked_here += (unsigned long)site->locked;
}

/* One producer, one consumer: neither of the two indices is written by both. */
typedef struct {
    void *slot[RING];
    _Alignas(64) atomic_ulong head;
    _Alignas(64) atomic_ulong tail;
} ring;

static ring rings[3];
static unsigned long blocks_each;
static atomic_ulong sum;

/* What was resident when a maker had made half of its blocks, at most. The main thread, which looks every few milliseconds,
 * may have slept through the whole first half where there are more threads than processors. */
static atomic_size_t at_half;

static void note_half(unsigned long made) {
    if (made != blocks_each / 2) return;
    size_t now = resident_bytes(), most = atomic_load(&at_half);
    while (now > most && !atomic_compare_exchange_weak(&at_half, &most, now)) {
    }
}

static void *produce(void *argument) {
    ring *r = argument;
    for (unsigned long i = 0; i < blocks_each; i++) {
        note_half(i);
        while (i - atomic_load_explicit(&r->tail, memory_order_acquire) >= RING) sched_yield();
        uint64_t *p = fh_malloc(SIZE);
        CHECK(p && p[0] != STAMP, "a block is handed out twice, or none");
        p[0] = STAMP;
        p[1] = i;
        r->slot[i % RING] = p;
        atomic_store_explicit(&r->head, i + 1, memory_order_release);
    }
    atomic_fetch_add(&locked, locked_here);
    return NULL;
}

/* Takes from rings first … last in turn until each has given its share. */
typedef struct {
    int first, last;
} range;

static void *consume(void *argument) {
    const range *from = argument;
    unsigned long done[3] = {0}, left = blocks_each * (unsigned long)(from->last - from->first + 1), mine = 0;
    while (left > 0) {
        for (int n = from->first; n <= from->last; n++) {
            ring *r = &rings[n];
            unsigned long head = atomic_load_explicit(&r->head, memory_order_acquire);
            if (done[n] == head) sched_yield();
            for (; done[n] < head; done[n]++, left--) {
                uint64_t *p = r->slot[done[n] % RING];
                CHECK(p[0] == STAMP && p[1] == done[n], "a block was changed under way");
                p[0] = 0;
                mine += p[1];
                fh_free(p);
            }
            atomic_store_explicit(&r->tail, done[n], memory_order_release);
        }
    }
    atomic_fetch_add(&sum, mine);
    atomic_fetch_add(&locked, locked_here);
    return NULL;
}

/* One maker feeds several rings in turn, as 1→3 does. */
static void *produce_for_all(void *argument) {
    (void)argument;
    for (unsigned long i = 0; i < blocks_each; i++) {
        note_half(i);
        for (int n = 0; n < 3; n++) {
            ring *r = &rings[n];
            while (i - atomic_load_explicit(&r->tail, memory_order_acquire) >= RING) sched_yield();
            uint64_t *p = fh_malloc(SIZE);
            CHECK(p && p[0] != STAMP, "a block is handed out twice, or none");
            p[0] = STAMP;
            p[1] = i;
            r->slot[i % RING] = p;
            atomic_store_explicit(&r->head, i + 1, memory_order_release);
        }
    }
    atomic_fetch_add(&locked, locked_here);
    return NULL;
}

static void run(const char *name, int used_rings, int producers, int consumers, unsigned long total) {
    memset(rings, 0, sizeof rings);
    blocks_each = total / (unsigned long)used_rings;
    atomic_store(&locked, 0);
    atomic_store(&sum, 0);
    atomic_store(&at_half, 0);
    size_t before = resident_bytes(), peak = before, early = before; /* early: the peak of the first half */
    pthread_t maker[3], eater[3];
    range share[3];
    for (int i = 0; i < producers; i++) {
        pthread_create(&maker[i], NULL, producers < used_rings ? produce_for_all : produce, &rings[i]);
    }
    for (int i = 0; i < consumers; i++) {
        share[i] = consumers == used_rings ? (range){i, i} : (range){0, used_rings - 1};
        pthread_create(&eater[i], NULL, consume, &share[i]);
    }
    unsigned long all = blocks_each * (unsigned long)used_rings, eaten = 0;
    while (eaten < all) {
        usleep(5000);
        size_t now = resident_bytes();
        if (now > peak) peak = now;
        eaten = 0;
        for (int n = 0; n < used_rings; n++) eaten += atomic_load(&rings[n].tail);
        if (eaten < all / 2) early = peak;
    }
    for (int i = 0; i < producers; i++) pthread_join(maker[i], NULL);
    for (int i = 0; i < consumers; i++) pthread_join(eater[i], NULL);
    CHECK(fh_verify() == 0, "%s: the heap is not whole", name);
    if (atomic_load(&at_half) > early) early = atomic_load(&at_half);
    unsigned long expected = (unsigned long)used_rings * (blocks_each * (blocks_each - 1) / 2);
    double rate = (double)atomic_load(&locked) / (double)all;
    size_t live = (size_t)used_rings * RING * SIZE, allowed = live + live * 3 / 10 + (8 << 20);
    printf("%s: %lu blocks, %.4f locked instructions a block, %zu KiB more than before at most\n", name, all, rate,
           (peak - before) >> 10);
    CHECK(atomic_load(&sum) == expected, "%s: the stamps add up to %lu, not %lu", name, atomic_load(&sum), expected);
    CHECK(rate <= 1.0 / 16, "%s: %.4f locked instructions a block", name, rate);
    CHECK(peak <= early + (2 << 20), "%s: not flat: %zu KiB at most in the first half, %zu KiB in the second", name,
          (early - before) >> 10, (peak - before) >> 10);
    CHECK(peak - before <= allowed, "%s: %zu KiB with %zu live", name, (peak - before) >> 10, live >> 10);
}

int main(void) {
    unsigned long total = getenv("FREEHOLD_SOAK") ? 50000000 : 2000000;
    run("1 to 1", 1, 1, 1, total);
    run("1 to 3", 3, 1, 3, total);
    run("3 to 1", 3, 3, 1, total);
    return 0;
}
