/* Programs whose peak is a large block that comes just after much was freed, each as small as it can be and as many are
 * written. container.sh runs them in control groups, over this allocator and the C library's.
 *
 *     container NAME         does that program
 *     container NAME peak    does it too, and prints the most bytes that it had asked for at one moment */
#include "../support/alloc.h"
#include "../support/check.h"

#include <string.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

static size_t live, peak;

static void *note(void *p, size_t less, size_t more) {
    CHECK(p, "no memory for %zu bytes", more);
    live += more;
    if (live > peak) peak = live;
    live -= less;
    return p;
}

/* Each block is written whole as soon as there is one. */
static void *make(size_t n) {
    return memset(note(malloc(n), 0, n), 1, n);
}

/* What a realloc copies counts once: a page that moves is not there twice. */
static void *grow(void *p, size_t from, size_t to) {
    p = note(realloc(p, to), 0, to - from);
    memset((char *)p + from, 1, to - from);
    return p;
}

static void drop(void *p, size_t n) {
    live -= n;
    free(p);
}

static uint64_t seed = 1;

/* Small blocks of many sizes, until `bytes` are live. Returns how many. */
static size_t small_ones(void **block, size_t *size, size_t bytes) {
    size_t count = 0;
    for (size_t sum = 0; sum < bytes; sum += size[count++]) {
        size[count] = 130 + random_below(&seed, 600);
        block[count] = make(size[count]);
    }
    return count;
}

enum { MOST = 400000 };
static void *block[MOST];
static size_t size[MOST];

/* 50 MiB of small blocks are freed, and one of 60 MiB comes. */
static void one_block(void) {
    size_t count = small_ones(block, size, 50 * MIB);
    for (size_t i = 0; i < count; i++) drop(block[i], size[i]);
    drop(make(60 * MIB), 60 * MIB);
}

/* Vectors that double, one after another, with small blocks between. */
static void vectors(void) {
    enum { VECTORS = 6 };
    char *vector[VECTORS];
    for (size_t round = 0; round < 3; round++) {
        size_t count = small_ones(block, size, 30 * MIB);
        for (size_t i = 0; i < count; i++) drop(block[i], size[i]);
        for (size_t v = 0; v < VECTORS; v++) {
            vector[v] = make(4 * KIB);
            for (size_t n = 4 * KIB; n < 8 * MIB; n *= 2) vector[v] = grow(vector[v], n, 2 * n);
        }
        for (size_t v = 0; v < VECTORS; v++) drop(vector[v], 8 * MIB);
    }
}

/* Phases of differing sizes, each of some 40 MiB. */
static void phases(void) {
    static const size_t sizes[] = {100, 3 * MIB, 1000, 70 * KIB, 24, 300 * KIB, 5000, 20 * MIB, 30 * KIB};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t count = 40 * MIB / sizes[s], most = count < MOST ? count : MOST;
        for (size_t i = 0; i < most; i++) block[i] = make(sizes[s]);
        for (size_t i = 0; i < most; i++) drop(block[i], sizes[s]);
    }
}

/* A cache of images of 1 to 8 MiB: the oldest go until the new one fits. */
static void images(void) {
    size_t first = 0, last = 0, held = 0;
    for (; last < 300; last++) {
        size[last] = MIB + random_below(&seed, 7 * MIB);
        for (; held + size[last] > 50 * MIB; first++) {
            drop(block[first], size[first]);
            held -= size[first];
        }
        block[last] = make(size[last]);
        held += size[last];
    }
    for (; first < last; first++) drop(block[first], size[first]);
}

/* A hash table: it doubles, and each time all entries are made afresh, a little longer. */
static void rehash(void) {
    size_t entries = 0, wide = 64 * KIB;
    char *table = make(wide);
    for (; wide < 16 * MIB; wide *= 2) {
        for (; entries < wide / 32; entries++) block[entries] = make(size[entries] = 40);
        char *wider = make(2 * wide);
        drop(table, wide);
        table = wider;
        for (size_t i = 0; i < entries; i++) {
            void *entry = make(size[i] + 16);
            drop(block[i], size[i]);
            size[i] += 16;
            block[i] = entry;
        }
    }
    for (size_t i = 0; i < entries; i++) drop(block[i], size[i]);
    drop(table, wide);
}

/* Text in pieces, joined to one string, which is cut to lines again. */
static void text(void) {
    for (size_t round = 0; round < 3; round++) {
        size_t count = small_ones(block, size, 28 * MIB), length = 4 * KIB, used = 0;
        char *whole = make(length);
        for (size_t i = 0; i < count; i++) {
            while (used + size[i] > length) {
                whole = grow(whole, length, length + length / 2);
                length += length / 2;
            }
            used += size[i];
        }
        for (size_t i = 0; i < count; i++) drop(block[i], size[i]);
        char *copy = make(used);
        drop(whole, length);
        drop(copy, used);
    }
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"block", one_block}, {"vectors", vectors}, {"phases", phases},
                    {"images", images},   {"rehash", rehash},   {"text", text}};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        if (count < 2 || strcmp(words[1], programs[i].name) != 0) continue;
        programs[i].run();
        if (count > 2) printf("%zu\n", peak);
        return 0;
    }
    fprintf(stderr, "usage: %s NAME [peak]\n", words[0]);
    return 2;
}
