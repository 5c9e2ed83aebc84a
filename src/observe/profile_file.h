/* The profile file as the library holds it: the file, its mappings, its sections and their entries by number. It knows no
 * table: what the entries mean is in profile.h, and who writes them are the tables above this module (nodes.c, sites.c,
 * samples.c, modules.c) and refresh.c.
 *
 *     one mapping:   header │ control │ figures │ timeline │ extent 0 of modules, nodes, sites, samples, heaps
 *     and one for each further extent, twice as long as the one before, at the file's end
 *
 * The life of the file, a word that only this module changes:
 *
 *     NONE ──▶ MAKING ──▶ LIVE        make: compare-and-swap, so one thread makes it and none waits. A thread that finds
 *      ▲         └──────▶ FAILED      MAKING continues without being observed for a moment
 *      └── LEAVING ◀───── LIVE        in the child of a fork: the parent's file is let go of, never written to
 *
 * That this is another process shows in a word that the kernel wipes on every fork, a bare clone included. It is read
 * before each use of the file. The child lets go in two steps, so that observe.c can clear the tables between them.
 *
 * Thread-safety: any thread. Progress: lock-free. An extent is made by every thread that finds it missing, and one of
 * them wins. No failure harms the program: what there is no room for is counted as dropped. */
#ifndef FH_OBSERVE_PROFILE_FILE_H
#define FH_OBSERVE_PROFILE_FILE_H

#include "observe/profile_words.h"

#include <stdbool.h>
#include <stddef.h>

#define FH_PROFILE_NO_ENTRY (~UINT64_C(0))

/* ── The file ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* False: this process has no file, and never had one. Cost: a load; it is for who would do nothing else with the file. */
extern fh_word fh_profile_life;
static inline bool fh_profile_has_been(void) {
    return fh_load(&fh_profile_life) != 0; /* NONE */
}

/* This process's file; NULL if it has none (yet, or any more), or still holds its parent's. */
fh_profile_header *fh_profile(void);

/* True if what is held is the parent's: it must be let go of. True in a child that has no file of its own yet. True if
 * none could be made. */
bool fh_profile_is_parents(void);
bool fh_profile_is_childs(void);
bool fh_profile_failed(void);

/* Makes the file unless it is there or was tried. NULL: there is none, and a message has said why. */
fh_profile_header *fh_profile_begin(void);

/* Unmaps what is the parent's. True for the one thread that did: it clears the tables and calls fh_profile_left. */
bool fh_profile_leave(void);
void fh_profile_left(void);

/* In the child of a fork, for kernels that do not wipe: what is held is the parent's. */
void fh_profile_forked(void);

/* The program ends by itself: state ENDED, and the file is removed unless it was asked for by page=DIR. */
void fh_profile_end(void);

/* ── Sections ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The entry of that number, NULL if its extent is not there. Entries are zero until they are written. */
void *fh_profile_entry(fh_profile_section_kind kind, uint64_t number);

/* The address of an extent and how many entries it has; NULL if it is not there. Does not ask whose file it is. */
void *fh_profile_extent(fh_profile_section_kind kind, unsigned k, uint64_t *entries);

/* Takes the next entry: its number, or FH_PROFILE_NO_ENTRY (counted as dropped) when there is no room. */
uint64_t fh_profile_add(fh_profile_section_kind kind);

/* Makes the first extent that is missing. False: no room. */
bool fh_profile_grow(fh_profile_section_kind kind);

/* Counts an entry that there was no room for. */
void fh_profile_drop(fh_profile_section_kind kind);

#endif
