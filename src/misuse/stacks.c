#include "misuse/stacks.h"

#include "base/assert.h"
#include "base/atomic.h"
#include "observe/unwind/stack.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

#define ENTRIES ((size_t)1 << 16)
#define RECORD_WORDS ((size_t)1 << 20) /* 8 MiB of address space: some 80,000 stacks */
#define TRIES 16u

static fh_word table;   /* fh_word[ENTRIES]; 0: not there. Written once, release, before the first checked block */
static fh_word records; /* uint64_t[RECORD_WORDS] */
static fh_word next;    /* words of records that are taken; grows only */

bool fh_stacks_start(void) {
    size_t bytes = ENTRIES * sizeof(fh_word) + RECORD_WORDS * sizeof(uint64_t);
    char *p = fh_system_map(bytes, fh_system_page_size());
    if (!p) return false;
    fh_store_release(&records, (uintptr_t)(p + ENTRIES * sizeof(fh_word)));
    fh_store_release(&table, (uintptr_t)p);
    return true;
}

static uint64_t hash_of(const uintptr_t *frames, unsigned n) {
    uint64_t h = n;
    for (unsigned i = 0; i < n; i++) {
        h = (h ^ frames[i]) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    return h | UINT64_C(1) << 32; /* its upper half is never 0 */
}

static bool is_record(uint32_t number, const uintptr_t *frames, unsigned n) {
    const uint64_t *got;
    return fh_stacks_get(number, &got) == n && memcmp(got, frames, n * sizeof *frames) == 0;
}

/* A new record; 0: no room. */
static uint32_t make_record(const uintptr_t *frames, unsigned n) {
    _Static_assert(sizeof *frames == sizeof(uint64_t), "an address is a word of a record");
    if (fh_load(&next) + n + 1 > RECORD_WORDS) return 0;
    uint64_t at = fh_add_relaxed(&next, n + 1); /* relaxed: only that the words are this thread's */
    if (at + n + 1 > RECORD_WORDS) return 0;
    uint64_t *record = (uint64_t *)(uintptr_t)fh_load(&records) + at;
    record[0] = n;
    memcpy(record + 1, frames, n * sizeof *frames);
    return (uint32_t)at + 1;
}

static uint32_t number_of(const uintptr_t *frames, unsigned n) {
    fh_word *entries = (fh_word *)(uintptr_t)fh_load_acquire(&table);
    if (!entries || n == 0) return 0;
    uint64_t h = hash_of(frames, n), upper = h & ~UINT64_C(0xFFFFFFFF);
    uint32_t made = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        fh_word *entry = &entries[(h + i) % ENTRIES];
        uint64_t seen = fh_load_acquire(entry); /* acquire: the record before it */
        if (seen == 0) {
            if (!made) made = make_record(frames, n);
            if (!made) return 0;
            /* acq_rel: the record before; a loser sees the winner's. */
            if (fh_cas_acq_rel(entry, &seen, upper | made)) return made;
        }
        if ((seen & ~UINT64_C(0xFFFFFFFF)) == upper && is_record((uint32_t)seen, frames, n)) return (uint32_t)seen;
    }
    return made; /* kept, and not found again */
}

uint32_t fh_stacks_note(const void *frame) {
    uintptr_t frames[FH_STACK_FRAMES];
    bool whole;
    int saved = errno;
    unsigned n = fh_stack_walk(frames, FH_STACK_FRAMES, frame, &whole);
    uint32_t number = number_of(frames, n);
    errno = saved;
    return number;
}

unsigned fh_stacks_get(uint32_t number, const uint64_t **addresses) {
    if (number == 0) return 0;
    FH_ASSERT(number <= RECORD_WORDS);
    const uint64_t *record = (const uint64_t *)(uintptr_t)fh_load_acquire(&records) + (number - 1);
    *addresses = record + 1;
    return (unsigned)record[0];
}
