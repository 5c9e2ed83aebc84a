/* The slots of guarded blocks, and what threads share of them: words alone, no system calls.
 *
 *     fresh ──▶ TAKEN ──▶ LIVE ──▶ FREED ──▶ waits in the ring ──▶ TAKEN …
 *
 *     beyond fresh → TAKEN   `fresh` + 1 by compare-and-swap, relaxed: the slot is this thread's. It has been opened, which
 *                            is seen by the acquire of `opened`
 *     TAKEN → LIVE           by the owner, release: all else of the slot before it. All else is written by release too:
 *                            who reads some of it, and then the state again, sees that it was TAKEN meanwhile
 *     LIVE → FREED           compare-and-swap, acq_rel: of two frees one gets it, the other one reports. The word carries
 *                            the stack of the free, so that the loser finds it there
 *     FREED → ring           exchange of a place of the ring, acq_rel: the slot is any thread's that takes it out
 *     ring → TAKEN           the same; then an exchange of the state, acq_rel
 *
 *     ring     tail ──▶ oldest ■■■■■■■■■ newest ◀── head       a place is 0 or a slot's number + 1
 *
 *     put:     head grows by fetch_add, the slot is swapped into its place; one that was there goes to the next place
 *     take:    tail grows by compare-and-swap, its place is swapped for 0. It may be empty: the putter is late. The slot is
 *              found there by the next put that comes round
 *
 *     opened   slots that can be used │ BUSY while one thread opens more: compare-and-swap to BUSY, acquire; store of
 *              the new number, release. A thread that meets BUSY does without
 *
 *     paid     a moment of a clock, until which guards are paid for. Each that is afforded moves it on by a piece, by
 *              compare-and-swap, relaxed, because nothing else goes by it. It is so many pieces ahead of its clock at most;
 *              one that is further ahead than that is of the parent of a fork, whose clock showed more
 *
 * A slot is in the ring at most once, and there are as many places as slots. So a put ends after as many steps at most.
 * Progress: lock-free. A thread that never runs again keeps one slot from the others, or those that it was opening. */
#ifndef FH_MISUSE_GUARD_SLOTS_H
#define FH_MISUSE_GUARD_SLOTS_H

#include "base/atomic.h"
#include "base/hooks.h"

#include <stddef.h>
#include <stdint.h>

#define FH_GUARD_SLOTS 4096u /* most of them */
#define FH_GUARD_STEP 64u    /* are opened at a time */
#define FH_GUARD_NONE (~0u)

typedef enum { FH_GUARD_UNUSED, FH_GUARD_TAKEN, FH_GUARD_LIVE, FH_GUARD_FREED } fh_guard_kind;

typedef struct {
    fh_word state; /* kind 8 bits │ how often it was taken 24 │ stack of the free 32 */
    fh_word block; /* address */
    fh_word size;  /* as it was asked for */
    fh_word made;  /* stack of the allocation */
    fh_word pages; /* bytes that it has to itself */
    uint64_t pad[3];
} fh_guard_slot;

_Static_assert(sizeof(fh_guard_slot) == 64, "a line each");

/* What a slot says of its block, all of one moment. */
typedef struct {
    fh_guard_kind kind;
    uintptr_t block;
    size_t size, pages;
    uint32_t made, freed; /* stacks */
} fh_guard_view;

/* Bytes for so many slots, a power of two, of which `memory` is zero. */
size_t fh_guard_slots_bytes(unsigned slots);
void fh_guard_slots_start(void *memory, unsigned slots);

/* A slot that no thread has, TAKEN. `keep`: while freed blocks have fewer bytes than that, their slots wait, and others are
 * taken before them. `ready` makes FH_GUARD_STEP slots usable, from that one on; false: no more. FH_GUARD_NONE: there is none. */
unsigned fh_guard_take(uint64_t keep, bool (*ready)(unsigned first));

/* The slot was taken and is not used: it waits. */
void fh_guard_return(unsigned slot);

/* The slot that was taken is this block's: LIVE. */
void fh_guard_begin(unsigned slot, uintptr_t block, size_t size, size_t pages, uint32_t stack);

/* Of all that free the block at that address, one gets true, and *view is what it was. False: *view says why not. */
bool fh_guard_end(unsigned slot, uintptr_t block, uint32_t stack, fh_guard_view *view);

/* The block that ended, and whose pages fault now, waits. */
void fh_guard_put(unsigned slot);

/* What is in the slot. Kind UNUSED: nothing yet; TAKEN: it is changing, and nothing else counts. */
fh_guard_view fh_guard_look(unsigned slot);

/* True if there may be a guard at the moment `now` of a clock: one for each piece of `each` of its nanoseconds, and after a pause
 * `most` at once. */
typedef enum { FH_GUARD_WALL_CLOCK, FH_GUARD_CPU_CLOCK } fh_guard_clock;
bool fh_guard_affords(fh_guard_clock clock, uint64_t now, uint64_t each, uint64_t most);

/* Slots that were ever taken; bytes of freed blocks that wait. */
unsigned fh_guard_fresh(void);
uint64_t fh_guard_waiting(void);

#endif
