/* The long block that was freed last waits for the next one of its length, and is free memory in all but name.
 *
 *     again     a block of the same length has its place, as often as one comes and goes; what calloc gives reads as zero
 *     other     blocks of other sizes, small ones too, and one that grows may have its place as well
 *     counted   the statistics count it as free memory and not as a block, and a trim returns it to the OS
 *     limited   where a limit has no room for both, another block is given its memory
 *     shared    threads that replace blocks of two lengths each find what they wrote; so does the child of a fork
 *
 * The C library's allocator promises none of the places: there only contents are compared. */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/memory.h"
#include "../support/processes.h"
#include "../support/statistics.h"

#include <pthread.h>

#if defined(T_EMBED)
#define t_stats_json fh_stats_json
#define t_limit_set fh_limit_set
#else
extern size_t fh_stats_json(char *buffer, size_t size) __attribute__((weak));
extern int fh_limit_set(size_t soft, size_t hard, void (*callback)(size_t in_use, size_t limit)) __attribute__((weak));
#define t_stats_json fh_stats_json
#define t_limit_set fh_limit_set
#endif

#define MIB ((size_t)1 << 20)
static const size_t sizes[] = {MIB + 1, 2 * MIB, 4 * MIB, 5 * MIB + 4096, 16 * MIB, 40 * MIB};
enum { SIZES = sizeof sizes / sizeof *sizes, TURNS = 50 };

static bool ours(void) {
    return t_is_freehold();
}

/* A block that has something to lose: its first word and its last. */
static char *get(size_t n, uint64_t word) {
    char *p = t_malloc(n);
    CHECK(p, "no memory for %zu bytes", n);
    memcpy(p, &word, sizeof word);
    memcpy(p + n - sizeof word, &word, sizeof word);
    return p;
}

static void put(char *p, size_t n, uint64_t word) {
    CHECK(memcmp(p, &word, sizeof word) == 0 && memcmp(p + n - sizeof word, &word, sizeof word) == 0,
          "a block of %zu bytes lost what was written to it", n);
    t_free(p);
}

static void again(void) {
    for (int s = 0; s < SIZES; s++) {
        size_t n = sizes[s];
        char *stays = get(n, 1), *first = get(n, 2);
        put(first, n, 2);
        for (uint64_t turn = 0; turn < TURNS; turn++) {
            /* It is rounded up to slots of 64 KiB, so a few bytes less are the same length. */
            size_t less = n > 2 * MIB ? n - turn * 8 : n;
            char *p = get(less, turn);
            CHECK(!ours() || p == first, "a block of %zu bytes came to %p after %p was freed", less, (void *)p,
                  (void *)first);
            CHECK(t_usable_size(p) >= less, "%zu bytes of %zu can be used", t_usable_size(p), less);
            put(p, less, turn);
        }
        memset(first = t_malloc(n), 0xFF, n);
        t_free(first);
        const char *zeroed = t_calloc(n, 1);
        for (size_t i = 0; i < n; i++) CHECK(zeroed[i] == 0, "byte %zu of %zu from calloc is %d", i, n, zeroed[i]);
        t_free((void *)zeroed);
        put(stays, n, 1);
    }
    CHECK(t_verify() == 0, "the heap is not whole");
}

static bool is_within(const char *p, const char *begin, size_t n) {
    return p >= begin && p < begin + n;
}

static void other(void) {
    enum { SMALL = 64 };
    size_t n = 6 * MIB;
    char *place = get(n, 1), *behind = get(n, 2);
    put(place, n, 1);
    char *p = get(3 * MIB, 3), *q = get(2 * MIB, 4);
    CHECK(!ours() || (is_within(p, place, n) && is_within(q, place, n)),
          "3 MiB came to %p and 2 to %p, and 6 MiB were free at %p", (void *)p, (void *)q, (void *)place);
    put(p, 3 * MIB, 3), put(q, 2 * MIB, 4);
    /* Small blocks: a MiB of each size needs slabs, and these need slots. */
    place = get(n, 1);
    put(place, n, 1);
    char *small[SMALL];
    unsigned within = 0;
    for (int i = 0; i < SMALL; i++) within += is_within(small[i] = get(60000, 5), place, n);
    CHECK(!ours() || within > SMALL / 2, "%u of %d small blocks are where 6 MiB were free", within, SMALL);
    for (int i = 0; i < SMALL; i++) put(small[i], 60000, 5);
    put(behind, n, 2);
    /* What grows into it: the block before it, which has no other free memory behind it. */
    char *grows = get(n, 6), *next = get(n, 7);
    put(next, n, 7);
    char *grown = t_realloc(grows, n + 2 * MIB);
    CHECK(grown, "no memory for a longer block");
    CHECK(!ours() || next != grows + n || grown == grows, "a block at %p moved to %p, and what follows was free",
          (void *)grows, (void *)grown);
    t_free(grown);
    CHECK(t_verify() == 0, "the heap is not whole");
}

static uint64_t said(const char *name) {
    static char json[1 << 18];
    size_t length = t_stats_json(json, sizeof json);
    CHECK(length > 0 && length < sizeof json, "statistics of %zu bytes", length);
    return statistic(json, name);
}

/* Free slots, with memory behind them or without: in a starved build what is free is purged at once. */
static uint64_t said_free(void) {
    return said("dirty_bytes") + said("purged_bytes");
}

static void counted(void) {
    if (!ours()) return;
    size_t n = 3 * MIB;
    char *p = get(n, 1);
    memset(p, 1, n);
    uint64_t blocks = said("huge_blocks"), before = said_free();
    t_free(p);
    CHECK(said("huge_blocks") == blocks - 1, "%llu blocks above 2 MiB", (unsigned long long)said("huge_blocks"));
    CHECK(said_free() == before + n, "%llu bytes are free, before it was %llu, and %zu were freed",
          (unsigned long long)said_free(), (unsigned long long)before, n);
#if !defined(T_SANITIZED)
    memset(p = t_malloc(n), 1, n);
    size_t resident = resident_bytes();
    t_free(p);
    t_malloc_trim(0);
    size_t left = resident_bytes();
    CHECK(left + n <= resident + MIB / 2, "%zu bytes were resident, and %zu after %zu of them were freed and trimmed",
          resident, left, n);
#endif
}

static void limited(void) {
    if (!ours()) return;
    size_t n = 20 * MIB;
    char *p = get(n, 1);
    put(p, n, 1);
    CHECK(t_limit_set(0, 32 * MIB, NULL) == 0, "the limit is not set");
    p = get(24 * MIB, 2);
    put(p, 24 * MIB, 2);
    p = get(n, 3);
    put(p, n, 3);
    p = get(25 * MIB, 4);
    put(p, 25 * MIB, 4);
    /* What was kept before there was a limit is asked of it too. */
    CHECK(t_limit_set(0, 0, NULL) == 0, "the limit stays");
    char *stays = get(40 * MIB, 5);
    p = get(16 * MIB, 6);
    put(p, 16 * MIB, 6);
    CHECK(t_limit_set(0, 48 * MIB, NULL) == 0, "the limit is not set");
    p = t_malloc(16 * MIB);
    CHECK(!p, "a limit of 48 MiB gave 16 beside 40");
    CHECK(said("limit_in_use") <= 48 * MIB, "%llu bytes are in use", (unsigned long long)said("limit_in_use"));
    t_free(t_malloc(1000));
    CHECK(t_limit_set(0, 0, NULL) == 0, "the limit stays");
    put(stays, 40 * MIB, 5);
    CHECK(t_verify() == 0, "the heap is not whole");
}

enum { THREADS = 4, HELD = 3, STEPS = 20000 };

static void *replace(void *number) {
    uint64_t random = (uintptr_t)number + 1;
    char *held[HELD] = {NULL};
    size_t length[HELD] = {0};
    for (uint64_t i = 0; i < STEPS; i++) {
        unsigned at = (unsigned)random_below(&random, HELD);
        uint64_t word = (uintptr_t)number << 32 | at;
        if (held[at]) put(held[at], length[at], word);
        length[at] = random_below(&random, 4) == 0 ? 3 * MIB : 2 * MIB;
        held[at] = get(length[at], word);
    }
    for (unsigned at = 0; at < HELD; at++) {
        if (held[at]) put(held[at], length[at], (uintptr_t)number << 32 | at);
    }
    return NULL;
}

static void in_child(void *unused) {
    (void)unused;
    replace((void *)(uintptr_t)77);
    CHECK(t_verify() == 0, "the child's heap is not whole");
}

static void shared(void) {
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, replace, (void *)i) == 0, "no thread");
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    CHECK(t_verify() == 0, "the heap is not whole");
    put(get(2 * MIB, 1), 2 * MIB, 1);
    int status = run_in_child(in_child, NULL);
    CHECK(status == 0, "the child ended with %#x", (unsigned)status);
    put(get(2 * MIB, 1), 2 * MIB, 1);
    CHECK(t_verify() == 0, "the heap is not whole");
}

int main(int count, char **argument) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"again", again}, {"other", other}, {"counted", counted}, {"limited", limited}, {"shared", shared}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (count < 2 || strcmp(argument[1], parts[i].name) == 0) parts[i].run();
    }
    return 0;
}
