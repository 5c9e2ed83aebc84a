/* Hints for programs that defragment themselves (freehold/defrag.h).  defrag PART */
#include "../support/check.h"

#include <errno.h>
#include <freehold/defrag.h>
#include <freehold/heap.h>
#include <pthread.h>
#include <stdbool.h>

#define BLOCKS 40000u
#define SIZE 200u

static char *block[BLOCKS];
static const int constant = 1;

static unsigned char worth_of(const void *p) {
    unsigned char worth = 7;
    size_t sum = fh_defrag_worth(&p, 1, &worth);
    CHECK(worth <= 1 && sum == worth, "worth %u, the sum %zu", worth, sum);
    return worth;
}

/* Fills slabs and leaves one block in `keep` in the first half of the heap, and four of five in the second. */
static void fill_and_thin(unsigned keep) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        block[i] = fh_malloc(SIZE);
        CHECK(block[i] != NULL, "no memory");
        memset(block[i], (int)(i % 251), SIZE);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i < BLOCKS / 2 ? i % keep == 0 : i % 5 != 0) continue;
        fh_free(block[i]);
        block[i] = NULL;
    }
    fh_thread_flush();
}

static void drop_all(void) {
    for (unsigned i = 0; i < BLOCKS; i++) fh_free(block[i]);
    memset(block, 0, sizeof block);
}

static void check_content(unsigned i) {
    for (unsigned k = 0; k < SIZE; k++) CHECK(block[i][k] == (char)(i % 251), "byte %u of block %u is lost", k, i);
}

/* Sparse slabs are worth it, full ones are not; asked in any order, one by one and many at once. */
static void judges(void) {
    fill_and_thin(10);
    fh_malloc_trim(0); /* or blocks that wait in depots count as live */
    size_t sparse = 0, full = 0, sparse_all = 0, full_all = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (!block[i]) continue;
        *(i < BLOCKS / 2 ? &sparse : &full) += worth_of(block[i]);
        ++*(i < BLOCKS / 2 ? &sparse_all : &full_all);
    }
    /* The first blocks may come out of slabs that were there before. */
    CHECK(sparse * 100 >= sparse_all * 95, "only %zu of %zu in sparse slabs are worth moving", sparse, sparse_all);
    /* A tenth of these can be emptied into the others too. */
    CHECK(full * 100 <= full_all * 15, "%zu of %zu in full slabs are worth moving", full, full_all);
    static unsigned char worth[BLOCKS];
    CHECK(fh_defrag_worth((const void *const *)block, BLOCKS, worth) >= sparse_all * 95 / 100, "not all at once");
    for (unsigned i = 0; i < BLOCKS; i++) CHECK(block[i] || worth[i] == 0, "NULL is worth moving");
    drop_all();
    /* And where nothing is sparse nothing is worth it: at most what is behind the last slab. */
    for (unsigned i = 0; i < BLOCKS; i++) CHECK((block[i] = fh_malloc(SIZE)) != NULL, "no memory");
    size_t none = fh_defrag_worth((const void *const *)block, BLOCKS, worth);
    CHECK(none <= BLOCKS / 50, "%zu blocks of full slabs are worth moving", none);
    drop_all();
}

/* What is no block of a slab is never worth it. */
static void others(void) {
    fill_and_thin(10);
    for (unsigned i = 0; i < BLOCKS; i++) (void)worth_of(block[i]);
    int local = 1;
    void *large = fh_malloc(100000), *huge = fh_malloc(8u << 20);
    fh_heap *heap = fh_heap_new(NULL);
    void *of_heap = heap ? fh_heap_malloc(heap, SIZE) : NULL, *of_extent = heap ? fh_heap_malloc(heap, 5000) : NULL;
    CHECK(large && huge && of_heap && of_extent, "no memory");
    const void *p[] = {NULL,
                       &local,
                       &constant,
                       large,
                       (char *)large + 70000,
                       huge,
                       (char *)huge + (3u << 20),
                       of_heap,
                       of_extent,
                       heap,
                       block,
                       (void *)1,
                       (void *)~(uintptr_t)0,
                       (char *)huge + (1u << 30)};
    unsigned char worth[sizeof p / sizeof p[0]];
    CHECK(fh_defrag_worth(p, sizeof p / sizeof p[0], worth) == 0, "something that is no block is worth moving");
    CHECK(fh_defrag_worth(p, 0, NULL) == 0, "nothing is worth moving");
    errno = 5;
    CHECK(fh_defrag_malloc(100000) == NULL && errno == 5, "a large block");
    fh_defrag_free(large);
    fh_defrag_free(huge);
    fh_defrag_free(of_heap);
    fh_defrag_free(NULL);
    void *none = fh_defrag_malloc(0);
    fh_defrag_free(none);
    fh_heap_destroy(heap);
    drop_all();
    CHECK(fh_verify() == 0, "the heap is damaged");
}

static size_t move(unsigned from, unsigned step) {
    size_t moved = 0;
    for (unsigned i = from; i < BLOCKS; i += step) {
        void *better = block[i] && worth_of(block[i]) ? fh_defrag_malloc(SIZE) : NULL;
        if (!better) continue;
        CHECK(fh_malloc_usable_size(better) >= SIZE, "a block of %zu bytes", fh_malloc_usable_size(better));
        memcpy(better, block[i], SIZE);
        memset(block[i], 0xEE, SIZE);
        fh_defrag_free(block[i]);
        block[i] = better;
        moved++;
        check_content(i);
    }
    return moved;
}

/* Moving what is worth it makes slabs empty; and then nothing is worth it any more. */
static void moves(void) {
    fill_and_thin(10);
    size_t count = 0, moved = 0, last = BLOCKS;
    for (unsigned i = 0; i < BLOCKS; i++) count += block[i] != NULL;
    for (unsigned round = 0; round < 8 && last; round++) moved += last = move(0, 1);
    CHECK(last <= count / 50, "still %zu of %zu are worth moving", last, count);
    CHECK(moved >= count / 20 && moved <= count * 3 / 10, "%zu of %zu were moved", moved, count);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (block[i]) check_content(i);
    CHECK(fh_verify() == 0, "the heap is damaged");
    drop_all();
}

/* Four threads at once, each with every fourth block, while they also allocate and free as usual. */
static void *mover(void *arg) {
    unsigned from = (unsigned)(uintptr_t)arg;
    for (unsigned round = 0; round < 4; round++) {
        move(from, 4);
        for (unsigned i = from; i < BLOCKS; i += 4) {
            if (!block[i] || i % 3) continue;
            fh_free(block[i]);
            CHECK((block[i] = fh_malloc(SIZE)) != NULL, "no memory");
            memset(block[i], (int)(i % 251), SIZE);
        }
    }
    return NULL;
}

static void threads(void) {
    fill_and_thin(4);
    pthread_t thread[4];
    for (uintptr_t t = 0; t < 4; t++) CHECK(pthread_create(&thread[t], NULL, mover, (void *)t) == 0, "no thread");
    for (unsigned t = 0; t < 4; t++) pthread_join(thread[t], NULL);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (block[i]) check_content(i);
    drop_all();
    fh_thread_flush();
    CHECK(fh_verify() == 0, "the heap is damaged");
}

/* With option check a block is not where its slab says, so nothing is worth moving, and freeing works as ever. */
static void checked(void) {
    fill_and_thin(10);
    for (unsigned i = 0; i < BLOCKS; i++) CHECK(worth_of(block[i]) == 0, "a checked block is worth moving");
    CHECK(fh_defrag_malloc(SIZE) == NULL, "a block past the checks");
    for (unsigned i = 0; i < BLOCKS; i++) fh_defrag_free(block[i]);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"judges", judges}, {"others", others}, {"moves", moves}, {"threads", threads}, {"checked", checked}};
    for (size_t i = 0; argc == 2 && i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(argv[1], parts[i].name) != 0) continue;
        parts[i].run();
        puts("ok");
        return 0;
    }
    fprintf(stderr, "usage: defrag judges|others|moves|threads|checked\n");
    return 2;
}
