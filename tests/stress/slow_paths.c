/* Does FREEHOLD_STRESS change anything? A fixed mix of calls, and of them the share that takes each slow path. In a stress
 * build each share is above a bound, in a normal build below it, so an option that nobody reads fails here.
 *
 * The mix has a part for each size that base/tuning.h makes tiny. The library's own counters say how often magazines were
 * refilled and flushed, the linker counts the calls of the layers below (--wrap). */
#include "../support/alloc.h"
#include "../support/check.h"
#include "../support/statistics.h"

#include "base/tuning.h"
#include "system/system.h"

#include <stdatomic.h>
#include <string.h>

/* ── Counting ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Not static: the linker finds them by name. */
#define COUNTED(result, give, name, parameters, arguments)                                                             \
    static _Atomic(uint64_t) calls_of_##name;                                                                          \
    result __real_##name parameters;                                                                                   \
    result __wrap_##name parameters;                                                                                   \
    result __wrap_##name parameters {                                                                                  \
        atomic_fetch_add_explicit(&calls_of_##name, 1, memory_order_relaxed);                                          \
        give __real_##name arguments;                                                                                  \
    }
COUNTED(unsigned, return, fh_slab_take, (unsigned c, unsigned want, void **out), (c, want, out))
COUNTED(void, , fh_slab_give, (unsigned c, unsigned n, void **blocks), (c, n, blocks))
COUNTED(void, , fh_depot_empty, (unsigned c), (c))
COUNTED(void, , fh_system_purge, (void *p, size_t size), (p, size))
COUNTED(void, , fh_system_purge_pieces, (const fh_piece *pieces, unsigned n), (pieces, n))
COUNTED(fh_move, return, fh_system_move, (void *p, size_t size, void *place), (p, size, place))

typedef struct {
    uint64_t refills, flushes, from_depot, to_depot, takes, gives, empties, purges, moves;
} counts;

static counts counts_now(void) {
    static char text[1 << 16];
    CHECK(fh_stats_json(text, sizeof text) < sizeof text, "the statistics are longer than %zu bytes", sizeof text);
    return (counts){.refills = statistic(text, "refills"),
                    .flushes = statistic(text, "flushes"),
                    .from_depot = statistic(text, "from_depot"),
                    .to_depot = statistic(text, "to_depot"),
                    .takes = calls_of_fh_slab_take,
                    .gives = calls_of_fh_slab_give,
                    .empties = calls_of_fh_depot_empty,
                    .purges = calls_of_fh_system_purge + calls_of_fh_system_purge_pieces,
                    .moves = calls_of_fh_system_move};
}

/* ── The mix ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { MOST = 4096, ROUNDS = 50 };
static void *block[MOST];
static uint64_t calls; /* pairs of malloc and free in the part that runs */

static void up(unsigned n, size_t size) {
    for (unsigned i = 0; i < n; i++) {
        block[i] = t_malloc(opaque(size));
        CHECK(block[i], "malloc(%zu): NULL", size);
        *(volatile char *)block[i] = 1;
    }
    calls += n;
}

static void down(unsigned n) {
    for (unsigned i = 0; i < n; i++) t_free(block[i]);
}

/* A few blocks of each of several sizes: they stay in the magazines of a normal build. */
static void few(void) {
    static const size_t sizes[] = {16, 48, 64, 200, 512, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        up(16, sizes[i]);
        down(16);
    }
}

/* Many of one size: they stay in the depot of a normal build. */
static void many(void) {
    up(MOST, 64);
    down(MOST);
}

/* Free slots: a normal build keeps 4 MiB of them with their memory. */
static void slots(void) {
    up(2, 3 * FH_MIB / 2);
    down(2);
}

/* Blocks above 1 MiB that grow and have a neighbour: a normal build copies them and moves pages from 2 MiB on; a stress
 * build moves pages wherever the new place has no memory, as none has after a trim. */
static void growth(void) {
    up(4, 5 * FH_MIB / 4);
    for (unsigned i = 0; i < 4; i++) {
        /* All of it, because a copy of what was never written to has no memory, and less is left to be moved. */
        memset(block[i], 1, 5 * FH_MIB / 4);
        block[i] = t_realloc(block[i], opaque(7 * FH_MIB / 4));
        CHECK(block[i], "realloc: NULL");
    }
    down(4);
    fh_malloc_trim(0);
}

static counts run(void (*part)(void), unsigned rounds) {
    counts before = counts_now();
    calls = 0;
    for (unsigned i = 0; i < rounds; i++) part();
    counts now = counts_now();
    return (counts){now.refills - before.refills,   now.flushes - before.flushes, now.from_depot - before.from_depot,
                    now.to_depot - before.to_depot, now.takes - before.takes,     now.gives - before.gives,
                    now.empties - before.empties,   now.purges - before.purges,   now.moves - before.moves};
}

/* ── What is asked ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* Of a thousand pairs of calls so many take the path: at least this in a stress build, at most that in a normal one. */
static void share(const char *path, uint64_t taken, double at_least, double at_most) {
    double per_mille = 1000.0 * (double)taken / (double)calls;
    printf("%-44s %8.1f ‰ (stress: at least %g, normal: at most %g)\n", path, per_mille, at_least, at_most);
    CHECK(at_least > at_most, "%s: the bounds do not tell the builds apart", path);
    if (FH_STRESS) {
        CHECK(per_mille >= at_least, "%s: %.1f ‰ in a stress build", path, per_mille);
    } else {
        CHECK(per_mille <= at_most, "%s: %.1f ‰ in a normal build", path, per_mille);
    }
}

int main(void) {
    printf("of a thousand pairs of malloc and free:\n");
    /* The order matters: what is purged or flushed and soon used again is credited, and raises what may be kept. */
    counts n = run(few, ROUNDS);
    share("a few blocks: refills", n.refills, 350, 150);
    share("a few blocks: flushes", n.flushes, 300, 150);
    share("a few blocks: batches from slabs", n.takes, 300, 50);
    share("a few blocks: batches to slabs", n.gives, 300, 50);
    share("a few blocks: magazines from the depot", n.from_depot, 30, 10);
    share("a few blocks: magazines to the depot", n.to_depot, 30, 10);
    share("a few blocks: depots emptied", n.empties, 5, 1);
    n = run(slots, ROUNDS);
    share("free slots: purges", n.purges, 5, 1);
    n = run(many, ROUNDS);
    share("many blocks: batches from slabs", n.takes, 200, 20);
    share("many blocks: batches to slabs", n.gives, 200, 20);
    n = run(growth, ROUNDS);
    share("growing blocks: pages moved", n.moves, 500, 0);
    return 0;
}
