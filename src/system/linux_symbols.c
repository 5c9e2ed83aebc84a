/* Linux: which functions a file has, as its dynamic symbols say. dladdr would wait for the loader's lock. All is read
 * by the kernel, because another thread may unload the file meanwhile. */
#include "system/inspect.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#define LONGEST_NAME 64u
#define MOST_ENTRIES 128u
#define MOST_STEPS 1000u /* of a chain; most have two */

typedef struct {
    uintptr_t bias, symbols, strings, hash;
} tables;

static bool read_at(void *to, uintptr_t from, size_t n) {
    return fh_system_peek(to, from, n) == n;
}

/* The loader moves the addresses of the dynamic section itself, where it can write there. */
static uintptr_t moved(uintptr_t bias, uintptr_t address) {
    return address < bias ? address + bias : address;
}

static bool find_tables(uintptr_t address, tables *t) {
    fh_loaded of;
    struct link_map map;
    ElfW(Dyn) entry;
    memset(t, 0, sizeof *t);
    if (fh_system_loaded(address, &of) != FH_LOADER_KNOWN || !read_at(&map, of.record, sizeof map)) return false;
    t->bias = map.l_addr;
    for (unsigned i = 0; i < MOST_ENTRIES && read_at(&entry, (uintptr_t)&map.l_ld[i], sizeof entry); i++) {
        if (entry.d_tag == DT_NULL) break;
        if (entry.d_tag == DT_SYMTAB) t->symbols = moved(t->bias, entry.d_un.d_ptr);
        if (entry.d_tag == DT_STRTAB) t->strings = moved(t->bias, entry.d_un.d_ptr);
        if (entry.d_tag == DT_GNU_HASH) t->hash = moved(t->bias, entry.d_un.d_ptr);
    }
    return t->symbols && t->strings && t->hash;
}

static uint32_t hash_of(const char *name) {
    uint32_t h = 5381;
    for (; *name; name++) h = h * 33 + (unsigned char)*name;
    return h;
}

/* Is symbol i that function? address: 0, or one that must be in it. */
static bool is_symbol(const tables *t, uint32_t i, const char *name, uintptr_t address) {
    ElfW(Sym) symbol;
    char is[LONGEST_NAME];
    size_t length = strlen(name) + 1;
    if (length > sizeof is || !read_at(&symbol, t->symbols + i * sizeof symbol, sizeof symbol)) return false;
    if (symbol.st_shndx == SHN_UNDEF) return false;
    if (address && address - t->bias - symbol.st_value >= symbol.st_size) return false;
    return read_at(is, t->strings + symbol.st_name, length) && memcmp(is, name, length) == 0;
}

/* The table: 4 numbers, a filter of so many words, the first symbol of each bucket, and of each symbol its hash, whose lowest bit
 * ends the bucket. */
static bool has(const tables *t, const char *name, uintptr_t address) {
    struct {
        uint32_t buckets, first, words, shift;
    } head;
    uint32_t hash = hash_of(name), i, one;
    if (!read_at(&head, t->hash, sizeof head) || head.buckets == 0) return false;
    uintptr_t buckets = t->hash + sizeof head + head.words * sizeof(ElfW(Addr));
    uintptr_t hashes = buckets + head.buckets * sizeof i;
    if (!read_at(&i, buckets + hash % head.buckets * sizeof i, sizeof i) || i < head.first) return false;
    for (unsigned steps = 0; steps < MOST_STEPS; steps++, i++) {
        if (!read_at(&one, hashes + (i - head.first) * sizeof one, sizeof one)) return false;
        if ((one | 1) == (hash | 1) && is_symbol(t, i, name, address)) return true;
        if (one & 1) return false;
    }
    return false;
}

bool fh_system_has_function(uintptr_t address, const char *const *names, bool inside) {
    tables t;
    if (!find_tables(address, &t)) return false;
    while (*names && !has(&t, *names, inside ? address : 0)) names++;
    return *names != NULL;
}
