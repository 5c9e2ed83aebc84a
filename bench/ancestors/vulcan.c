// SPDX-License-Identifier: MIT OR Apache-2.0
// Baseline: Vulcan's memory manager (Jim Starkey, 2004). Small blocks of up to 1 KiB live on one free list a
// size; in the first form under the mutex of everything, in the second by compare-and-swap so that "nobody
// ever blocks" on a list that has something. Larger blocks are taken best fit from hunks of 64 KiB, and
// neighbours are recombined on release.
//
// VULCAN_LIST chooses the list; the plain compare-and-swap is kept to show that it breaks with several
// threads.
#define _GNU_SOURCE
#include "vulcan_list.h"

#include <assert.h>
#include <pthread.h>

#if VULCAN_LIST == 0
const char ancestor_name[] = "vulcan-mutex";
#elif VULCAN_LIST == 1
const char ancestor_name[] = "vulcan-cas-untagged";
#else
const char ancestor_name[] = "vulcan-cas";
#endif
static const enum list_kind list_kind = (enum list_kind)VULCAN_LIST;

enum { SMALL_LIMIT = 1024, SMALL_LISTS = SMALL_LIMIT / 16 + 1 };

// A block of a hunk. Its neighbours are found by sizes: prior is that of the one before, 0 for the first of a
// hunk.
//
//     hunk: | big | payload | big | payload | ... | end mark, size 0, in use |
struct big {
    uint32_t prior;
    uint32_t size; // this header included; 0 marks the end of the hunk
    uint32_t in_use;
    uint32_t unused;
};

// A free block is on a list sorted by size, one entry for each size that exists; equal ones hang on it as
// twins.
struct free_big {
    struct big big;
    struct free_big *smaller, *larger;
    struct free_big *prior_twin, *next_twin;
};

enum { HUNK_ROOM = CHUNK - (int)sizeof(struct big) };

const size_t ancestor_limit = HUNK_ROOM - sizeof(struct big);
const bool ancestor_headless = false;
const bool ancestor_uses_libc = false;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static list_head small_lists[SMALL_LISTS];
static char *small_at, *small_end; // the hunk that new small blocks are cut from
static struct free_big *spare;     // one empty hunk is kept, so that a single block does not map and unmap at each step
static struct free_big junk = {.smaller = &junk, .larger = &junk};

static struct big *after(struct big *block) {
    return (struct big *)((char *)block + block->size);
}

// ---------------------------------------------------------------------------------------------------- large blocks

static void junk_insert(struct free_big *block) {
    struct free_big *at = junk.larger;
    while (at != &junk && at->big.size < block->big.size) {
        at = at->larger;
    }
    block->big.in_use = 0;
    if (at != &junk && at->big.size == block->big.size) {
        block->smaller = block->larger = NULL;
        block->prior_twin = at;
        block->next_twin = at->next_twin;
        if (at->next_twin != NULL) {
            at->next_twin->prior_twin = block;
        }
        at->next_twin = block;
        return;
    }
    block->prior_twin = block->next_twin = NULL;
    block->larger = at;
    block->smaller = at->smaller;
    at->smaller->larger = block;
    at->smaller = block;
}

static void junk_remove(struct free_big *block) {
    struct free_big *twin = block->next_twin;
    if (twin != NULL) {
        twin->prior_twin = block->prior_twin;
    }
    if (block->prior_twin != NULL) {
        block->prior_twin->next_twin = twin;
    } else if (twin != NULL) {
        // The first twin inherits the place in the sorted list.
        twin->smaller = block->smaller;
        twin->larger = block->larger;
        twin->smaller->larger = twin;
        twin->larger->smaller = twin;
    } else {
        block->smaller->larger = block->larger;
        block->larger->smaller = block->smaller;
    }
}

static struct free_big *new_hunk(void) {
    struct free_big *block = spare != NULL ? spare : (struct free_big *)window_chunk();
    spare = NULL;
    if (block == NULL) {
        return NULL;
    }
    block->big = (struct big){0, HUNK_ROOM, 0, 0};
    *after(&block->big) = (struct big){HUNK_ROOM, 0, 1, 0};
    return block;
}

// Best fit: the first of the sorted list that is large enough; a twin of it by preference, as that moves no
// list.
static void *big_take(size_t size) {
    uint32_t need = (uint32_t)((size + sizeof(struct big) + 15) & ~(size_t)15);
    need = need < sizeof(struct free_big) ? (uint32_t)sizeof(struct free_big) : need;
    struct free_big *block = junk.larger;
    while (block != &junk && block->big.size < need) {
        block = block->larger;
    }
    if (block == &junk) {
        block = new_hunk();
        if (block == NULL) {
            return NULL;
        }
    } else {
        block = block->next_twin != NULL ? block->next_twin : block;
        junk_remove(block);
    }
    uint32_t rest = block->big.size - need;
    if (rest >= sizeof(struct free_big)) {
        block->big.size = need;
        struct free_big *tail = (struct free_big *)after(&block->big);
        tail->big = (struct big){need, rest, 0, 0};
        after(&tail->big)->prior = rest;
        junk_insert(tail);
    }
    block->big.in_use = 1;
    return (char *)block + sizeof(struct big);
}

static void big_give(void *payload) {
    struct big *block = (struct big *)((char *)payload - sizeof(struct big));
    assert(block->in_use == 1);
    struct big *next = after(block);
    if (next->in_use == 0) {
        junk_remove((struct free_big *)next);
        block->size += next->size;
    }
    if (block->prior != 0) {
        struct big *prior = (struct big *)((char *)block - block->prior);
        if (prior->in_use == 0) {
            junk_remove((struct free_big *)prior);
            prior->size += block->size;
            block = prior;
        }
    }
    after(block)->prior = block->size;
    if (block->size == HUNK_ROOM) {
        if (spare == NULL) {
            spare = (struct free_big *)block;
        } else {
            window_return(block);
        }
        return;
    }
    junk_insert((struct free_big *)block);
}

// ---------------------------------------------------------------------------------------------------- small blocks

// Cuts a new small block. What is left of a hunk that cannot hold it goes to the list of its own size.
static void *small_cut(size_t size) {
    if ((size_t)(small_end - small_at) < size) {
        size_t rest = (size_t)(small_end - small_at);
        if (rest >= 16) {
            list_push(&small_lists[rest / 16], small_at, list_kind);
        }
        small_at = (char *)window_chunk();
        small_end = small_at != NULL ? small_at + CHUNK : NULL;
        if (small_at == NULL) {
            return NULL;
        }
    }
    void *block = small_at;
    small_at += size;
    return block;
}

void *ancestor_take(size_t size) {
    size_t list = (size + 15) / 16;
    if (list_kind != LIST_MUTEX && size <= SMALL_LIMIT) {
        void *block = list_pop(&small_lists[list], list_kind);
        if (block != NULL) {
            return block;
        }
    }
    pthread_mutex_lock(&mutex);
    void *block = NULL;
    if (size <= SMALL_LIMIT) {
        block = list_kind == LIST_MUTEX ? list_pop(&small_lists[list], list_kind) : NULL;
        block = block != NULL ? block : small_cut(list * 16);
    } else {
        block = big_take(size);
    }
    pthread_mutex_unlock(&mutex);
    return block;
}

void ancestor_give(void *block, size_t size) {
    if (list_kind != LIST_MUTEX && size <= SMALL_LIMIT) {
        list_push(&small_lists[(size + 15) / 16], block, list_kind);
        return;
    }
    pthread_mutex_lock(&mutex);
    if (size <= SMALL_LIMIT) {
        list_push(&small_lists[(size + 15) / 16], block, list_kind);
    } else {
        big_give(block);
    }
    pthread_mutex_unlock(&mutex);
}

size_t ancestor_room(const void *address) {
    (void)address;
    return 0;
}

void ancestor_fork(enum fork_moment moment) {
    if (moment == BEFORE_FORK) {
        pthread_mutex_lock(&mutex);
    } else {
        pthread_mutex_unlock(&mutex);
    }
}
