#include "heap/given.h"

#include "base/assert.h"
#include "heap/callbacks.h"
#include "heap/span.h"
#include "heap/told.h"
#include "heap/words.h"
#include "store/outside.h"
#include "store/window.h"
#include "system/system.h"

#define WORD_BYTES ((size_t)64 * FH_MIN_ALIGN)
#define LEAST ((size_t)4096)
/* A freed block of as many bytes is worth a callback. */
#define PURGED_FROM FH_SLOT_SIZE
#define ALL (~UINT64_C(0))

struct fh_given {
    fh_owned owned;
    char *begin; /* of the units, at a multiple of WORD_BYTES */
    size_t words;
    fh_word from; /* hint: the word to begin with */
    fh_word *first, *last;
    fh_given *next; /* region of a paged heap; written before it is shown */
    void *memory;   /* all of it, */
    size_t bytes;   /*   and how much */
    fh_word free[];
};

_Static_assert(FH_UNITS_MOST == WORD_BYTES, "a block of units is within one word");
_Static_assert(offsetof(fh_given, words) == 24 && offsetof(fh_given, first) == 40 && offsetof(fh_given, last) == 48,
               "the command reads it, see observe/records.c");

/* ── Life ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

bool fh_given_may(const void *memory, size_t bytes) {
    uintptr_t begin = (uintptr_t)memory;
    if (bytes < LEAST || begin > UINTPTR_MAX - bytes) return false;
    uintptr_t base = fh_window_base();
    bool within = begin < base + FH_WINDOW_SIZE && begin + bytes > base;
    return !within && !fh_outside_overlaps(memory, bytes);
}

fh_given *fh_given_begin(fh_heap *h, void *memory, size_t bytes) {
    uintptr_t end = (uintptr_t)memory + bytes;
    fh_given *g = (fh_given *)fh_round_up((uintptr_t)memory, FH_MIN_ALIGN);
    size_t words = (end - (uintptr_t)g - sizeof *g - WORD_BYTES) / (WORD_BYTES + 3 * sizeof(fh_word));
    g->owned = (fh_owned){h, FH_OWNED_GIVEN};
    g->words = words;
    g->first = g->free + words;
    g->last = g->first + words;
    g->begin = (char *)fh_round_up((uintptr_t)(g->last + words), WORD_BYTES);
    FH_ASSERT((uintptr_t)g->begin + words * WORD_BYTES <= end);
    fh_given_clear(g);
    g->next = NULL;
    g->memory = memory;
    g->bytes = bytes;
    if (!fh_heap_is_paged(h)) h->memory_size = end - (uintptr_t)g;
    return fh_outside_add(memory, bytes, g) ? g : NULL;
}

size_t fh_given_bytes_for(size_t align, size_t n) {
    size_t words = (n + WORD_BYTES - 1) / WORD_BYTES + align / WORD_BYTES + 1;
    size_t bytes = sizeof(fh_given) + FH_MIN_ALIGN + 2 * WORD_BYTES + words * (WORD_BYTES + 3 * sizeof(fh_word));
    return fh_round_up(bytes, FH_SLOT_SIZE);
}

void fh_given_link(fh_given *g, fh_given *next) {
    g->next = next;
}

fh_given *fh_given_next(const fh_given *g) {
    return g->next;
}

void *fh_given_memory(const fh_given *g, size_t *bytes) {
    *bytes = g->bytes;
    return g->memory;
}

void fh_given_clear(fh_given *g) {
    for (size_t w = 0; w < g->words; w++) {
        fh_store(&g->free[w], ALL);
        fh_store(&g->first[w], 0);
        fh_store(&g->last[w], 0);
    }
    fh_store(&g->from, 0);
}

void fh_given_end(const fh_given *g) {
    fh_told_left(g->owned.heap, g->begin, g->words * WORD_BYTES);
    fh_outside_drop(g);
}

/* ── Taking ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static char *word_at(const fh_given *g, size_t w) {
    return g->begin + w * WORD_BYTES;
}

static void *show(fh_given *g, size_t first, size_t last) {
    const fh_heap *h = g->owned.heap;
    fh_bits_set(h, &g->last[last / 64], UINT64_C(1) << last % 64);
    fh_bits_set(h, &g->first[first / 64], UINT64_C(1) << first % 64);
    return g->begin + first * FH_MIN_ALIGN;
}

static void *take_units(fh_given *g, size_t align, size_t n) {
    unsigned units = (unsigned)((n + FH_MIN_ALIGN - 1) / FH_MIN_ALIGN);
    size_t step = align / FH_MIN_ALIGN, from = (size_t)fh_load(&g->from);
    uint64_t allowed = step >= 64 ? 1 : ALL / ((UINT64_C(1) << step) - 1);
    for (size_t i = 0; i < g->words; i++) {
        size_t w = from + i < g->words ? from + i : from + i - g->words;
        uint64_t seen = fh_load(&g->free[w]), starts;
        while ((starts = fh_run_starts(seen, units) & allowed) != 0) {
            unsigned at = fh_lowest_bit(starts);
            if (!fh_bits_claim(g->owned.heap, &g->free[w], &seen, fh_run_mask(at, units))) continue;
            if (i) fh_store(&g->from, w);
            return show(g, w * 64 + at, w * 64 + at + units - 1);
        }
    }
    return NULL;
}

/* Claims whole words from w on. Returns how many; all of them are set again unless it is `words`. */
static size_t claim_words(fh_given *g, size_t w, size_t words) {
    const fh_heap *h = g->owned.heap;
    size_t n = 0;
    for (; n < words; n++) {
        uint64_t seen = fh_load(&g->free[w + n]);
        if (seen != ALL || !fh_bits_claim(h, &g->free[w + n], &seen, ALL)) break;
    }
    for (size_t i = 0; n < words && i < n; i++) fh_bits_set(h, &g->free[w + i], ALL);
    return n;
}

static void *take_words(fh_given *g, size_t align, size_t n) {
    if (n > g->words * WORD_BYTES) return NULL;
    size_t words = (n + WORD_BYTES - 1) / WORD_BYTES;
    for (size_t w = 0; w + words <= g->words; w++) {
        if ((uintptr_t)word_at(g, w) % align || fh_load(&g->free[w]) != ALL) continue;
        size_t claimed = claim_words(g, w, words);
        if (claimed == words) return show(g, w * 64, (w + words) * 64 - 1);
        w += claimed;
    }
    return NULL;
}

void *fh_given_take(fh_given *g, size_t align, size_t n) {
    bool small = n <= FH_UNITS_MOST && align <= FH_UNITS_MOST;
    return small ? take_units(g, align, n) : take_words(g, align, n);
}

/* ── What is there ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* Bytes of the block that begins with that unit; 0: its end is not there (any more). */
static size_t bytes_from(const fh_given *g, size_t unit) {
    uint64_t above = ALL << unit % 64;
    for (size_t w = unit / 64; w < g->words; w++, above = ALL) {
        uint64_t last = fh_load(&g->last[w]) & above;
        if (last) return (w * 64 + fh_lowest_bit(last) + 1 - unit) * FH_MIN_ALIGN;
    }
    return 0;
}

void *fh_given_block(const fh_given *g, const void *p, size_t *size) {
    size_t unit = ((uintptr_t)p - (uintptr_t)g->begin) / FH_MIN_ALIGN, w = unit / 64;
    if ((const char *)p < g->begin || w >= g->words) return NULL;
    uint64_t first = fh_load_acquire(&g->first[w]) & fh_low_mask((unsigned)(unit % 64) + 1);
    while (!first && w) first = fh_load_acquire(&g->first[--w]);
    if (!first) return NULL;
    size_t begin = w * 64 + fh_highest_bit(first), bytes = bytes_from(g, begin);
    if ((unit - begin) * FH_MIN_ALIGN >= bytes) return NULL;
    *size = bytes;
    return g->begin + begin * FH_MIN_ALIGN;
}

bool fh_given_free(fh_given *g, void *p, size_t size) {
    const fh_heap *h = g->owned.heap;
    size_t unit = (size_t)((char *)p - g->begin) / FH_MIN_ALIGN, end = unit + size / FH_MIN_ALIGN;
    uint64_t bit = UINT64_C(1) << unit % 64;
    if (!(fh_bits_clear(h, &g->first[unit / 64], bit) & bit)) return false;
    /* From here on the block is this thread's alone. */
    fh_bits_clear(h, &g->last[(end - 1) / 64], UINT64_C(1) << (end - 1) % 64);
    if (fh_heap_is_paged(h) && size >= PURGED_FROM) fh_callback_purge(h, p, size);
    for (size_t next; unit < end; unit = next) {
        next = (unit / 64 + 1) * 64;
        if (next > end) next = end;
        uint64_t bits = fh_run_mask((unsigned)(unit % 64), (unsigned)(next - unit));
        uint64_t before = fh_bits_set(h, &g->free[unit / 64], bits);
        FH_ASSERT((before & bits) == 0);
        (void)before;
    }
    return true;
}

void fh_given_each(fh_given *g, fh_heap_seen *see, void *arg) {
    for (size_t w = 0; w < g->words; w++) {
        uint64_t first, ahead = ALL;
        while ((first = fh_load_acquire(&g->first[w]) & ahead) != 0) {
            size_t unit = w * 64 + fh_lowest_bit(first), bytes = bytes_from(g, unit);
            ahead = ~UINT64_C(1) << unit % 64;
            if (bytes) see(g->begin + unit * FH_MIN_ALIGN, bytes, arg);
        }
    }
}

size_t fh_given_resident(const fh_given *g) {
    size_t page = fh_system_page_size(), before = (uintptr_t)g % page;
    uintptr_t end = (uintptr_t)g->memory + g->bytes;
    return fh_resident_in((char *)(uintptr_t)g - before, fh_round_up(end - (uintptr_t)g + before, page));
}
