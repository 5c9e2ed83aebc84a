/* The table of sampled blocks that live, in the profile file, found by address.
 *
 *     a slot's address:   0 ──▶ 1 ──▶ address ──▶ 1 ──▶ 0
 *                      empty  being written  live  being removed  empty
 *
 *     0 → 1         compare-and-swap, acquire: the slot is ours to write; pairs with the release that emptied it
 *     1 → address   store, release: the fields before the address by which the slot is found
 *     address → 1   compare-and-swap, acquire: of two frees of one block, one gets the sample
 *     1 → 0         store, release: our reads before the next one writes
 *
 * A thread that never runs again in between leaves one slot unusable. The slots of an address are the 32 that follow its
 * hash, in each extent: nothing is ever moved, and a slot may become empty at any time.
 *
 * Thread-safety: any thread. Progress: lock-free; a slot that another thread is writing is passed over. */
#ifndef FH_OBSERVE_SAMPLES_H
#define FH_OBSERVE_SAMPLES_H

#include "observe/profile_file.h"

/* Enters a sample; its address must not be in the table. False: no room (counted as dropped). */
bool fh_samples_enter(const fh_profile_sample *sample);

/* Takes the sample of that address out, as one that is freed now; false if there is none. */
bool fh_samples_remove(uint64_t address, uint64_t now, fh_profile_sample *sample);

/* The sample of one address becomes that of another that has the same places: its low four bits may differ. */
void fh_samples_rename(uint64_t from, uint64_t to);

/* The sample of a block that the caller holds, NULL if there is none. */
fh_profile_sample *fh_samples_find(uint64_t address);

/* The table as it is mapped, for a scan: the number of its extents, and of each its address and how many slots it has. */
unsigned fh_samples_extents(fh_profile_sample *extent[FH_PROFILE_EXTENTS], uint64_t slots[FH_PROFILE_EXTENTS]);

/* Calls see for each sample of the heap with that number, of which no other thread allocates or frees meanwhile. */
void fh_samples_each_of(uint32_t heap, void (*see)(uint64_t address, void *arg), void *arg);

#endif
