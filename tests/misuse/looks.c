/* A magazine that goes to the depot is looked at for double frees, a part in each turn (cache/twice.h). A block that is there twice is
 * found in the turn of its first place, all places have a turn, and where none is there twice nothing is found. Then a thread
 * hands over magazines, and all parts have their turns. */
#include "base/classes.h"
#include "cache/observed.h"
#include "cache/place.h"
#include "cache/twice.h"
#include "system/report.h"
#include "../support/alloc.h"
#include "../support/check.h"

#include <string.h>

enum { MOST = 254, SIZE = 64, BLOCKS = 4000 };

static unsigned reports;
static const void *reported;

void __wrap_fh_report_fault(fh_fault fault, const char *call, const void *p, size_t size, size_t class_size);
void __wrap_fh_report_fault(fh_fault fault, const char *call, const void *p, size_t size, size_t class_size) {
    CHECK(fault == FH_FAULT_DOUBLE_FREE && !call && size == 0 && class_size == SIZE, "another report");
    reported = p;
    reports++;
}

static unsigned parts_seen;

size_t __real_fh_twice_look_at_some(fh_thread *t, unsigned c, void **places, size_t n, unsigned turn);
size_t __wrap_fh_twice_look_at_some(fh_thread *t, unsigned c, void **places, size_t n, unsigned turn);
size_t __wrap_fh_twice_look_at_some(fh_thread *t, unsigned c, void **places, size_t n, unsigned turn) {
    parts_seen |= 1u << turn % FH_LOOK_EVERY;
    return __real_fh_twice_look_at_some(t, c, places, n, turn);
}

static void *blocks[BLOCKS];

static void drop_many(void) {
    for (size_t i = 0; i < BLOCKS; i++) CHECK(blocks[i] = t_malloc(SIZE), "malloc: NULL");
    for (size_t i = 0; i < BLOCKS; i++) t_free(blocks[i]);
}

/* A magazine of n blocks, in which the one in place i is in place j too, unless they are the same. In how many of all turns is it
 * found? Two blocks may share an entry of the table, and then neither is. */
static unsigned turns_that_find(void **places, unsigned n, unsigned i, unsigned j) {
    fh_thread *t = fh_own();
    unsigned found = 0;
    for (unsigned turn = 100; turn < 100 + FH_LOOK_EVERY; turn++) {
        for (unsigned k = 0; k < n; k++) places[k] = blocks[k];
        places[j] = places[i];
        fh_twice_note(t, places, n);
        unsigned before = reports;
        size_t left = __real_fh_twice_look_at_some(t, fh_class_of(SIZE), places, n, turn);
        CHECK(left == n - (reports - before), "%zu of %u places are left after %u reports", left, n, reports - before);
        if (reports == before) continue;
        CHECK(i != j && reported == blocks[i], "%p is reported, and %p is there twice", reported, blocks[i]);
        unsigned copies = 0;
        for (size_t k = 0; k < left; k++) copies += places[k] == blocks[i];
        CHECK(copies == 1 && !places[left], "%u copies are left", copies);
        found++;
    }
    return found;
}

int main(void) {
    static const unsigned lengths[] = {1, 2, 5, 16, 17, 100, MOST};
    for (int round = 0; round < 40; round++) drop_many();
    CHECK(parts_seen == (1u << FH_LOOK_EVERY) - 1, "parts seen: %#x", parts_seen);
    for (size_t i = 0; i < MOST; i++) CHECK(blocks[i] = t_malloc(SIZE), "malloc: NULL");
    void **places = t_malloc(MOST * sizeof *places);
    CHECK(places && fh_own()->head.watched_slots, "the thread has no table");
    unsigned trials = 0, found = 0;
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        unsigned n = lengths[l];
        CHECK(turns_that_find(places, n, n - 1, n - 1) == 0, "a double free that is none");
        for (unsigned i = 0; i < n; i++) {
            for (unsigned j = i + 1; j < n; j += 1 + n / 8) {
                unsigned turns = turns_that_find(places, n, i, j);
                CHECK(turns <= 1, "found in %u turns", turns);
                trials++;
                found += turns;
            }
        }
    }
    printf("%u of %u found\n", found, trials);
    CHECK(found >= trials - trials / 100, "%u of %u found", found, trials);
    for (size_t i = 0; i < MOST; i++) t_free(blocks[i]);
    t_free(places);
    return 0;
}
