/* Where guarded blocks are (misuse/guard.h), and what they take: what the layers below misuse/ must know of them. They are not
 * in the window: their region is a mapping of its own, and no slab, run or hint knows them.
 *
 *     equation with a hard limit, at every moment:   slots in use + pages of guarded blocks + what is being claimed  ≤  hard
 *
 * Thread-safety: any thread. Relaxed, as statistics; only `bytes` is published, after `begin`. Progress: wait-free. */
#ifndef FH_STORE_GUARDED_H
#define FH_STORE_GUARDED_H

#include "store/events.h"

typedef struct {
    fh_word one_in;      /* one allocation in so many is guarded; 0: none. It changes with the option */
    fh_word begin;       /* of the region; written once, before `bytes` */
    fh_word bytes;       /* of the region; 0: there is none */
    fh_word blocks;      /* that the program has */
    fh_word block_bytes; /* of these, as they were asked for */
    fh_word page_bytes;  /* of the pages that these have to themselves */
} fh_guarded_books;

extern fh_guarded_books fh_guarded FH_HIDDEN;

/* True if p is an address of the region. A thread that has a block of it has seen its bounds. */
static inline bool fh_in_guards(const void *p) {
    uint64_t bytes = fh_load_acquire(&fh_guarded.bytes); /* acquire: `begin` before it */
    return FH_UNLIKELY((uintptr_t)p - (uintptr_t)fh_load(&fh_guarded.begin) < bytes);
}

/* What counts against a limit. */
static inline size_t fh_charged_bytes(void) {
    return fh_used_bytes() + (size_t)fh_load(&fh_guarded.page_bytes);
}

#endif
