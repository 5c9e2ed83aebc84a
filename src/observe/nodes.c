#include "observe/nodes.h"

#include "observe/index.h"
#include "observe/profile_file.h"

static fh_index known;

typedef struct {
    uint64_t address;
    uint32_t parent, flags;
} step;

static bool same(uint32_t number, const void *key) {
    const step *wanted = key;
    const fh_profile_node *node = fh_profile_entry(FH_PROFILE_NODES, number);
    return node && node->address == wanted->address && node->parent == wanted->parent &&
           (node->flags & FH_PROFILE_NODE_CUT) == wanted->flags;
}

static uint32_t check_of(const step *s) {
    uint64_t words[2] = {s->address, s->parent | (uint64_t)s->flags << 32};
    uint64_t h = fh_profile_checked(fh_profile_check(0, words, sizeof words));
    return (uint32_t)(h >> 33) << FH_PROFILE_NODE_CHECK_SHIFT;
}

/* The entry is written before its number goes into the index, and by this thread alone. */
static uint32_t make(const void *key) {
    const step *wanted = key;
    uint64_t number = fh_profile_add(FH_PROFILE_NODES);
    fh_profile_node *node = number < UINT32_MAX ? fh_profile_entry(FH_PROFILE_NODES, number) : NULL;
    if (!node) return 0;
    uint64_t flags = wanted->flags | check_of(wanted);
    node->address = wanted->address;
    /* One word, and the second, so that a reader finds a check only with all that it is of. */
    fh_store_release((fh_word *)(void *)&node->parent, wanted->parent | flags << 32);
    return (uint32_t)number;
}

/* Addresses of one caller differ in their lower bits, parents in few: both are spread over all of the word. */
static uint64_t hash(const step *s) {
    uint64_t h = (s->address ^ (uint64_t)s->flags << 63) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 32 ^ s->parent) * UINT64_C(0xD6E8FEB86659FD93);
    return h ^ h >> 32;
}

/* ── Whole stacks ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A stack that was seen before is found as a whole: a hundred frames are then one lookup and not a hundred, each of which
 * would miss the cache (measured: 5,000 instructions of the 12,000 that a sample of a Python program took). What is
 * compared is 32 bits of the hash, its place and the innermost frames; that two stacks agree in all of that and are not the same
 * one happens once in some 10^9 new stacks, and then one sample is named wrongly. */
static fh_index stacks;

#define COMPARED 4u

typedef struct {
    const uintptr_t *address;
    unsigned depth;
    bool whole;
} stack;

static bool same_stack(uint32_t number, const void *key) {
    const stack *s = key;
    for (unsigned i = 0; i < s->depth && i < COMPARED; i++) {
        const fh_profile_node *node = number ? fh_profile_entry(FH_PROFILE_NODES, number) : NULL;
        if (!node || node->address != s->address[i]) return false;
        number = node->parent;
    }
    return true;
}

/* Frame by frame, from the outermost: the innermost one's node. 0: no room. */
static uint32_t make_stack(const void *key) {
    const stack *s = key;
    step at = {.parent = 0, .flags = s->whole ? 0 : FH_PROFILE_NODE_CUT};
    for (unsigned i = s->depth; i-- > 0;) {
        at.address = s->address[i];
        fh_index_search search = {.hash = hash(&at), .same = same, .make = make, .key = &at};
        at.parent = fh_index_get(&known, &search);
        at.flags = 0;
        if (!at.parent) return 0;
    }
    return at.parent;
}

uint32_t fh_nodes_of(const uintptr_t *address, unsigned depth, bool whole, bool *lost) {
    stack s = {.address = address, .depth = depth, .whole = whole};
    uint64_t h = whole;
    for (unsigned i = 0; i < depth; i++) {
        h = (h ^ address[i]) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 32;
    }
    fh_index_search search = {.hash = h, .same = same_stack, .make = make_stack, .key = &s};
    uint32_t number = depth ? fh_index_get(&stacks, &search) : 0;
    *lost = depth && !number;
    return number;
}

void fh_nodes_clear(void) {
    fh_index_clear(&known);
    fh_index_clear(&stacks);
}

size_t fh_nodes_bytes(void) {
    return fh_index_bytes(&known) + fh_index_bytes(&stacks);
}
