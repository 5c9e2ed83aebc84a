/* Hints: a tree of bits for each class and each length bucket. It finds the lowest place with something free in four loads,
 * however large the heap is.
 *
 *     level 3   top      bit = unit      ┐
 *     level 2   unit     bit = region    │ a bit is set when the word below it is not 0
 *     level 1   region   bit = chunk     ┘ (length buckets end here: the bit is the information)
 *     level 0   chunk    bit = slot        (hints of classes end here)
 *
 * The protocol, the same at every level:
 *     set    or the bit in; *after* that read each level above, and set it there too.
 *     clear  and the bit out; then read again what it stood for, and set it again if there is something.
 * Both sides write first and read second, with a full barrier between (sequentially consistent). So of a setter and a
 * clearer at the same time at least one sees the other, and no hint is lost for good. One may be hidden while a clearer
 * is between its two steps. If that thread never runs again, it hides what is below that one bit, until the next thread
 * sets a hint below it.
 *
 * Thread-safety: any thread. Progress: set and clear are wait-free (≤ 4 levels); find is lock-free: it starts again only
 * when a bit that it followed was stale, and then it has cleared it. */
#ifndef FH_STORE_HINTS_H
#define FH_STORE_HINTS_H

#include "base/assert.h"
#include "base/types.h"
#include "store/window.h"

/* `child` is a slot at level 0, a chunk at level 1. */
void fh_hint_set(unsigned hint, unsigned level, size_t child);

/* The caller must read again, afterwards, what the bit stood for. */
void fh_hint_clear(unsigned hint, unsigned level, size_t child);

/* True if the slot has the hint of a class. It may be stale. */
static inline bool fh_hint_is_set(unsigned hint, size_t slot) {
    FH_ASSERT(hint < FH_CLASSES);
    return fh_load(&fh_chunk_hints_at(slot / FH_CHUNK_SLOTS)->hint[hint]) >> slot % FH_CHUNK_SLOTS & 1;
}

/* The lowest child at that level with the hint set, of that partition, or FH_NONE. The level is 0 or 1. */
size_t fh_hint_find_in(unsigned partition, unsigned hint, unsigned level);

/* The first hint from this one on, and before `end`, that any child may have; `end` if none has. Cost: a load a hint. */
unsigned fh_hint_first(unsigned hint, unsigned end);

/* The lowest slot with the hint of a class, of that partition, that is none of the n in apart[] (slots; FH_NONE is ignored). If
 * these are the only ones, FH_NONE; if the search would be long, one of them. */
size_t fh_hint_find_apart(unsigned partition, unsigned hint, const size_t *apart, unsigned n);

/* The lowest slot with the hint of a class from that slot on, or FH_NONE. Cost: a load a region in between. */
size_t fh_hint_next(unsigned hint, size_t from);

/* True if some slot other than this one has the hint of a class, as far as is seen in its partition. */
bool fh_hint_other(unsigned hint, size_t slot);

#endif
