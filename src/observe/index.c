#include "observe/index.h"

#include "base/assert.h"
#include "system/system.h"

#define FIRST_WORDS 1024u
#define PLACES 8u

static size_t bytes_of(unsigned k) {
    FH_ASSERT(k < FH_INDEX_LEVELS);
    return sizeof(fh_word) * FIRST_WORDS << k;
}

/* Level k, made if it is not there. NULL: no memory. */
static fh_word *level(fh_index *index, unsigned k) {
    /* acquire: the level's zeroes before its address. */
    uint64_t address = fh_load_acquire(&index->level[k]);
    if (address) return (fh_word *)(uintptr_t)address;
    void *mine = fh_system_map(bytes_of(k), fh_system_page_size());
    if (!mine) return NULL;
    if (fh_cas_acq_rel(&index->level[k], &address, (uintptr_t)mine)) return mine;
    fh_system_unmap(mine, bytes_of(k));
    return (fh_word *)(uintptr_t)address;
}

/* True if the word is the key's; *number is then its entry. */
static bool matches(uint64_t word, const fh_index_search *s, uint32_t *number) {
    *number = (uint32_t)word;
    return word >> 32 == s->hash >> 32 && s->same((uint32_t)word, s->key);
}

uint32_t fh_index_get(fh_index *index, const fh_index_search *s) {
    FH_ASSERT(s->same && s->make && s->key);
    uint32_t made = 0, number;
    for (unsigned k = 0; k < FH_INDEX_LEVELS; k++) {
        fh_word *words = level(index, k);
        if (!words) return 0;
        uint64_t mask = (FIRST_WORDS << k) - 1;
        for (unsigned i = 0; i < PLACES; i++) {
            fh_word *place = &words[(s->hash + i) & mask];
            /* acquire: the entry before its number. */
            uint64_t word = fh_load_acquire(place);
            if (!word) {
                if (!made) made = s->make(s->key);
                if (!made) return 0;
                /* release: as above. The thread that loses reads what the other one has entered. */
                if (fh_cas_acq_rel(place, &word, (s->hash >> 32) << 32 | made)) return made;
            }
            if (matches(word, s, &number)) return number;
        }
    }
    return made;
}

void fh_index_clear(fh_index *index) {
    for (unsigned k = 0; k < FH_INDEX_LEVELS; k++) {
        void *p = (void *)(uintptr_t)fh_load(&index->level[k]);
        fh_store(&index->level[k], 0);
        if (p) fh_system_unmap(p, bytes_of(k));
    }
}

size_t fh_index_bytes(const fh_index *index) {
    size_t bytes = 0;
    for (unsigned k = 0; k < FH_INDEX_LEVELS; k++) bytes += fh_load(&index->level[k]) ? bytes_of(k) : 0;
    return bytes;
}
