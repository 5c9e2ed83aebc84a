/* What scenarios call of the upper layers: malloc and free as the program sees them, the end of a thread, the child of a
 * fork, samples, and the search of the index. */
#include "cache/cache.h"
#include "cache/observed.h"
#include "cache/thread.h"
#include "observe/index.h"
#include "observe/profile_file.h"
#include "observe/samples.h"
#include "store/depot.h"
#include "store/events.h"
#include "store/holes.h"
#include "store/limit.h"
#include "store/slab.h"
#include "store/window.h"

void *fh_model_malloc(size_t n) {
    return fh_alloc(n);
}
void fh_model_free(void *p) {
    fh_release(p);
}

/* What a thread has at its beginning. */
fh_thread *fh_model_no_thread(void) {
    return (fh_thread *)&fh_thread_none;
}
const fh_bin *fh_model_no_bins(void) {
    return fh_no_row.bin;
}

extern void (*fh_model_at_thread_exit)(void *);
extern void (*fh_model_at_fork)(void);

void fh_model_exit(void) {
    fh_thread *t = fh_own();
    if (t != &fh_thread_none) fh_model_at_thread_exit(t);
}

/* The calling thread is the only one from now on. */
void fh_model_forked(void) {
    fh_process_start();
    fh_model_at_fork();
}

/* The calling thread was inside of a slow path when the fork came. */
void fh_model_be_busy(void) {
    fh_store(&fh_own()->state, FH_THREAD_BUSY);
}

/* Frees a block of a slab as a program does that has no cache: by its class byte. False if nobody knows it. */
bool fh_model_free_one(void *p) {
    unsigned c = fh_class_at(p);
    if (c == FH_CLASS_SPECIAL) return fh_holes_give(NULL, p);
    fh_slab_give(c, 1, &p);
    return true;
}

/* ── The books of a limit ────────────────────────────────────────────────────────────────────────────────────────── */

/* What a claim of slots does with the books, without the slots. */
bool fh_model_book(unsigned slots) {
    if (!fh_limit_admit(slots * FH_SLOT_SIZE, false)) return false;
    fh_event_claimed(slots, 0, 0);
    fh_limit_done(slots * FH_SLOT_SIZE);
    return true;
}

size_t fh_model_used_bytes(void) {
    return fh_used_bytes();
}
/* The explorer watches it. */
fh_word *fh_model_used_slots_word(void) {
    return &fh_counts.used_slots;
}

/* ── The observer's tables ───────────────────────────────────────────────────────────────────────────────────────── */

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
    (void)kind;
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

/* ── Accounts ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Calls `what` for each magazine that a thread's cache has, with the number of its blocks. */
static void each_magazine(void (*what)(unsigned c, size_t blocks, size_t *sum), unsigned only, size_t *sum) {
    for (size_t slot = 0; slot < fh_window_chunks() * FH_CHUNK_SLOTS; slot++) {
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        if (fh_state_kind(state) != FH_CLASS_THREAD) continue;
        for (unsigned i = 0; i < fh_state_bump(state); i++) {
            if (fh_load(&fh_slab_at(slot)->free[i / 64]) >> i % 64 & 1) continue;
            fh_thread *t = (fh_thread *)(fh_slot_address(slot) + i * fh_class_size(FH_CLASS_THREAD));
            for (unsigned c = 1; c < FH_BINS; c++) {
                if (only && c != only) continue;
                fh_magazine *loaded = t->rack[c].loaded, *previous = t->rack[c].previous;
                if (loaded) what(c, (size_t)(t->bin[c].top - loaded->block), sum);
                if (previous) what(c, previous->count, sum);
            }
        }
    }
}

static void add_blocks(unsigned c, size_t blocks, size_t *sum) {
    (void)c;
    *sum += blocks;
}
static void add_one(unsigned c, size_t blocks, size_t *sum) {
    (void)c, (void)blocks;
    *sum += 1;
}

/* Blocks of class c that are in magazines of threads and depots. */
size_t fh_model_blocks_kept(unsigned c) {
    size_t sum = 0;
    if (!fh_load(&fh_window.origin)) return 0;
    each_magazine(add_blocks, c, &sum);
    return sum + fh_depot_blocks(c);
}

/* Caches whose owner is inside of a slow path. */
size_t fh_model_busy_caches(void) {
    size_t busy = 0;
    if (!fh_load(&fh_window.origin)) return 0;
    for (size_t slot = 0; slot < fh_window_chunks() * FH_CHUNK_SLOTS; slot++) {
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        if (fh_state_kind(state) != FH_CLASS_THREAD) continue;
        for (unsigned i = 0; i < fh_state_bump(state); i++) {
            fh_thread *t = (fh_thread *)(fh_slot_address(slot) + i * fh_class_size(FH_CLASS_THREAD));
            busy += fh_load(&t->state) == FH_THREAD_BUSY;
        }
    }
    return busy;
}

/* Magazines of all threads' caches. */
size_t fh_model_magazines_kept(void) {
    size_t sum = 0;
    if (fh_load(&fh_window.origin)) each_magazine(add_one, 0, &sum);
    return sum;
}

/* Chunks with pages that were moved; and in *counted, how many purge.c says there are. */
size_t fh_model_moved_chunks(size_t *counted) {
    extern fh_word moved_chunks; /* purge.c's own, made visible by build.rs */
    size_t sum = 0;
    for (size_t chunk = 0; fh_load(&fh_window.origin) && chunk < fh_window_chunks(); chunk++)
        sum += fh_load(&fh_chunk_at(chunk)->moved) != 0;
    *counted = (size_t)fh_load(&moved_chunks);
    return sum;
}

/* What is looked for in the depot: a magazine that has itself for a block. */
void fh_model_magazine_fill(fh_magazine *m) {
    m->block[0] = m;
    m->count = 1;
}
bool fh_model_depot_look(unsigned c, fh_magazine *m) {
    return fh_depot_holds(c, &m->block[0], m);
}

/* Full magazines in the depot of class c, and how many the depot says there are. */
size_t fh_model_depot_full(unsigned c, size_t *said) {
    extern fh_depots depot[FH_SHARDS];
    size_t sum = 0;
    *said = 0;
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        *said += (size_t)fh_load(&depot[i].full[c]);
        for (unsigned k = 0; k < fh_depot_slots(c); k++) {
            uint64_t seen = fh_load(&fh_depot_of(&depot[i], c)[k]);
            sum += seen != 0 && !(seen & FH_DEPOT_EMPTY);
        }
    }
    return sum;
}

/* Magazines in the depot of class c, full or empty. */
size_t fh_model_depot_magazines(unsigned c) {
    extern fh_depots depot[FH_SHARDS]; /* depot.c's own, made visible by build.rs */
    size_t sum = 0;
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        for (unsigned k = 0; k < fh_depot_slots(c); k++) sum += fh_load(&fh_depot_of(&depot[i], c)[k]) != 0;
    }
    return sum;
}
