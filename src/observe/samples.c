#include "observe/samples.h"

#include "base/assert.h"
#include "base/bits.h"

#define PLACES 32u

_Static_assert(offsetof(fh_profile_sample, heap) == offsetof(fh_profile_sample, mark) + 4 &&
                   offsetof(fh_profile_sample, mark) % 8 == 0,
               "both are one word");

/* The mark, and above it the heap. */
static fh_word *belongs_word(fh_profile_sample *slot) {
    return (fh_word *)(void *)&slot->mark;
}

static uint64_t hash(uint64_t address) {
    uint64_t h = (address >> 4) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 32;
}

/* Place i of the address in an extent with that many entries. */
static fh_profile_sample *place(fh_profile_sample *extent, uint64_t entries, uint64_t address, unsigned i) {
    FH_ASSERT(i < PLACES && fh_is_power_of_two(entries));
    return &extent[(hash(address) + i) & (entries - 1)];
}

static bool enter_in(fh_profile_sample *extent, uint64_t entries, const fh_profile_sample *sample) {
    for (unsigned i = 0; i < PLACES; i++) {
        fh_profile_sample *slot = place(extent, entries, sample->address, i);
        fh_word *address = fh_profile_word(&slot->address);
        uint64_t seen = fh_load(address);
        if (seen != FH_PROFILE_SAMPLE_EMPTY || !fh_cas_acquire(address, &seen, FH_PROFILE_SAMPLE_WRITING)) continue;
        fh_store(fh_profile_word(&slot->size), sample->size);
        slot->interval = sample->interval;
        slot->born_ns = sample->born_ns;
        slot->site = sample->site;
        slot->thread = sample->thread;
        /* One word: who looks for the samples of a heap reads it while another thread writes. */
        fh_store(belongs_word(slot), sample->mark | (uint64_t)sample->heap << 32);
        slot->drawn = sample->drawn;
        fh_store(fh_profile_word(&slot->reached), fh_profile_reached_word(sample->born_ns, 0));
        fh_store_release(address, sample->address);
        return true;
    }
    return false;
}

bool fh_samples_enter(const fh_profile_sample *plain) {
    FH_ASSERT(plain->address > FH_PROFILE_SAMPLE_WRITING);
    fh_profile_sample sample = *plain;
    fh_profile_sign(&sample, 0);
    uint64_t entries;
    for (unsigned k = 0; k < FH_PROFILE_EXTENTS; k++) {
        fh_profile_sample *extent = fh_profile_extent(FH_PROFILE_SAMPLES, k, &entries);
        if (!extent && fh_profile_grow(FH_PROFILE_SAMPLES)) extent = fh_profile_extent(FH_PROFILE_SAMPLES, k, &entries);
        if (!extent) break;
        if (enter_in(extent, entries, &sample)) return true;
    }
    fh_profile_drop(FH_PROFILE_SAMPLES);
    return false;
}

/* The longest extent first: it holds half of all places. */
fh_profile_sample *fh_samples_find(uint64_t address) {
    FH_ASSERT(address > FH_PROFILE_SAMPLE_WRITING); /* what a place without a sample has */
    uint64_t entries;
    unsigned k = 0;
    while (k < FH_PROFILE_EXTENTS && fh_profile_extent(FH_PROFILE_SAMPLES, k, &entries)) k++;
    while (k-- > 0) {
        fh_profile_sample *extent = fh_profile_extent(FH_PROFILE_SAMPLES, k, &entries);
        for (unsigned i = 0; i < PLACES; i++) {
            fh_profile_sample *slot = place(extent, entries, address, i);
            /* acquire: pairs with the release of the thread that entered it, perhaps not the one that frees. */
            if (fh_load_acquire(fh_profile_word(&slot->address)) == address) return slot;
        }
    }
    return NULL;
}

unsigned fh_samples_extents(fh_profile_sample *extent[FH_PROFILE_EXTENTS], uint64_t slots[FH_PROFILE_EXTENTS]) {
    unsigned k = 0;
    while (k < FH_PROFILE_EXTENTS && (extent[k] = fh_profile_extent(FH_PROFILE_SAMPLES, k, &slots[k]))) k++;
    return k;
}

bool fh_samples_remove(uint64_t address, uint64_t now, fh_profile_sample *sample) {
    fh_profile_sample *slot = fh_samples_find(address);
    uint64_t seen = address;
    if (!slot || !fh_cas_acquire(fh_profile_word(&slot->address), &seen, FH_PROFILE_SAMPLE_WRITING)) return false;
    *sample = (fh_profile_sample){
        .address = address,
        .size = fh_load(fh_profile_word(&slot->size)),
        .interval = fh_profile_plain(slot->interval),
        .born_ns = slot->born_ns,
        .site = slot->site,
        .thread = slot->thread,
        .mark = (uint32_t)fh_load(belongs_word(slot)),
        .heap = fh_load(belongs_word(slot)) >> 32,
        .drawn = fh_profile_plain(slot->drawn),
    };
    /* What stays behind is the trace of a block that was freed: see fh_profile_sample.reached. */
    fh_profile_sample trace = *sample;
    fh_profile_sign(&trace, now);
    slot->interval = trace.interval;
    slot->drawn = trace.drawn;
    fh_store(fh_profile_word(&slot->reached), now);
    fh_store_release(fh_profile_word(&slot->address), FH_PROFILE_SAMPLE_EMPTY);
    return true;
}

void fh_samples_rename(uint64_t from, uint64_t to) {
    FH_ASSERT(from >> 4 == to >> 4); /* or it would have other places */
    fh_profile_sample *slot = fh_samples_find(from);
    /* acquire and release: the slot's fields are as they were for a thread that finds it under its new address. */
    if (slot) fh_cas_acq_rel(fh_profile_word(&slot->address), &from, to);
}

void fh_samples_each_of(uint32_t heap, void (*see)(uint64_t address, void *arg), void *arg) {
    fh_profile_sample *extent[FH_PROFILE_EXTENTS];
    uint64_t slots[FH_PROFILE_EXTENTS];
    unsigned extents = fh_samples_extents(extent, slots);
    for (unsigned k = 0; k < extents; k++) {
        for (uint64_t i = 0; i < slots[k]; i++) {
            /* acquire: whose it is, of the sample that has this address. */
            uint64_t address = fh_load_acquire(fh_profile_word(&extent[k][i].address));
            if (address <= FH_PROFILE_SAMPLE_WRITING || fh_load(belongs_word(&extent[k][i])) >> 32 != heap) continue;
            see(address, arg);
        }
    }
}
