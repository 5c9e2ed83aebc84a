/* A hash index from keys to numbers of entries, for the observer's own use: which node, which site is it?
 *
 *     level 0: 1,024 words │ level 1: 2,048 │ level 2: 4,096 │ …           word = hash's upper half | number, 0: empty
 *     a key is searched in a few places that follow its hash in level 0; if all are taken by others, in level 1, …
 *
 * Words change only once, from 0 to what they are for ever, by compare-and-swap after the entry is fully made. Nothing is
 * removed, so the first empty place ends the search: had the key been entered, it would be there. Two threads that enter
 * the same key at the same time make an entry each; one of the two is then never referred to.
 *
 * Thread-safety: any thread. Progress: lock-free. Memory: mappings of its own, not of the allocator. */
#ifndef FH_OBSERVE_INDEX_H
#define FH_OBSERVE_INDEX_H

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FH_INDEX_LEVELS 20u

typedef struct {
    fh_word level[FH_INDEX_LEVELS]; /* addresses, 0: not there; written once, by compare-and-swap */
} fh_index;

typedef struct {
    uint64_t hash;
    bool (*same)(uint32_t number, const void *key); /* is the entry of that number the one for key? */
    uint32_t (*make)(const void *key);              /* makes an entry: its number, 0: no room */
    const void *key;
} fh_index_search;

/* The number of the key's entry, which is made if it is not there. 0: no room for it. */
uint32_t fh_index_get(fh_index *index, const fh_index_search *search);

/* Forgets everything. No other thread may use the index. */
void fh_index_clear(fh_index *index);

/* Bytes of its levels. */
size_t fh_index_bytes(const fh_index *index);

#endif
