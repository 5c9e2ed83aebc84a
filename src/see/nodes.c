#include "see/nodes.h"

#include "see/index.h"
#include "see/page_file.h"

static fh_index known;

typedef struct {
    uint64_t address;
    uint32_t parent, flags;
} step;

static bool same(uint32_t number, const void *key) {
    const step *wanted = key;
    const fh_page_node *node = fh_page_entry(FH_PAGE_NODES, number);
    return node && node->address == wanted->address && node->parent == wanted->parent && node->flags == wanted->flags;
}

/* The entry is written before its number goes into the index, and by this thread alone. */
static uint32_t make(const void *key) {
    const step *wanted = key;
    uint64_t number = fh_page_add(FH_PAGE_NODES);
    fh_page_node *node = number < UINT32_MAX ? fh_page_entry(FH_PAGE_NODES, number) : NULL;
    if (!node) return 0;
    *node = (fh_page_node){.address = wanted->address, .parent = wanted->parent, .flags = wanted->flags};
    return (uint32_t)number;
}

/* Addresses of one caller differ in their lower bits, parents in few: both are spread over all of the word. */
static uint64_t hash(const step *s) {
    uint64_t h = (s->address ^ (uint64_t)s->flags << 63) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 32 ^ s->parent) * UINT64_C(0xD6E8FEB86659FD93);
    return h ^ h >> 32;
}

uint32_t fh_nodes_of(const uintptr_t *stack, unsigned depth, bool whole, bool *lost) {
    step at = {.parent = 0, .flags = whole ? 0 : FH_NODE_CUT};
    *lost = false;
    for (unsigned i = depth; i-- > 0;) {
        at.address = stack[i];
        fh_index_search search = {.hash = hash(&at), .same = same, .make = make, .key = &at};
        uint32_t number = fh_index_get(&known, &search);
        if (!number) {
            *lost = true;
            return 0;
        }
        at.parent = number;
        at.flags = 0;
    }
    return at.parent;
}

void fh_nodes_clear(void) {
    fh_index_clear(&known);
}

size_t fh_nodes_bytes(void) {
    return fh_index_bytes(&known);
}
