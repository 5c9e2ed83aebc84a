/* What scenarios call of a hardened partition: its blocks by themselves, without threads' caches, which are elsewhere. */
#include "base/classes.h"
#include "cache/hardened.h"
#include "cache/observed.h"
#include "store/chunk.h"
#include "store/live.h"
#include "store/locate.h"
#include "store/slab.h"
#include "store/window.h"

/* The window's first region is the partition's, and its first chunk is there. The explorer has no memory for a region further on. */
void fh_model_begin_hardened(void) {
    size_t chunk = fh_window_take_chunks(1);
    fh_store(&fh_observing, FH_MODE_HARDEN);
    fh_store(&fh_region_at(0)->partition, FH_PARTITION_HARDENED);
    fh_store(&fh_window.regions[0][0], 1);
    fh_store(&fh_window.regions[FH_PARTITION_HARDENED][0], 1);
    fh_chunk_open(chunk);
}

void *fh_model_hardened_take(unsigned c) {
    void *p = fh_slab_take_in(FH_PARTITION_HARDENED, c);
    if (p) fh_live_begin(c, p);
    return p;
}

/* False: it was free, or another one freed it meanwhile. */
bool fh_model_hardened_free(void *p) {
    fh_place at = fh_locate(p);
    return at.begin == p && !at.free && fh_hardened_end(&at, p);
}

/* hardened.c's own, made visible by build.rs. */
void *fh_model_waits(unsigned shard);

/* Blocks of class c that the program has; *out: those that are neither free nor wait. */
size_t fh_model_hardened_live(unsigned c, size_t *out) {
    size_t live = 0, chunks = fh_load(&fh_window.origin) ? fh_window_chunks() : 0;
    *out = 0;
    if (chunks == 0 || fh_partition_of_slot(0) != FH_PARTITION_HARDENED) return 0;
    for (size_t slot = 0; slot < chunks * FH_CHUNK_SLOTS; slot++) {
        uint64_t state = fh_load(&fh_slab_at(slot)->state);
        if (fh_state_kind(state) != c) continue;
        *out += fh_state_bump(state);
        for (unsigned w = 0; w * 64 < fh_class_table[c].blocks; w++) {
            *out -= fh_count_bits(fh_load(&fh_slab_at(slot)->free[w]));
            live += fh_count_bits(fh_load(&fh_slab_at(slot)->free[FH_LIVE_WORDS + w]));
        }
    }
    for (unsigned i = 0; i < FH_SHARDS; i++) {
        void *p = fh_model_waits(i);
        if (p) *out -= fh_locate(p).c == c;
    }
    return live;
}
