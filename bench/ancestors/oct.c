// SPDX-License-Identifier: MIT OR Apache-2.0
// Baseline: OctAlloc (denis bider, 2007), written from its description: no locks at all, 53 size classes up
// to 32,752 bytes in chunks of 64 KiB, each chunk with a lock-free list whose head carries a tag, a set of
// chunks for each processor from which its threads allocate, and chunks that become empty go back to the
// system at once. Larger blocks are mappings.
//
// A block needs no header: its chunk is found by rounding the address down, the class stands in the chunk.
//
//     chunk: | word 8 | class 4 | pad | block | block | ... |
//     word:  tag 24 | unlisted 1 | free blocks 13 | first free block 13 | never used yet 13
//
// A chunk is in the hands of an allocating thread, or it lies in a set, or it is full and unlisted. Frees may
// come in all three cases. Whoever frees a block of an unlisted chunk clears the bit and puts the chunk into
// a set.
#define _GNU_SOURCE
#include "ancestor.h"

#include <sched.h>
#include <stdatomic.h>

const char ancestor_name[] = "oct-like";
const size_t ancestor_limit = 32752;
const bool ancestor_headless = true;
const bool ancestor_uses_libc = false;

enum { OCT_CLASSES = 53, CHUNK_HEAD = 32, SETS = 64, NONE = 8191 };

struct chunk {
    _Atomic(uint64_t) word;
    uint32_t class;
};

struct word {
    uint32_t tag, unlisted, free, first, unused;
};

// A set: one chunk at hand, and a stack of others that have free blocks. Both change by one atomic operation.
struct set {
    _Atomic(struct chunk *) at_hand;
    _Atomic(uint64_t) partial; // tag << 32 | chunk number + 1
    _Atomic(uint32_t) empties;
} __attribute__((aligned(64)));

static struct set sets[SETS][OCT_CLASSES];
static _Atomic(uint32_t) links[WINDOW_CHUNKS]; // of the stacks; beside the chunks, which may lose their pages
static uint16_t sizes[OCT_CLASSES];
static uint8_t class_by_unit[32752 / 16 + 1];
static _Atomic(bool) ready;

// 16-byte steps to 256, then falling numbers of blocks a chunk, down to two of 32,752. Computed by whoever
// comes first; several may do it at once, and they all write the same.
static void prepare(void) {
    unsigned class = 0;
    for (; class < 16; class ++) {
        sizes[class] = (uint16_t)((class + 1) * 16);
    }
    double count = (CHUNK - CHUNK_HEAD) / 256.0;
    for (; class < OCT_CLASSES; class ++) {
        // The 37th root of 255.9 / 2: 37 equal ratios from there to two blocks.
        count /= 1.14013;
        unsigned whole = class == OCT_CLASSES - 1 ? 2 : (unsigned)(count + 0.5);
        sizes[class] = (uint16_t)((CHUNK - CHUNK_HEAD) / whole & ~15u);
    }
    for (unsigned unit = 0, at = 0; unit <= 32752 / 16; unit++) {
        while (sizes[at] < unit * 16) {
            at++;
        }
        class_by_unit[unit] = (uint8_t)at;
    }
    atomic_store_explicit(&ready, true, memory_order_release);
}

static unsigned capacity(unsigned class) {
    return (unsigned)(CHUNK - CHUNK_HEAD) / sizes[class];
}

static struct word unpack(uint64_t word) {
    return (struct word){(uint32_t)(word >> 40), word >> 39 & 1, word >> 26 & 8191, word >> 13 & 8191, word & 8191};
}

static uint64_t pack(struct word word) {
    return (uint64_t)(word.tag & 0xffffff) << 40 | (uint64_t)word.unlisted << 39 | (uint64_t)word.free << 26 |
           (uint64_t)word.first << 13 | word.unused;
}

static _Atomic(uint32_t) *link_of(struct chunk *chunk, uint32_t block) {
    return (_Atomic(uint32_t) *)((char *)chunk + CHUNK_HEAD + (size_t)block * sizes[chunk->class]);
}

static struct set *my_set(unsigned class) {
    return &sets[(unsigned)sched_getcpu() % SETS][class];
}

// ---------------------------------------------------------------------------------------------------- the stack of a set

static void stack_push(struct set *set, struct chunk *chunk) {
    uint32_t number = (uint32_t)(((char *)chunk - window_base) / CHUNK);
    uint64_t old = atomic_load(&set->partial);
    do {
        atomic_store(&links[number], (uint32_t)old);
    } while (!atomic_compare_exchange_weak(&set->partial, &old, ((old >> 32) + 1) << 32 | (number + 1)));
}

static struct chunk *stack_pop(struct set *set) {
    uint64_t old = atomic_load(&set->partial), next;
    do {
        if ((uint32_t)old == 0) {
            return NULL;
        }
        next = ((old >> 32) + 1) << 32 | atomic_load(&links[(uint32_t)old - 1]);
    } while (!atomic_compare_exchange_weak(&set->partial, &old, next));
    return (struct chunk *)(window_base + (size_t)((uint32_t)old - 1) * CHUNK);
}

// ---------------------------------------------------------------------------------------------------- chunks

static bool all_free(struct chunk *chunk) {
    return unpack(atomic_load(&chunk->word)).free == capacity(chunk->class);
}

// The chunk is in our hands: nobody else allocates from it. If all its blocks are free, nobody can free one
// either.
static void put_away(struct set *set, struct chunk *chunk) {
    struct chunk *none = NULL;
    if (!atomic_compare_exchange_strong(&set->at_hand, &none, chunk)) {
        stack_push(set, chunk);
    }
}

static struct chunk *new_chunk(unsigned class) {
    struct chunk *chunk = (struct chunk *)window_chunk();
    if (chunk != NULL) {
        chunk->class = class;
        struct word word = {0, 0, capacity(class), NONE, 0};
        atomic_store(&chunk->word, pack(word));
    }
    return chunk;
}

// Takes all stacked chunks at once, lets the empty ones go, and puts the others back. Done when a good part
// must be empty.
static void weed(struct set *set) {
    uint64_t old = atomic_load(&set->partial);
    while (!atomic_compare_exchange_weak(&set->partial, &old, ((old >> 32) + 1) << 32)) {
    }
    atomic_store(&set->empties, 0);
    for (uint32_t number = (uint32_t)old; number != 0;) {
        struct chunk *chunk = (struct chunk *)(window_base + (size_t)(number - 1) * CHUNK);
        number = atomic_load(&links[number - 1]);
        if (all_free(chunk)) {
            window_return(chunk);
        } else {
            stack_push(set, chunk);
        }
    }
}

void *ancestor_take(size_t size) {
    if (!atomic_load_explicit(&ready, memory_order_acquire)) {
        prepare();
    }
    unsigned class = class_by_unit[(size + 15) / 16];
    struct set *set = my_set(class);
    struct chunk *chunk = atomic_exchange(&set->at_hand, NULL);
    chunk = chunk != NULL ? chunk : stack_pop(set);
    chunk = chunk != NULL ? chunk : new_chunk(class);
    if (chunk == NULL) {
        return NULL;
    }
    // A chunk that is listed or in hand has a free block: it was unlisted when the last one went. So this
    // cannot fail but by a free that came in between.
    uint64_t old = atomic_load(&chunk->word);
    struct word now;
    uint32_t block;
    do {
        now = unpack(old);
        block = now.first != NONE ? now.first : now.unused;
        if (now.first != NONE) {
            uint32_t next = atomic_load_explicit(link_of(chunk, block), memory_order_relaxed);
            now.first = next & 8191;
        } else {
            now.unused++;
        }
        now.tag++;
        now.free--;
        now.unlisted = now.free == 0;
    } while (!atomic_compare_exchange_weak(&chunk->word, &old, pack(now)));
    void *result = (char *)chunk + CHUNK_HEAD + (size_t)block * sizes[class];
    if (now.unlisted == 0) {
        put_away(set, chunk);
    }
    return result;
}

static struct chunk *chunk_of(const void *address) {
    return (struct chunk *)((uintptr_t)address & ~(uintptr_t)(CHUNK - 1));
}

void ancestor_give(void *address, size_t size) {
    (void)size;
    struct chunk *chunk = chunk_of(address);
    unsigned class = chunk->class;
    uint32_t block = (uint32_t)(((uintptr_t)address % CHUNK - CHUNK_HEAD) / sizes[class]);
    uint64_t old = atomic_load(&chunk->word);
    struct word before, now;
    do {
        before = now = unpack(old);
        atomic_store_explicit(link_of(chunk, block), before.first, memory_order_relaxed);
        now.tag++;
        now.free++;
        now.first = block;
        now.unlisted = 0;
    } while (!atomic_compare_exchange_weak(&chunk->word, &old, pack(now)));
    struct set *set = my_set(class);
    if (before.unlisted != 0) {
        put_away(set, chunk);
    }
    if (now.free != capacity(class)) {
        return;
    }
    // From here on the chunk may be gone already, through somebody else; only its address is compared. The
    // chunk at hand stays even when it is empty, or a program that makes and drops one block would map and
    // unmap at each step.
    if (atomic_load(&set->at_hand) != chunk && atomic_fetch_add(&set->empties, 1) >= 16) {
        weed(set);
    }
}

size_t ancestor_room(const void *address) {
    struct chunk *chunk = chunk_of(address);
    size_t size = sizes[chunk->class], within = ((uintptr_t)address % CHUNK - CHUNK_HEAD) % size;
    return size - within;
}

void ancestor_fork(enum fork_moment moment) {
    (void)moment;
}
