#include "misuse/stacks.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "observe/unwind/stack.h"
#include "system/system.h"

#include <errno.h>
#include <string.h>

#define ENTRIES ((size_t)1 << 16)
#define RECORD_WORDS ((size_t)1 << 20) /* 8 MiB of address space: some 80,000 stacks */
#define TRIES 16u
#define WALKS_LOG 10u
#define WALK_BYTES 512u /* of a memo */

static fh_word table;   /* fh_word[ENTRIES]; 0: not there. Written once, release, before the first checked block */
static fh_word records; /* uint64_t[RECORD_WORDS] */
static fh_word walks;   /* memo[1 << WALKS_LOG]; 0: not there */
static fh_word next;    /* words of records that are taken; grows only */

#define TABLE_BYTES (ENTRIES * sizeof(fh_word))
#define RECORDS_BYTES (RECORD_WORDS * sizeof(uint64_t))
#define WALKS_BYTES (((size_t)1 << WALKS_LOG) * WALK_BYTES)

size_t fh_stacks_bytes(void) {
    return TABLE_BYTES + RECORDS_BYTES + WALKS_BYTES;
}

void fh_stacks_start_in(char *memory) {
    fh_store_release(&walks, (uintptr_t)(memory + TABLE_BYTES + RECORDS_BYTES));
    fh_store_release(&records, (uintptr_t)(memory + TABLE_BYTES));
    fh_store_release(&table, (uintptr_t)memory);
}

bool fh_stacks_start(void) {
    char *p = fh_system_map(fh_stacks_bytes(), fh_system_page_size());
    if (p) fh_stacks_start_in(p);
    return p != NULL;
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

/* ── Walks that were done before ─────────────────────────────────────────────────────────────────────────────────── */

/* A loop allocates from the same frame again and again. Its walk is remembered by its trail: the words of the stack that it
 * depended on. To compare them costs a load each, where a walk searches a table for each frame.
 *
 *     version:  even ──compare-and-swap, acq_rel──▶ odd ──store, release──▶ even + 2
 *
 * Loads are acquire, so the version is read before the rest and again behind it: what changed meanwhile is not believed. A
 * thread that finds it odd walks. */
typedef struct {
    fh_word version, frame, number, count;
    fh_stack_word words[FH_TRAIL_MOST];
} memo;
_Static_assert(sizeof(memo) == WALK_BYTES, "as many as are mapped");

static inline memo *memo_of(const void *frame) {
    memo *memos = (memo *)(uintptr_t)fh_load_acquire(&walks);
    const uintptr_t *words = frame;
    uint64_t h = ((uintptr_t)frame ^ words[1] << 20) * UINT64_C(0x9E3779B97F4A7C15);
    return FH_LIKELY(memos != NULL) ? &memos[h >> (64 - WALKS_LOG)] : NULL;
}

/* The number of the stack that this walk would find; 0: it was not done before. */
static inline uint32_t recall(const memo *m, const void *frame) {
    uint64_t version = fh_load_acquire(&m->version);
    if (FH_UNLIKELY(version % 2 || fh_load_acquire(&m->frame) != (uintptr_t)frame)) return 0;
    uint64_t n = fh_load_acquire(&m->count), number = fh_load_acquire(&m->number);
    if (FH_UNLIKELY(n > FH_TRAIL_MOST || !fh_stack_same(frame, m->words, n))) return 0;
    return FH_LIKELY(fh_load(&m->version) == version) ? (uint32_t)number : 0;
}

static void remember(memo *m, const void *frame, const fh_stack_trail *trail, uint32_t number) {
    uint64_t version = fh_load(&m->version);
    if (version % 2 || !fh_cas_acq_rel(&m->version, &version, version + 1)) return;
    for (unsigned i = 0; i < trail->count; i++) {
        uintptr_t at = trail->at[i];
        fh_store_release(&m->words[i].up, at - (uintptr_t)frame);
        fh_store_release(&m->words[i].word, *(const uintptr_t *)at); // NOLINT(performance-no-int-to-ptr)
    }
    fh_store_release(&m->count, trail->count);
    fh_store_release(&m->number, number);
    fh_store_release(&m->frame, (uintptr_t)frame);
    fh_store_release(&m->version, version + 2);
}

/* Out of line, for what it keeps on the stack. */
__attribute__((noinline)) static uint32_t walk(memo *m, const void *frame) {
    uintptr_t frames[FH_STACK_FRAMES];
    fh_stack_trail trail;
    int saved = errno;
    uint32_t number = number_of(frames, fh_stack_walk_trail(frames, FH_STACK_FRAMES, frame, &trail));
    if (m && number && trail.count) remember(m, frame, &trail, number);
    errno = saved;
    return number;
}

uint32_t fh_stacks_note(const void *frame) {
    memo *m = memo_of(frame);
    uint32_t number = FH_LIKELY(m != NULL) ? recall(m, frame) : 0;
    return FH_LIKELY(number != 0) ? number : walk(m, frame);
}

unsigned fh_stacks_get(uint32_t number, const uint64_t **addresses) {
    /* It is from a header, which the program may have written into. */
    if (number == 0 || number > RECORD_WORDS) return 0;
    const uint64_t *record = (const uint64_t *)(uintptr_t)fh_load_acquire(&records) + (number - 1);
    *addresses = record + 1;
    return record[0] <= FH_STACK_FRAMES && number + record[0] <= RECORD_WORDS ? (unsigned)record[0] : 0;
}
