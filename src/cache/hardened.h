/* Option harden: what makes an attack on the program harder. Every thread of such a program has no bins, so each call takes the slow
 * half, and the others pay nothing for it.
 *
 *     malloc ─▶ fh_alloc_slow ─▶ fh_hook_alloc ─▶ fh_alloc_in: a random one of the free blocks of a slab     cache/partition.h
 *     free ──▶ fh_release_slow ─▶ fh_release_hardened: is it live? ─▶ the delay ─▶ the slab                   store/live.h
 *
 * Blocks are in regions of their own, between slabs are gaps (store/gaps.h), and the allocator's own memory is elsewhere.
 *
 * The delay is a few rings of freed blocks. A block that is freed takes the place of the one that was freed longest ago, and that
 * one is given to the store:
 *
 *     place   ┌───┬───┬───┬───┬─ ─ ─┐         a counter says which one is next; the exchange hands the two blocks over
 *             │ p │ q │ 0 │ 0 │     │
 *             └───┴───┴───┴───┴─ ─ ─┘
 *
 * So a block is not handed out again before FH_DELAY_… others of its kind were freed. Threads near different CPUs have rings of
 * their own, and a thread that is stopped between the two steps makes one wait shorter by what it missed.
 *
 * Thread-safety: any thread. Progress: wait-free, except what giving a block takes. */
#ifndef FH_CACHE_HARDENED_H
#define FH_CACHE_HARDENED_H

#include "base/tuning.h"
#include "base/types.h"
#include "store/locate.h"

/* Blocks up to 1 KiB: at most 256 KiB wait in a ring. Up to 64 KiB: 2 MiB. Up to 1 MiB: 16 MiB, in one ring for all threads. Longer
 * ones do not wait. */
#define FH_DELAY_FINE (FH_STRESS ? 8u : 256u)
#define FH_DELAY_COARSE (FH_STRESS ? 4u : 32u)
#define FH_DELAY_LARGE (FH_STRESS ? 2u : 16u)

/* The program is hardened from now on. Called with option harden, before it has a second thread. */
void fh_hardened_start(void);

/* Frees the block at p of a hardened partition, or reports what is wrong with it. False: p is in no hardened partition. */
bool fh_release_hardened(const char *call, void *p);

/* The middle of it, in a thread that is in the cache's slow half: the program has the block at p, which is what `at` says, no more.
 * It waits. False: another call was first. */
bool fh_hardened_end(const fh_place *at, void *p);

/* All that waits is given to the store. Cost: an exchange for each place. */
void fh_delay_empty(void);

#endif
