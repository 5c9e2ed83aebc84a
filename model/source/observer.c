/* What scenarios call of the observer: samples, the search of the index, and the sums of call sites. */
#include "base/bits.h"
#include "observe/index.h"
#include "observe/profile_file.h"
#include "observe/samples.h"
#include "observe/sites.h"
#include "store/window.h"

/* Of the shared page only one extent of samples is there. */
#define SAMPLES 16u
/* Slots of a chunk that no scenario uses, as the explorer restores the memory of the first four chunks for each run. */
#define TABLES (3 * FH_CHUNK_SLOTS)
static __thread void *samples;

void fh_model_begin_samples(void) {
    fh_window_start();
    samples = fh_slot_address(TABLES);
}
void *fh_profile_extent(fh_profile_section_kind kind, unsigned k, uint64_t *entries) {
    (void)kind; /* sites are asked for by number */
    *entries = SAMPLES;
    return k == 0 ? samples : NULL;
}
bool fh_profile_grow(fh_profile_section_kind kind) {
    (void)kind;
    return false;
}
void fh_profile_drop(fh_profile_section_kind kind) {
    (void)kind;
}

bool fh_model_sample(uint64_t address, uint64_t size) {
    fh_profile_sample sample = {.address = address, .size = size, .interval = size, .born_ns = size};
    return fh_samples_enter(&sample);
}
/* The size, twice the size if the fields do not belong together, 0 if there is no such sample. */
uint64_t fh_model_unsample(uint64_t address) {
    fh_profile_sample sample;
    if (!fh_samples_remove(address, 1, &sample)) return 0;
    return sample.interval == sample.size && sample.born_ns == sample.size ? sample.size : 2 * sample.size;
}

/* An index of numbers: the entry of key k is a cell that says k. */
static fh_index numbers;
static __thread uint64_t *entry;
static fh_word used;

void fh_model_begin_index(void) {
    entry = (uint64_t *)fh_slot_address(TABLES + 1);
}
static bool same(uint32_t number, const void *key) {
    return entry[2 * number] == *(const uint64_t *)key;
}
static uint32_t make(const void *key) {
    uint32_t number = (uint32_t)fh_add_relaxed(&used, 1) + 1;
    entry[2 * number] = *(const uint64_t *)key;
    return number;
}
/* Keys share the place where their search begins. */
uint32_t fh_model_number_of(uint64_t key) {
    fh_index_search search = {.hash = key << 32 | 5, .same = same, .make = make, .key = &key};
    return fh_index_get(&numbers, &search);
}

/* ── Call sites, which have numbers from the beginning ───────────────────────────────────────────────────────────── */

#define SITES 3u /* the first is none */
static __thread fh_profile_control *control;
static __thread fh_profile_site *sites;

void fh_model_begin_sites(void) {
    control = (fh_profile_control *)fh_slot_address(TABLES + 2);
    sites = (fh_profile_site *)(control + 1);
}
void *fh_profile_entry(fh_profile_section_kind kind, uint64_t number) {
    (void)kind;
    return number < SITES ? &sites[number] : NULL;
}
uint64_t fh_profile_add(fh_profile_section_kind kind) {
    (void)kind;
    return FH_PROFILE_NO_ENTRY;
}

/* A sample of that weight is entered, or removed. */
void fh_model_weigh(uint32_t site, uint64_t bytes, bool freed) {
    const fh_weight w = {.bytes = bytes, .blocks = FH_PROFILE_BLOCK_UNIT};
    if (freed) {
        fh_site_freed(control, site, &w, 2, 1);
    } else {
        fh_site_allocated(control, site, &w, 1);
    }
}

/* As a reader adds them up: bytes that are live and at the peak, by all sites; the same as a whole; blocks at the peak. */
static uint64_t word(uint64_t *field) {
    return fh_load(fh_profile_word(field));
}
void fh_model_weights(uint64_t sums[5]) {
    sums[0] = sums[1] = sums[4] = 0;
    for (unsigned i = 1; i < SITES; i++) {
        fh_profile_site *s = &sites[i];
        bool kept = word(&s->peak_of) == word(&control->peak_number);
        uint64_t live = word(&s->allocated_bytes) - word(&s->freed_bytes);
        uint64_t blocks = word(&s->allocated_blocks) - word(&s->freed_blocks);
        sums[0] += live;
        sums[1] += kept ? word(&s->peak_bytes) : live;
        sums[4] += (kept ? word(&s->peak_blocks) : blocks) / FH_PROFILE_BLOCK_UNIT;
    }
    sums[2] = word(&control->live_bytes);
    sums[3] = word(&control->peak_bytes);
}
