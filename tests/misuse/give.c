/* Blocks that are given back to their slabs, in batches of any order: in a row upwards or downwards, every other one, in no order. Some
 * are there twice, and some pointers lead into a block. After each batch exactly the blocks of it and of those before are free, and each
 * mistake was reported once. */
#include "../support/alloc.h"
#include "../support/check.h"

#include "base/classes.h"
#include "store/slab.h"
#include "store/slab_life.h"
#include "store/window.h"
#include "system/report.h"

enum { ROUNDS = 400, MOST = 600, LISTED = 2 * MOST };

static uint64_t seed = 1;
static unsigned twice, inside;

/* The linker finds it by name. Nothing is said and the program goes on. */
void __wrap_fh_report_fault(fh_fault fault, const char *call, const void *p, size_t a, size_t b);
void __wrap_fh_report_fault(fh_fault fault, const char *call, const void *p, size_t a, size_t b) {
    (void)call, (void)a, (void)b;
    CHECK(fault == FH_FAULT_DOUBLE_FREE || fault == FH_FAULT_INSIDE, "%p: fault %d", p, (int)fault);
    *(fault == FH_FAULT_INSIDE ? &inside : &twice) += 1;
}

static int by_address(const void *one, const void *other) {
    const char *a = *(char *const *)one, *b = *(char *const *)other;
    return (a > b) - (a < b);
}

/* The numbers from 0 to n − 1, in stretches of different orders. */
static void arrange(unsigned *order, unsigned n) {
    for (unsigned begin = 0, length; begin < n; begin += length) {
        length = 1 + (unsigned)random_below(&seed, 200);
        if (length > n - begin) length = n - begin;
        unsigned kind = (unsigned)random_below(&seed, 4), half = (length + 1) / 2;
        for (unsigned i = 0; i < length; i++) {
            unsigned apart = i < half ? 2 * i : 2 * (i - half) + 1;
            order[begin + i] = begin + (kind == 1 ? length - 1 - i : kind == 2 ? apart : i);
        }
        for (unsigned i = length; kind == 3 && i > 1; i--) {
            unsigned *one = &order[begin + i - 1], *other = &order[begin + random_below(&seed, i)], kept = *one;
            *one = *other;
            *other = kept;
        }
    }
}

/* Of each slab one block stays, so that it is a slab to the end. */
static bool stays(char *const *block, unsigned i, unsigned c) {
    return i == 0 || fh_slab_head(c, fh_slot_of(block[i])) != fh_slab_head(c, fh_slot_of(block[i - 1]));
}

static void give_all(unsigned c, char **block, unsigned n) {
    static unsigned order[MOST], number[LISTED];
    static void *list[LISTED];
    static bool given[MOST];
    size_t size = fh_class_size(c);
    unsigned listed = 0, again = 0, within = 0;
    arrange(order, n);
    for (unsigned i = 0; i < n; i++) {
        given[i] = false;
        if (stays(block, order[i], c)) continue;
        number[listed] = order[i];
        list[listed++] = block[order[i]];
        if (random_below(&seed, 60) == 0) {
            unsigned before = (unsigned)random_below(&seed, listed);
            number[listed] = number[before];
            list[listed++] = block[number[before]];
            again++;
        }
    }
    twice = inside = 0;
    for (unsigned done = 0, batch; done < listed; done += batch) {
        batch = 1 + (unsigned)random_below(&seed, 300);
        if (batch > listed - done) batch = listed - done;
        for (unsigned i = done; i < done + batch; i++) given[number[i]] = true;
        fh_slab_give(c, batch, list + done);
        for (unsigned i = 0; i < n; i++)
            CHECK(fh_slab_is_free(c, block[i]) == given[i], "class %u: block %u of %u is %s", c, i, n,
                  given[i] ? "not free" : "free");
        void *middle = block[0] + size / 2;
        fh_slab_give(c, 1, &middle);
        within++;
    }
    CHECK(twice == again && inside == within, "class %u: %u and %u mistakes, %u and %u were reported", c, again, within,
          twice, inside);
    for (unsigned i = 0; i < n; i++) {
        void *p = block[i];
        if (!given[i]) fh_slab_give(c, 1, &p);
    }
}

int main(void) {
    static void *taken[MOST];
    t_free(t_malloc(1));
    unsigned sum = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned c = 1 + (unsigned)random_below(&seed, FH_SMALL_LAST), n = 0,
                 wanted = 2 + (unsigned)random_below(&seed, MOST - 2);
        if (wanted > fh_class_table[c].blocks * 8u) wanted = fh_class_table[c].blocks * 8u;
        for (unsigned got; n < wanted; n += got) {
            got = fh_slab_take_own(c, wanted - n, taken + n);
            CHECK(got > 0, "class %u: no memory", c);
        }
        qsort(taken, n, sizeof taken[0], by_address);
        give_all(c, (char **)taken, n);
        sum += n;
    }
    printf("%d rounds, %u blocks\n", ROUNDS, sum);
    return 0;
}
