/* Marks: a tree of bits for each class and each room, that finds the lowest place with something free in four loads,
 * however large the heap is.
 *
 *     level 3   top      bit = unit      ┐
 *     level 2   unit     bit = region    │ a bit is set when the word below it is not 0
 *     level 1   region   bit = chunk     ┘ (room marks end here: the bit is the information)
 *     level 0   chunk    bit = slot        (class marks end here)
 *
 * The protocol, the same at every level:
 *     set    or the bit in; if it was not there, look at the bit above *after* that and set it too.
 *     clear  and the bit out; then look again at what it stood for, and set it again if there is something.
 * Both sides write first and look second, with a full barrier between (sequentially consistent): of a setter and a
 * clearer at the same time, at least one sees the other. So no mark is lost for good; one may be hidden while a clearer
 * is between its two steps, and if that thread never runs again, what it hides is what lay below that one bit.
 *
 * Thread-safety: any thread. Progress: set and clear are wait-free (≤ 4 levels); find is lock-free: it starts again only
 * when a bit that it followed was stale, and then it has cleared it. */
#ifndef FH_STORE_HINTS_H
#define FH_STORE_HINTS_H

#include "base/types.h"

/* `child` is a slot at level 0, a chunk at level 1. */
void fh_hint_set(unsigned mark, unsigned level, size_t child);

/* The caller must look again, afterwards, at what the bit stood for. */
void fh_hint_clear(unsigned mark, unsigned level, size_t child);

/* True if the slot has the class mark. A hint. */
bool fh_hint_is_set(unsigned mark, size_t slot);

/* The lowest child at that level with the mark set, or FH_NONE. */
size_t fh_hint_find(unsigned mark, unsigned level);

/* The lowest slot with the class mark that is none of the n in apart[] (slots; FH_NONE is ignored). If these are the only
 * ones, FH_NONE; if the search would be long, one of them. */
size_t fh_hint_find_apart(unsigned mark, const size_t *apart, unsigned n);

/* The lowest slot with the class mark from that slot on, or FH_NONE. Cost: a load a region in between. */
size_t fh_hint_next(unsigned mark, size_t from);

/* True if some slot other than this one has the class mark. */
bool fh_hint_other(unsigned mark, size_t slot);

#endif
