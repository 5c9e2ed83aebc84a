/* Depot: where threads hand each other whole magazines. A few slots a class, exchanged by compare-and-swap.
 *
 * Thread-safety: any thread. Progress: wait-free, each slot is tried once. Cost: two locked instructions for up to 510
 * blocks. Idea: Bonwick and Adams, "Magazines and Vmem" (USENIX 2001), with slots in place of its locked lists. */
#ifndef FH_STORE_DEPOT_H
#define FH_STORE_DEPOT_H

#include "base/types.h"

/* `near` is a small number that stands for the CPU that the caller runs on: a hint. Each shard is tried in turn by get,
 * beginning there; put uses only that one.
 *
 * Puts a full magazine in. True if there was room; *empty is then an empty magazine taken in exchange, or NULL. */
bool fh_depot_put(unsigned c, unsigned near, fh_magazine *full, fh_magazine **empty);

/* Takes a full magazine out, NULL if there is none. `empty` (may be NULL) goes in for it. */
fh_magazine *fh_depot_get(unsigned c, unsigned near, fh_magazine *empty);

/* True if threads near other CPUs have got magazines of class c that were put in near this one, since it was emptied last. A hint.
 * Cost: a load. */
bool fh_depot_is_shared(unsigned c, unsigned near);

/* True if there is nothing near this CPU because threads near others got it, there is something near others, and the caller should
 * rather fill a magazine from slabs than get one of those. For a thread that hands over half as many as it gets, or more. Then there
 * are enough for all, and each one's blocks stay near its CPU. The caller is about to fill one with so many blocks, which count when
 * this is true: up to FH_AWAY_BYTES and one magazine more, of a class and shard, until it is emptied. A thread that moves from CPU
 * to CPU may cost that too. Not while memory is short. Cost: two loads as a rule. */
bool fh_depot_lacks(unsigned c, unsigned near, unsigned blocks);

/* Flushes the depot of class c: gives its blocks to their slabs (runs: to their chunks), and the magazines too. */
void fh_depot_empty(unsigned c);

/* True if `place` is one of a full magazine of class c in the depot, and holds p. That magazine is got for the look, as any
 * thread gets one, and put back. Cost: a load for each slot. Progress: lock-free, as get and put. */
bool fh_depot_holds(unsigned c, void *const *place, const void *p);

/* Magazines: blocks of classes of their own, out of the reach of programs. The smallest that holds `blocks` (at most
 * 510), empty; NULL when there is no memory. */
fh_magazine *fh_magazine_new(unsigned blocks);
void fh_magazine_delete(fh_magazine *m);

/* Blocks in the depot of class c now, for the statistics. */
size_t fh_depot_blocks(unsigned c);

/* For check/: the fh_depot_slots(c) words of one depot, and how many of them are said to be full. */
const fh_word *fh_depot_words(unsigned shard, unsigned c);
const fh_word *fh_depot_full(unsigned shard, unsigned c);

#endif
