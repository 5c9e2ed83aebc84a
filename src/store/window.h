/* The window: the 1 TiB of addresses in which all slabs and runs are, its class map and the metadata of its chunks.
 *
 *     slot = (p − base) >> 16; slot < slots ?  "ours" : foreign       one compare, before anything is touched
 *     class = map[slot]                                               one byte: the class, or 0 = special
 *
 * The window is chosen and not reserved: its place is random, far from where the kernel puts mappings by itself. Everything
 * is mapped there when it is first wanted, so the process has address space for what it uses and no more.
 *
 *     ┌────────── class map, 16 MiB ─────────┬─────────────────────── window, 1 TiB ───────────────────── ─ ─ ───┐
 *     │ first 64 KiB │ the rest, from 4 GiB  │ chunk 0 │ chunk 1 │ …                       guard │ …         guard │
 *     └──────────────┴───────────────────────┴─────────┴───────────────────────────────────────────────── ─ ─ ───┘
 *                                           base
 *
 * A chunk in which there is a foreign mapping is passed over. A guard is a page without access at the end of each quarter.
 * So what a program reserves elsewhere is never over the whole window, or over more than a quarter of it. A guard goes
 * when its chunk is wanted.
 *
 * Rejected: a flat map of all address space (2 GiB reserved) saves the compare, but does not start under `ulimit -v`.
 * Rejected: the window as one reservation. A program that limits its address space later has nothing left; mlockall counts
 * it; and qemu-user spends six seconds and 6 GiB on it. */
#ifndef FH_STORE_WINDOW_H
#define FH_STORE_WINDOW_H

#include "base/types.h"
#include "store/outside.h"

/* Before the window is there, its base is such that no pointer is in it. */
#define FH_NO_WINDOW (UINT64_C(1) << 63)

typedef struct {
    fh_word origin;                     /* 0, then the base: written once, by compare-and-swap; fh_base follows */
    fh_word next_chunk;                 /* chunks below it were taken from the window */
    fh_word guards_gone;                /* one bit a guard */
    fh_word lost;                       /* number of bits set in the regions' `lost` words */
    fh_hints top;                       /* one bit a unit */
    fh_hints unit[FH_WINDOW_UNITS];     /* one bit a region. A small program has all that is above it on one page */
    fh_word region[FH_WINDOW_REGIONS];  /* fh_region*, 0 until its first chunk is wanted; written once */
    fh_word records[FH_WINDOW_RECORDS]; /* fh_records*, likewise */
    /* Of each unit the regions of a partition, as bits; of partition 0 those that are not its own. */
    fh_word regions[FH_PARTITIONS][FH_WINDOW_UNITS];
} fh_window_state;

extern fh_window_state fh_window FH_HIDDEN;

/* The base is what the hot path reads; written once. The slots that have a class byte become more once, from 4 GiB on. Who
 * has a block of a slot has seen that the slot has its byte. The hot path has a copy (fh_row_head). */
extern fh_word fh_base FH_HIDDEN;
extern fh_word fh_class_slots FH_HIDDEN;

static inline uintptr_t fh_window_base(void) {
    return (uintptr_t)fh_load(&fh_base);
}

/* The byte of the class map for slot s. Written by the thread that owns the slot, before any block of it is handed out. When
 * a slab is opened (holes.h) also while others have blocks of it: they may see the old value or the new. */
static inline fh_byte *fh_class_byte(size_t slot) {
    return (fh_byte *)(fh_window_base() - FH_CLASS_MAP_SIZE + slot);
}

static inline void fh_class_set(size_t slot, unsigned c) {
    fh_byte_store(fh_class_byte(slot), (uint8_t)c);
}

/* The class of blocks in a slot, which is the number of their bin: 0 if the slot is not below class_slots, or special. The
 * only metadata that free reads. Where the number of slots is too small, the answer is 0 too. */
static inline unsigned fh_class_of_slot(uintptr_t base, uintptr_t slot, uint64_t class_slots) {
    if (FH_UNLIKELY(slot >= class_slots)) return FH_CLASS_SPECIAL;
    return fh_byte_load((const fh_byte *)(base - FH_CLASS_MAP_SIZE) + slot);
}

/* The same for the block at p. */
static inline unsigned fh_class_below(const void *p, uint64_t class_slots) {
    uintptr_t base = fh_window_base();
    return fh_class_of_slot(base, ((uintptr_t)p - base) >> FH_SLOT_SHIFT, class_slots);
}

static inline unsigned fh_class_at(const void *p) {
    return fh_class_below(p, fh_load(&fh_class_slots));
}

static inline bool fh_in_window(const void *p) {
    return (uintptr_t)p - fh_window_base() < FH_WINDOW_SIZE;
}

static inline size_t fh_slot_of(const void *p) {
    return ((uintptr_t)p - fh_window_base()) >> FH_SLOT_SHIFT;
}

static inline char *fh_slot_address(size_t slot) {
    return (char *)(fh_window_base() + (slot << FH_SLOT_SHIFT));
}

/* The metadata of a region, or NULL if none of its chunks was ever wanted. Acquire: pairs with its publication. */
static inline fh_region *fh_region_at(size_t region) {
    return (fh_region *)(uintptr_t)fh_load_acquire(&fh_window.region[region]);
}

/* Both only for chunks and slots below next_chunk. */
static inline fh_chunk *fh_chunk_at(size_t chunk) {
    return &fh_region_at(chunk / FH_REGION_CHUNKS)->chunk[chunk % FH_REGION_CHUNKS];
}
static inline fh_records *fh_records_at(size_t index) {
    return (fh_records *)(uintptr_t)fh_load_acquire(&fh_window.records[index]);
}
static inline fh_slab *fh_slab_at(size_t slot) {
    return &fh_records_at(slot / FH_RECORDS_SLOTS)->slab[slot % FH_RECORDS_SLOTS];
}

/* Number of chunks that were ever taken; all of them have metadata. */
static inline size_t fh_window_chunks(void) {
    return (size_t)fh_load_acquire(&fh_window.next_chunk);
}

static inline fh_chunk_hints *fh_chunk_hints_at(size_t chunk) {
    return &fh_records_at(chunk / FH_RECORDS_CHUNKS)->chunk_hints[chunk % FH_RECORDS_CHUNKS];
}

/* The metadata of the slot that p is in. NULL: no slot was ever taken there. What is outside of the window is beyond all chunks. */
static inline const fh_slab *fh_slab_of(const void *p) {
    size_t slot = fh_slot_of(p);
    return FH_LIKELY(slot / FH_CHUNK_SLOTS < fh_window_chunks()) ? fh_slab_at(slot) : NULL;
}

/* What of a heap of the embedding API has the slot of p, or the memory outside of the window: the address of an fh_owned (heap/types.h), or 0. Acquire: what is there
 * was written before. The answer holds as long as the caller holds the block. */
static inline uintptr_t fh_heap_word(const void *p) {
    const fh_slab *slab = fh_slab_of(p);
    if (FH_LIKELY(slab != NULL)) return (uintptr_t)fh_load_acquire(&slab->heap);
    return fh_in_window(p) ? 0 : fh_outside_word(p);
}

/* ── Partitions ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The partition of a slot below next_chunk. */
static inline unsigned fh_partition_of_slot(size_t slot) {
    return (unsigned)fh_load(&fh_region_at(slot / FH_REGION_SLOTS)->partition);
}

/* Of any pointer; 0 if it is none of ours. */
static inline unsigned fh_partition_of(const void *p) {
    size_t slot = fh_slot_of(p);
    return fh_in_window(p) && slot / FH_CHUNK_SLOTS < fh_window_chunks() ? fh_partition_of_slot(slot) : 0;
}

/* Of a unit, the regions in which a partition may have something, as bits. Relaxed: a region gets its bit before anything in it
 * is free, and hints lead to what is free. */
static inline uint64_t fh_partition_regions(unsigned partition, size_t unit) {
    uint64_t regions = fh_load(&fh_window.regions[partition][unit]);
    return partition ? regions : ~regions;
}

/* ── Walks, and new chunks ───────────────────────────────────────────────────────────────────────────────────────── */

#define FH_NONE (~(size_t)0)

/* The first slot from `slot` on at which a slab or a large block begins, FH_NONE if there is none; *state is its state. The
 * one way to walk the heap: for (slot = 0; (slot = fh_next_slab(slot, &state)) != FH_NONE; slot++). Cost: a load for each
 * slot of chunks in use, one for a chunk in the middle of a run. */
size_t fh_next_slab(size_t slot, uint64_t *state);

/* The first slot of the chunk that does not belong to a run which began in an earlier chunk; its end if there is none. What
 * is before it has no metadata of its own, and reading it would give memory to that metadata. */
size_t fh_chunk_first_own(size_t chunk);

/* Sets the window up unless it is there. Any number of threads at once: one wins, none waits. False: no address space. */
bool fh_window_start(void);

/* So many chunks in a row that were never used, or were dropped, with memory behind them and metadata all zero. Where there
 * is a foreign mapping only its own chunks are passed over. Returns the first; FH_NONE: no memory (errno is not touched).
 * Lock-free: a thread parked in here holds back their numbers and nothing else. */
size_t fh_window_take_chunks(size_t n);

/* So many chunks from this one on, which comes behind the last one that was ever taken. False: another thread was first, there is
 * no memory, or a foreign mapping. */
bool fh_window_take_chunks_behind(size_t chunk, size_t n);

/* Brings this chunk if it was lost. False: there is no memory for it, or another thread was first. */
bool fh_window_take_lost(size_t chunk);

/* The same as fh_window_take_chunks for a partition. Above 0 the chunks are in regions of its own: when it needs more it takes the
 * next ones that no chunk of was ever wanted. Of these the first and the last chunk are made inaccessible, and never used. */
size_t fh_window_take_chunks_in(unsigned partition, size_t n);

/* In the child of a fork: maps afresh what the program has kept from it by MADV_DONTFORK, because it may have been freed since,
 * or be freed later. It reads as zero. Cost: a system call, if there is nothing of the kind and no chunk is missing; else one
 * for each region. */
void fh_window_mend(void);

/* Bytes of chunks that are mapped. */
static inline size_t fh_window_mapped(void) {
    size_t chunks = fh_window_chunks(), lost = (size_t)fh_load(&fh_window.lost);
    return chunks > lost ? (chunks - lost) * FH_CHUNK_SIZE : 0;
}

/* True if this chunk, of those that were taken, has no memory: it was dropped or refused, or is foreign. */
static inline bool fh_window_misses(size_t chunk) {
    const fh_region *r = fh_region_at(chunk / FH_REGION_CHUNKS);
    return (fh_load(&r->lost) | fh_load(&r->foreign)) >> chunk % FH_REGION_CHUNKS & 1;
}

/* True if it may get memory again: it was dropped or refused. */
static inline bool fh_window_is_lost(size_t chunk) {
    return fh_load(&fh_region_at(chunk / FH_REGION_CHUNKS)->lost) >> chunk % FH_REGION_CHUNKS & 1;
}

/* Returns the address space and the memory of a chunk to the OS. It is tried again when a chunk is wanted. The caller has
 * claimed all of its slots, and nothing in it is in use. False: the process has too many mappings for that, and the chunk
 * is still the caller's, purged. */
bool fh_window_drop_chunk(size_t chunk);

#endif
