/* The shared page as the library holds it: its file, its mappings, and entries by number. What the entries mean is in
 * page.h; who writes them are sites.c, nodes.c, samples.c, modules.c and figures.c.
 *
 *     one mapping:   header │ control │ figures │ timeline │ extent 0 of modules, nodes, sites, samples
 *     and one for each further extent, twice as long as the one before, at the file's end
 *
 * The life of the page, a word that only this file changes:
 *
 *     NONE ──▶ MAKING ──▶ LIVE                    make: compare-and-swap, so one thread makes it and none waits
 *      ▲         └──────▶ FAILED                  (whoever finds MAKING goes on without being observed for a moment)
 *      └──────────────── LIVE, in the child of a fork: the parent's page is let go of, never written to
 *
 * That this is another process shows in a word that the kernel wipes on every fork, a bare clone included; it is
 * looked at before each use of the page.
 *
 * Thread-safety: any thread. Progress: lock-free; an extent is made by every thread that finds it missing, and one of
 * them wins. Nothing here ever waits, and no failure harms the program: what there is no room for is counted as dropped. */
#ifndef FH_OBSERVE_PROFILE_FILE_H
#define FH_OBSERVE_PROFILE_FILE_H

#include "base/atomic.h"
#include "observe/profile.h"

#include <stdbool.h>
#include <stddef.h>

#define FH_PROFILE_NO_ENTRY (~UINT64_C(0))

/* The words of the page are plain numbers in page.h, for readers in other languages; here they are shared words. */
static inline fh_word *fh_profile_word(uint64_t *field) {
    return (fh_word *)field;
}

/* True in the child of a fork that has no page of its own yet; true if none could be made. */
bool fh_profile_is_childs(void);
bool fh_profile_failed(void);

/* This process's page, NULL if it has none (yet, or any more). */
fh_profile_header *fh_profile(void);
fh_profile_control *fh_profile_controls(fh_profile_header *page);

/* Makes the page unless it is there or was tried. NULL: there is none, and a message has said why. */
fh_profile_header *fh_profile_begin(void);

/* The program ends by itself: state ENDED, and the file goes unless it was asked for by page=DIR. */
void fh_profile_end(void);

/* In the child of a fork, for systems that do not wipe: the page was the parent's. */
void fh_profile_forked(void);

/* The entry of that number, NULL if its extent is not there. Entries are zero until they are written. */
void *fh_profile_entry(fh_profile_section_kind kind, uint64_t number);

/* The address of an extent and how many entries it has; NULL if it is not there. Does not ask whose page it is, so that
 * the child that answers a scan for its parent may go on in the parent's. */
void *fh_profile_extent(fh_profile_section_kind kind, unsigned k, uint64_t *entries);

/* The next entry: its number, or FH_PROFILE_NO_ENTRY (counted as dropped) when there is no room. */
uint64_t fh_profile_add(fh_profile_section_kind kind);

/* Makes the first extent that is missing. False: no room. */
bool fh_profile_grow(fh_profile_section_kind kind);

/* Something could not be entered. */
void fh_profile_drop(fh_profile_section_kind kind);

#endif
