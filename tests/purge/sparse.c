/* A heap of which one block in a hundred is alive, spread at random: nearly every slab has one, and most pages have none.
 * malloc_trim gives these pages back although their slabs are in use, and no live block may change by it, nor any that
 * other threads allocate and free meanwhile. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/pattern.h"

#include <pthread.h>

enum { COUNT = 800000, ALIVE = 100, THREADS = 3, TABLE = 4000 };

typedef struct {
    unsigned char *block;
    size_t size;
} piece;

static piece pieces[COUNT], dead[COUNT];
static volatile bool over;

static void make(piece *p, size_t size) {
    p->block = t_malloc(size);
    CHECK(p->block, "malloc(%zu): NULL", size);
    p->size = size;
    pattern_fill(p->block, size, (uintptr_t)p);
}

static void check(const piece *p) {
    long wrong = pattern_wrong(p->block, p->size, (uintptr_t)p);
    CHECK(wrong < 0, "byte %ld of a live block of %zu changed", wrong, p->size);
}

static void shuffle(piece *list, int count, uint64_t *random) {
    for (int i = count; i > 1; i--) {
        int j = (int)random_below(random, (uint64_t)i);
        piece other = list[i - 1];
        list[i - 1] = list[j];
        list[j] = other;
    }
}

/* Half of a heap is alive, and one trim after the other goes through it while this runs. */
static void *churn(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    piece *table = calloc(TABLE, sizeof(piece));
    for (long round = 0; !over; round++) {
        piece *p = &table[random_below(&random, TABLE)];
        if (p->block) {
            check(p);
            t_free(p->block);
            p->block = NULL;
        } else {
            make(p, random_below(&random, random_below(&random, 4) ? 600 : 20000) + 1);
        }
        if (round % 3000 == 0) t_thread_flush();
    }
    for (int i = 0; i < TABLE; i++) {
        if (!table[i].block) continue;
        check(&table[i]);
        t_free(table[i].block);
    }
    free(table);
    t_thread_flush();
    return NULL;
}

static void trim_under_churn(uint64_t *random) {
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&ids[i], NULL, churn, (void *)(uintptr_t)random_next(random)) == 0, "pthread_create");
    }
    double end = seconds_now() + test_seconds(3);
    long trims = 0;
    for (; seconds_now() < end; trims++) t_malloc_trim(0);
    over = true;
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    printf("%ld trims while %d threads allocated and freed\n", trims, THREADS);
    CHECK(trims > 0, "no trim was made");
}

int main(void) {
    uint64_t random = random_seed();
    t_free(t_malloc(1));
    /* The tables are no part of what is measured. */
    memset(pieces, 1, sizeof pieces);
    memset(dead, 1, sizeof dead);
    size_t before = resident_bytes(), live = 0;
    for (int i = 0; i < COUNT; i++) make(&pieces[i], 64 + random_below(&random, 193));
    size_t peak = resident_bytes() - before;
    int dying = 0;
    for (int i = 0; i < COUNT; i++) {
        if (i % ALIVE) {
            dead[dying++] = pieces[i];
        } else {
            live += pieces[i].size;
        }
    }
    /* Every hundredth in the order of allocation would leave the same pages free each time: the sizes differ, and the
     * order of the frees is random. */
    shuffle(dead, dying, &random);
    for (int i = 0; i < dying; i++) t_free(dead[i].block);
    size_t freed = resident_bytes() - before;
    CHECK(t_malloc_trim(0) == 1, "malloc_trim found nothing to give back");
    size_t trimmed = resident_bytes() - before;
    printf("%zu MiB resident, %zu KiB alive; after the frees %zu MiB, trimmed %zu MiB\n", peak >> 20, live >> 10,
           freed >> 20, trimmed >> 20);
    for (int i = 0; i < COUNT; i += ALIVE) check(&pieces[i]);
    /* At 160 bytes a block a page of 4 KiB is free with 0.99^26 = 77 %. Larger pages are free more seldom. */
    long page = sysconf(_SC_PAGESIZE);
    CHECK(!t_is_freehold() || page != 4096 || trimmed * 3 <= peak, "%zu of %zu MiB stayed", trimmed >> 20, peak >> 20);
    trim_under_churn(&random);
    for (int i = 0; i < COUNT; i += ALIVE) {
        check(&pieces[i]);
        t_free(pieces[i].block);
    }
    t_malloc_trim(0);
    size_t after = resident_bytes() - before;
    printf("everything freed and trimmed: %zu KiB\n", after >> 10);
    CHECK(!t_is_freehold() || after <= peak / 16 + (2 << 20), "%zu KiB stayed", after >> 10);
    return 0;
}
