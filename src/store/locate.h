/* What is at p? The one answer for free, realloc, usable size, messages and the tools. It reads metadata and never the
 * block.
 *
 * Thread-safety: any thread. The answer holds as long as the caller holds the block; for any other pointer it is a
 * snapshot. Progress: wait-free. Cost: some ten loads for a block; a search backwards, of a chunk at most, for a pointer into
 * a large block that is not its beginning. */
#ifndef FH_STORE_LOCATE_H
#define FH_STORE_LOCATE_H

#include "base/types.h"

typedef enum {
    FH_AT_FOREIGN, /* not an address of ours, or one that was never handed out */
    FH_AT_NOTHING, /* an address of ours, but no slab and no large block is there (any more) */
    FH_AT_SLAB,    /* a block of a class */
    FH_AT_HOLE,    /* a guest block, or a block of the owner, in a borrowed slab */
    FH_AT_LARGE,   /* a large block */
    FH_AT_HEAP,    /* a block of a heap of the embedding API */
} fh_place_kind;

typedef struct {
    fh_place_kind kind;
    unsigned c;  /* AT_SLAB: the class */
    void *begin; /* of the block that p points to or into; NULL: FOREIGN or NOTHING, or a hole that is free */
    size_t size; /* bytes of the block: what the program may use of it */
    bool free;   /* AT_SLAB, AT_HOLE: it is free in its slab. Blocks in magazines are not */
} fh_place;

fh_place fh_locate(const void *p);

/* Reports what is wrong with a pointer that `call` was given as the beginning of a live block. True if nothing is. */
bool fh_place_check(const fh_place *at, const char *call, const void *p);

#endif
