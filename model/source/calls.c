/* What scenarios call of the upper layers: malloc and free as the program sees them, the end of a thread, the child of a
 * fork. */
#include "cache/cache.h"
#include "cache/magazine.h"
#include "cache/observed.h"
#include "cache/thread.h"
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

/* What caches may hold of bulky blocks: the sum that all threads keep, less what each cache says. */
size_t fh_model_bulky_apart(void) {
    size_t sum = (size_t)fh_load(&fh_bulky_cached);
    if (!fh_load(&fh_window.origin)) return sum;
    for (size_t slot = 0; slot < fh_window_chunks() * FH_CHUNK_SLOTS; slot++) {
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        if (fh_state_kind(state) != FH_CLASS_THREAD) continue;
        for (unsigned i = 0; i < fh_state_bump(state); i++) {
            sum -= ((fh_thread *)(fh_slot_address(slot) + i * fh_class_size(FH_CLASS_THREAD)))->bulky_used;
        }
    }
    return sum;
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
