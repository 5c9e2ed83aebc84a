/* Double free, found at the call: is the block that is being freed in one of the thread's own magazines already?
 *
 * free notes in a table of the thread's (fh_thread.last_place) which place of a magazine the block went to. malloc clears
 * the place that it pops. So a free whose noted place still holds the block is suspicious, and a close look decides. The
 * block itself is neither read nor written.
 *
 *     free(p)   last_place[hash of p] ──▶ a place within 64 KiB ──▶ p ? ── no ──▶ note the new place, push
 *                    16 bits               of the bin's top          └─ yes ─▶ in one of the bin's two magazines, among
 *                                                                               its blocks?  reported : pushed
 *
 * The upper bits of the place are those of the bin's top. Magazines are blocks of slabs, so all 64 KiB around one are
 * mapped, whatever the 16 bits are. There may be another thread's magazine: it is read by one load, and what that
 * says is not believed. What is believed is the thread's own two magazines, of which only the thread itself writes.
 * So nothing here is shared, and a report is never wrong.
 *
 * What is missed: the entry was taken over by another block; the bin's top is by now in another 64 KiB; the magazine is
 * no longer the bin's, but in the depot, with another thread, or its blocks are back in their slabs; or the thread has
 * forgotten the entry, because its magazines go to other CPUs. Of these some are
 * found later: a magazine is looked through when its blocks go to their slabs, always; when it is handed to the depot, the
 * first few wholly and then a part of each; and when its thread ends, the first few times and then now and then.
 *
 * A young thread has no table, so that one that hardly allocates has no memory for it. Each of its frees takes the slow
 * half, which looks through the bin.
 *
 * Measured and rejected: comparing with top[-1] only (finds what is freed twice in a row); whole pointers in the table
 * (four times the memory for the same share); a byte for each 16 bytes of the heap (finds all, also across threads, at 10
 * instructions). */
#ifndef FH_CACHE_TWICE_H
#define FH_CACHE_TWICE_H

#include "cache/place.h"

/* Frees of a young thread. To make the table takes 7 µs, for the pages that it is on, and a young thread's free takes 0.03 µs more. So with
 * this many a thread loses at most what it might have saved, as one that rents before it buys. */
#define FH_YOUNG_FREES 128u

/* Of the magazines that a thread hands to the depot the first few are looked through, and then one part in so many of each. To
 * look through one in so many costs as much, but all of it in one free: 2.0 µs at p99.99 in xmalloc, where it is 0.7. Of a cache that
 * threads leave behind, one after the other, all is looked through, the first few times and then one time in so many: it may hold
 * thousands of blocks, of which each used a few. */
#define FH_LOOK_FIRST 16u
#define FH_LOOK_EVERY 16u

/* This is the n-th time, from 0 on. */
static inline bool fh_twice_is_due(uint32_t n) {
    return n < FH_LOOK_FIRST || n % FH_LOOK_EVERY == 0;
}

/* True if p is free in the bin of class c, which the table says. Of a thread that has one. Never wrong when it is true; cost:
 * some ten loads. */
bool fh_twice_known(fh_thread *t, unsigned c, const void *p);

/* True if the thread has the block at p cached: it is free. Reads all of the bin. */
bool fh_bin_has(const fh_thread *t, unsigned c, const void *p);

/* As fh_twice_known, for any thread: a young one looks through the bin, and one that is not watched finds nothing. */
bool fh_twice_is_free(fh_thread *t, unsigned c, const void *p);

/* True if an entry that was noted with one of them loaded also names places of the other. */
static inline bool fh_in_same_reach(const fh_magazine *one, const fh_magazine *other) {
    return ((uintptr_t)one ^ (uintptr_t)other) >> 16 == 0;
}

/* True if the two magazines of a bin are not in the same 64 KiB, although they could be: of different sizes, they are of
 * different slabs. Then the places in the full one are out of reach of the table, once the empty one is loaded. */
static inline bool fh_twice_apart(const fh_thread *t, const fh_magazine *full, const fh_magazine *empty) {
    if (!t->head.watched_slots || !full || full->capacity == empty->capacity) return false;
    return !fh_in_same_reach(full, empty);
}

/* Notes n places that hold blocks, if the thread has the table. */
void fh_twice_note(fh_thread *t, void *const *places, size_t n);

/* The thread, near this CPU, has handed a magazine of class c to the depot, and has loaded an empty one. If threads on other CPUs
 * get them from there, what it has noted is where these write. A free looks there whatever block it is of, so most frees of such threads
 * read a line that another CPU had: `threadtest-8t` took 1.4 times as long. So all entries lead into the loaded magazine, except
 * those of the blocks of the previous one. Nothing is done for short magazines. Cost: the table is written once, and seven
 * instructions for each block of the previous one. */
void fh_twice_forget(fh_thread *t, unsigned c, unsigned near);

/* Blocks of the shortest magazine for which that pays. */
#define FH_FORGET_FROM 254u

/* The same as fh_twice_note for all places of a magazine of class c that are in use. A block that is there twice is reported, and one of the
 * two is taken out. Returns how many places are in use then. Cost: 8 instructions a block. */
size_t fh_twice_look(fh_thread *t, unsigned c, void **places, size_t n);

/* Looks at one of FH_LOOK_EVERY parts of the magazine, another in each turn. A place is there twice if its block is noted for another
 * place of the magazine, which still holds it. Nothing is noted. Returns how many places are in use then. */
size_t fh_twice_look_at_some(fh_thread *t, unsigned c, void **places, size_t n, unsigned turn);

/* Sets the heads of the thread's rows: how its next frees look for double ones. For slow paths. */
void fh_twice_set(fh_thread *t);

/* A young thread has freed a block. The last time it gets its table. */
void fh_twice_count(fh_thread *t);

#endif
