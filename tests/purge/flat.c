/* Looking for room must not cost more when there are more holes to look at: a heap with a thousand free runs and one with a
 * million, and the steps that the search takes in each. A step is one atomic operation of the library, counted in the build
 * that names each of them (tests/proof/include): no clock, so a busy machine changes nothing. Between two steps there are
 * at most some dozens of instructions, on the bits of one word. */
#include "../support/check.h"

#include "base/settings.h"
#include "store/events.h"
#include "store/run.h"
#include "store/window.h"

enum { SIZES = 4, LONGEST = 6, LIVE = 4000, TIMES = 320000, PLACINGS = 32, MOST_PIECES = 1300000 };

static unsigned long steps;

void fh_proof_step(fh_proof_site *site, const void *word, int writes) {
    (void)site;
    (void)word;
    (void)writes;
    steps++;
}

typedef struct {
    uint32_t slot;
    uint32_t length;
} piece;

static piece holes[MOST_PIECES], live[LIVE];

static size_t claim(unsigned n) {
    bool clean;
    size_t slot = fh_run_claim(n, 1, 0, &clean);
    CHECK(slot != FH_NONE, "no room for %u slots: this machine does not promise 300 GiB", n);
    return slot;
}

/* Adds free runs of 1 to 6 slots, each between two used slots that stay, until there are so many. */
static void add_holes(int from, int to, uint64_t *random) {
    for (int i = from; i < to; i++) {
        uint32_t n = (uint32_t)random_below(random, LONGEST) + 1;
        holes[i] = (piece){(uint32_t)claim(n), n};
        claim(1);
    }
    for (int i = from; i < to; i++) fh_run_release(holes[i].slot, holes[i].length, true);
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

typedef struct {
    unsigned median, p99;
} cost;

static cost summary(uint32_t *counts) {
    qsort(counts, TIMES, sizeof *counts, compare);
    return (cost){counts[TIMES / 2], counts[TIMES * 99 / 100]};
}

/* Some thousand runs come and go; each claim and each release is counted. Where they lie depends on the dice, and the p99 with
 * it: so they are placed anew several times. */
static void measure_placing(uint32_t *claims, uint32_t *releases, uint64_t *random) {
    for (int i = 0; i < LIVE; i++) {
        uint32_t n = (uint32_t)random_below(random, LONGEST) + 1;
        live[i] = (piece){(uint32_t)claim(n), n};
    }
    for (int i = 0; i < TIMES / PLACINGS; i++) {
        piece *p = &live[random_below(random, LIVE)];
        unsigned long before = steps;
        fh_run_release(p->slot, p->length, true);
        releases[i] = (uint32_t)(steps - before);
        p->length = (uint32_t)random_below(random, LONGEST) + 1;
        before = steps;
        p->slot = (uint32_t)claim(p->length);
        claims[i] = (uint32_t)(steps - before);
    }
    for (int i = 0; i < LIVE; i++) fh_run_release(live[i].slot, live[i].length, true);
}

static void measure(cost *of_claim, cost *of_release, uint64_t *random) {
    static uint32_t claims[TIMES], releases[TIMES];
    for (int from = 0; from < TIMES; from += TIMES / PLACINGS) measure_placing(&claims[from], &releases[from], random);
    *of_claim = summary(claims);
    *of_release = summary(releases);
}

static void check_flat(const char *what, const cost *costs) {
    for (int i = 1; i < SIZES; i++) {
        double ratio = (double)costs[i].p99 / (double)costs[0].p99;
        CHECK(ratio >= 0.8 && ratio <= 1.2, "%s: p99 of %u steps, and %u in the smallest heap", what, costs[i].p99,
              costs[0].p99);
    }
}

int main(void) {
    static const int sizes[SIZES] = {1000, 10000, 100000, 1000000};
    cost claims[SIZES], releases[SIZES];
    uint64_t random = random_seed();
    /* What is counted is the search. Giving back is another matter: see edges.c and phases.c. */
    fh_store(&fh_settings.purge, FH_PURGE_LAZY);
    fh_store(&fh_order.thp_timed, 0); /* no first touch of a huge page: they would be 20 GiB */
    CHECK(fh_window_start(), "no window");
    /* A small heap that is full to the brim would send every other request to a new chunk. */
    add_holes(0, 2 * LIVE, &random);
    for (int i = 0, made = 2 * LIVE; i < SIZES; i++) {
        add_holes(made, 2 * LIVE + sizes[i], &random);
        made = 2 * LIVE + sizes[i];
        measure(&claims[i], &releases[i], &random);
        printf("%7d free runs in %6zu chunks: a claim takes %u steps, p99 %u; a release %u, p99 %u\n", made,
               fh_window_chunks(), claims[i].median, claims[i].p99, releases[i].median, releases[i].p99);
    }
    check_flat("claim", claims);
    check_flat("release", releases);
    return 0;
}
