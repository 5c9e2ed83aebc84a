/* What a check of the heap found: which equation is violated, where, and by which figures.
 *
 * An equation has a name, and stands under that name in brackets where the structure is drawn: most in base/types.h, that
 * of limits in its header. tests/check breaks each of them on purpose. */
#ifndef FH_CHECK_REPORT_H
#define FH_CHECK_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    /* Slots and slabs */
    FH_EQUATION_SLOT_FREE,
    FH_EQUATION_SLOT_OVERLAP,
    FH_EQUATION_SLOT_LOST,
    FH_EQUATION_SLOT_CLASS,
    FH_EQUATION_SLAB_STATE,
    FH_EQUATION_SLAB_BUMP,
    FH_EQUATION_SLAB_BEYOND,
    FH_EQUATION_SLAB_COUNT,
    FH_EQUATION_SLAB_HINT,
    FH_EQUATION_SLAB_SHORT,
    FH_EQUATION_SLAB_LIVE,
    FH_EQUATION_HOLES_JOINED,
    FH_EQUATION_HOLES_EMPTY,
    /* Chunks and hints */
    FH_EQUATION_CHUNK_DIRTY,
    FH_EQUATION_CHUNK_LOST,
    FH_EQUATION_CHUNK_OVER,
    FH_EQUATION_CHUNK_PIECES,
    FH_EQUATION_EDGE_PAGES,
    FH_EQUATION_EDGE_EMPTY,
    FH_EQUATION_EDGE_CLEAN,
    FH_EQUATION_HINT_TREE,
    FH_EQUATION_HINT_LENGTH,
    /* Counters */
    FH_EQUATION_COUNT_DIRTY,
    FH_EQUATION_COUNT_USED,
    FH_EQUATION_COUNT_LOST,
    FH_EQUATION_COUNT_KEPT,
    /* Magazines */
    FH_EQUATION_MAGAZINE_VALID,
    FH_EQUATION_MAGAZINE_COUNT,
    FH_EQUATION_MAGAZINE_BLOCK,
    FH_EQUATION_MAGAZINE_TWICE,
    FH_EQUATION_MAGAZINE_SHARED,
    FH_EQUATION_MAGAZINE_LOST,
    FH_EQUATION_DEPOT_SLOT,
    FH_EQUATION_DEPOT_FULL,
    /* Caches */
    FH_EQUATION_CACHE_STATE,
    FH_EQUATION_CACHE_PARKED,
    FH_EQUATION_CACHE_BIN,
    FH_EQUATION_CACHE_LIMIT,
    FH_EQUATION_CACHE_BUDGET,
    /* Limits */
    FH_EQUATION_LIMIT_PENDING,
    FH_EQUATIONS
} fh_equation;

/* "slab.bump", and what it says in a sentence. */
const char *fh_equation_name(fh_equation e);
const char *fh_equation_text(fh_equation e);

typedef enum {
    FH_PLACE_HEAP,    /* all of it */
    FH_PLACE_CHUNK,   /* a number */
    FH_PLACE_SLOT,    /* a number */
    FH_PLACE_HINT,    /* the word or bit of that number in its level */
    FH_PLACE_ADDRESS, /* a magazine, a cache, a block */
} fh_check_place;

typedef struct {
    fh_equation equation;
    fh_check_place place;
    uint64_t at;              /* the number or address of the place */
    unsigned c;               /* the class or hint in question, 0 if there is none */
    uint64_t found, expected; /* figures; what they count is clear from the equation */
} fh_violation;

/* One check of the heap. The caller fills in the first part with zeros or what its comments say. */
typedef struct fh_verification {
    void (*found)(const fh_violation *v); /* is told of the first 100 violations; may be NULL */
    bool brief;                           /* leave out what reads every word: free slots, hint trees, depots */
    bool leave_magazines;                 /* leave out caches and depots: the caller has magazines in its own hands */
    unsigned only[2];                     /* of a brief check: the two classes whose depots are checked */
    uint64_t
        *seen; /* FH_CHECK_SEEN_BYTES of zeros for each chunk, to find what is in two places; NULL: not looked for */
    size_t held_slots;    /* slots that the caller has claimed and not made into anything */
    size_t counted_slots; /* slots that only the counter of used slots knows of: those held, as a rule */

    /* What is summed up on the way. */
    size_t violated;
    size_t used_slots, dirty_slots, stray_slots, lost_chunks, kept_runs;
    size_t magazines_out, magazines_known;
    size_t empty_holes; /* borrowed slabs that are all free */
    size_t live_blocks; /* that the program holds: those handed out, less those in magazines */
    /* Of the large block that was met last: the page at which it ends, counted from the window, and the slot up to which all
     * slots are its own. */
    size_t large_end, own_end;
    size_t gap_end;                 /* the slot behind the gap that was met last (store/gaps.h) */
    size_t over_chunks, over_named; /* chunks that a run of an earlier one is over, and that say so */
    bool left_busy;                 /* a fork has left a cache behind that was in use at that moment */
} fh_verification;

#define FH_CHECK_SEEN_WORDS ((size_t)64 * 64) /* slots of a chunk, words of a slab */
#define FH_CHECK_SEEN_BYTES (FH_CHECK_SEEN_WORDS * sizeof(uint64_t))

/* Counts a violation and passes it on. */
void fh_check_violated(fh_verification *check, fh_violation v);

/* Writes a violation to stderr, as one line. */
void fh_check_say(const fh_violation *v);

#endif
