#include "observe/heaps.h"

#include "base/assert.h"
#include "observe/index.h"
#include "observe/profile_file.h"

#include <string.h>

/* Heaps that are further in than this have the name of the one at this depth. */
#define DEPTH_MOST 32u

_Static_assert(FH_PROFILE_HEAP_NAME == FH_HEAP_NAME, "a name fits");

static fh_index known;
/* Numbers of heaps so far. */
static fh_word numbers;

typedef struct {
    const char *name;
    uint32_t parent;
} step;

static bool is_text(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

static bool same(uint32_t number, const void *key) {
    const step *wanted = key;
    const fh_profile_heap *entry = fh_profile_entry(FH_PROFILE_HEAPS, number);
    return entry && entry->parent == wanted->parent && is_text(entry->name, wanted->name);
}

/* The entry is written before its number goes into the index, and by this thread alone. */
static uint32_t make(const void *key) {
    const step *wanted = key;
    const fh_profile_header *profile = fh_profile();
    const fh_word *used = profile ? (const fh_word *)&profile->section[FH_PROFILE_HEAPS].used : NULL;
    /* Each name may make sites of its own: a program that gives each heap another one must not fill the file. */
    if (!used || fh_load(used) > FH_PROFILE_HEAPS_MOST) {
        fh_profile_drop(FH_PROFILE_HEAPS);
        return 0;
    }
    uint64_t number = fh_profile_add(FH_PROFILE_HEAPS);
    fh_profile_heap *entry = number < UINT32_MAX ? fh_profile_entry(FH_PROFILE_HEAPS, number) : NULL;
    if (!entry) return 0;
    entry->parent = wanted->parent;
    memcpy(entry->name, wanted->name, strlen(wanted->name));
    uint64_t check = fh_profile_checked(fh_profile_check(0, entry, offsetof(fh_profile_heap, check)));
    fh_store_release(fh_profile_word(&entry->check), check); /* release: all of it before */
    return (uint32_t)number;
}

static uint32_t entry_of(const char *name, uint32_t parent) {
    step key = {name, parent};
    uint64_t h = parent;
    for (const char *c = name; *c; c++) {
        h = (h ^ (unsigned char)*c) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 32;
    }
    fh_index_search search = {.hash = h, .same = same, .make = make, .key = &key};
    return fh_index_get(&known, &search);
}

uint32_t fh_heap_name_of(const fh_heap *heap) {
    const fh_heap *path[DEPTH_MOST];
    unsigned depth = 0;
    /* Too many: the innermost ones give way. */
    for (; heap; heap = heap->parent) path[depth++ % DEPTH_MOST] = heap;
    uint32_t entry = 0;
    for (unsigned n = depth < DEPTH_MOST ? depth : DEPTH_MOST; n > 0; n--) {
        entry = entry_of(path[--depth % DEPTH_MOST]->name, entry);
        if (!entry) return FH_PROFILE_HEAP_NO_ROOM;
    }
    return entry;
}

uint32_t fh_heap_number(fh_heap *heap) {
    uint64_t none = fh_load(&heap->number);
    if (none) return (uint32_t)none;
    uint64_t number = (uint32_t)(fh_add_relaxed(&numbers, 1) + 1);
    /* relaxed: it is a number, and of two threads that give one the first counts. */
    return fh_cas_relaxed(&heap->number, &none, number) ? (uint32_t)number : (uint32_t)none;
}

void fh_heap_names_clear(void) {
    fh_index_clear(&known);
}

size_t fh_heap_names_bytes(void) {
    return fh_index_bytes(&known);
}
