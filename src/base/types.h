/* Every structure and every constant of the allocator, with the equation that each keeps. What stands in brackets is the
 * name under which src/check/ checks the equation, in a heap at rest.
 *
 * The one idea: everything free is a bit. A free block is a bit of its slab, a free slot a bit of its chunk, a slab with
 * free blocks a bit of the hints above it. Freeing sets bits, allocating claims bits. Nothing is linked, nothing is
 * owned, and a free block is never written to.
 *
 *     window   1 TiB of addresses; only what is in use is mapped    64 units
 *     unit     16 GiB                                               64 regions     (only hints)
 *     region   256 MiB; metadata of its own (fh_region)             64 chunks
 *     chunk    4 MiB, taken from the OS at once (fh_chunk)          64 slots
 *     slot     64 KiB; 1, 2, 4, 8 or 16 of them are a slab (fh_slab),
 *              2 and more a large block ("run"), also beyond the
 *              end of a chunk                                       blocks
 *
 * Every level is 64 of the level below, so that one word says for each part of it "there is something here". */
#ifndef FH_BASE_TYPES_H
#define FH_BASE_TYPES_H

#include "base/atomic.h"
#include "base/bits.h"

#include <stddef.h>
#include <stdint.h>

/* ── Sizes of the house ──────────────────────────────────────────────────────────────────────────────────────────── */

#define FH_KIB ((size_t)1024)
#define FH_MIB (1024 * FH_KIB)
#define FH_GIB (1024 * FH_MIB)

#define FH_SLOT_SHIFT 16
#define FH_SLOT_SIZE ((size_t)1 << FH_SLOT_SHIFT) /* 64 KiB */
#define FH_CHUNK_SLOTS 64u
#define FH_CHUNK_SIZE (FH_CHUNK_SLOTS * FH_SLOT_SIZE) /* 4 MiB */
#define FH_REGION_CHUNKS 64u
#define FH_REGION_SLOTS (FH_REGION_CHUNKS * FH_CHUNK_SLOTS)
#define FH_UNIT_REGIONS 64u
#define FH_RECORDS_CHUNKS 8u /* 32 MiB whose slots have their metadata in one piece (fh_records) */
#define FH_RECORDS_SLOTS (FH_RECORDS_CHUNKS * FH_CHUNK_SLOTS)
/* Fewer where so much address space cannot be had in one piece: the thread sanitizer leaves a program little. */
#ifndef FH_WINDOW_UNITS
#define FH_WINDOW_UNITS 64u
#endif
#define FH_WINDOW_REGIONS (FH_WINDOW_UNITS * FH_UNIT_REGIONS)
#define FH_WINDOW_CHUNKS (FH_WINDOW_REGIONS * FH_REGION_CHUNKS)
#define FH_WINDOW_RECORDS (FH_WINDOW_CHUNKS / FH_RECORDS_CHUNKS)
#define FH_WINDOW_SLOTS ((size_t)FH_WINDOW_CHUNKS * FH_CHUNK_SLOTS)
#define FH_WINDOW_SIZE (FH_WINDOW_SLOTS * FH_SLOT_SIZE) /* 1 TiB */

/* The class map, one byte a slot, is just below the window: the byte of slot s is at base - FH_CLASS_MAP_SIZE + s. */
#define FH_CLASS_MAP_SIZE FH_WINDOW_SLOTS
#define FH_CLASS_MAP_FIRST ((size_t)64 * FH_KIB) /* of it at first: the bytes of 4 GiB */

#define FH_MIN_ALIGN 16u /* what malloc promises: max_align_t, and SSE */

/* ── Size classes (classes.h has the arithmetic, classes.c the table) ────────────────────────────────────────────── */

/* A class is a number below FH_CLASSES.
 *       0          special: nothing, a large block without a class, metadata. Its bins are empty and full at once, for ever.
 *       1 …  64    16 · c bytes, to 1 KiB
 *      65 … 112    eight a doubling, to 64 KiB: at most 1/9 of a block is rounding
 *     113 … 176    large blocks, sixteen a doubling, to 1 MiB: whole pages, at most 1/17 of a block is rounding. They are
 *                  parts of slots and not of slabs (store/large.h), but cached in magazines like blocks of slabs
 *     177 … 183    the allocator's own: magazines of 64 · 2^k bytes. Never in the class map.
 *     184          thread caches. Never in the class map.
 *     185 … 195    blocks that the observer has sampled: powers of two from 64 bytes to 64 KiB. Never in the class map
 *                  either: to free they are special, so that a free of any other block pays nothing for them.
 *     196 … 198    no classes, but kinds of a slab's state: a slab whose holes are open, a slot that two large blocks
 *                  share, and the first slot of a run. */
#define FH_CLASS_SPECIAL 0u
#define FH_FINE_MAX ((size_t)1024)
#define FH_SMALL_LAST 112u
#define FH_SMALL_MAX ((size_t)64 * FH_KIB)
#define FH_RUN_FIRST 113u
#define FH_RUN_LAST 176u
#define FH_RUN_CACHED_MAX ((size_t)16 * FH_SLOT_SIZE) /* the largest block that a magazine may hold */
#define FH_BINS 177u
#define FH_CLASS_MAGAZINE 177u /* 177 + k: magazines of 64 << k bytes */
#define FH_MAGAZINE_SIZES 7u
#define FH_CLASS_THREAD 184u
#define FH_CLASS_SAMPLE 185u /* 185 + k: sampled blocks of 64 << k bytes */
#define FH_SAMPLE_SIZES 11u
#define FH_SAMPLE_LAST 195u
#define FH_CLASS_BORROWED 196u /* a slab state and a hint only: its holes are open to other classes (store/holes.h) */
#define FH_CLASS_EDGE 197u     /* a slab state and a hint only: pages between two large blocks (store/edge.h) */
#define FH_CLASSES 198u
#define FH_KIND_RUN 198u /* a slab state only: this slot is the head of a run */

typedef struct {
    uint32_t size;       /* bytes of a block */
    uint16_t blocks;     /* blocks of a slab = slots · FH_SLOT_SIZE / size */
    uint8_t slots;       /* slots of a slab, a power of two; the slab begins at a multiple of it */
    uint8_t hint_at;     /* a slab gets its hint when this many of its blocks are free */
    uint64_t reciprocal; /* ceil(2^40 / size): index of a block = offset · reciprocal >> 40, exact below 2^20 */
} fh_class_info;

#define FH_SLAB_MOST_SLOTS 16u

/* Depots and preferred slabs come in so many sets. Threads near different CPUs use different ones. */
#define FH_SHARDS 4u

/* ── Hints: "there is something here" ────────────────────────────────────────────────────────────────────────────── */

/* The index of a hint is a class: "a slab of this class with free blocks". Behind the classes it is a length bucket: "a
 * chunk whose longest free run is about that long". Each index has a tree of bits: window → unit → region → chunk. Hints
 * of classes end in the chunk, one bit a slot. Those of length buckets end in the region, one bit a chunk.
 *
 *     equations, while no thread is in the middle of a change:
 *         [hint.tree]    word i of the level below is not 0  ⇒  bit i of a node is set
 *         [hint.length]  a chunk has free slots  ⇒  its bit is set in the bucket of its longest run
 *         [slab.hint]    a slab has hint_at free blocks, or blocks never handed out, or is all free  ⇒  its bit is set
 *
 * While one is, a bit may be set too many: the thread that follows it finds nothing, and clears it. And one may be
 * missing between a clear and the check that follows every clear. See store/hints.h. */
#define FH_LENGTHS 48u /* 1, 2, 3 … 32, and 34, 36 … 64: between two of them a chunk counts as the shorter */
#define FH_HINT_LENGTH FH_CLASSES /* + length bucket: chunks by their longest free run */
#define FH_HINTS (FH_CLASSES + FH_LENGTHS)

typedef struct {
    fh_word hint[FH_HINTS];
} fh_hints;

/* ── Slab: equal blocks, one bit each ────────────────────────────────────────────────────────────────────────────── */

/* state:  63    56 55     48 47     40 39      32 31      16 15       0
 *         │  0    │ owner   │ 0       │ kind      │ bump      │ count  │
 *
 *   owner  of a borrowed slab the class whose blocks are its parts, else 0
 *   kind   class + 1 of a slab, FH_KIND_RUN + 1 of a run, 0 of a free slot
 *   bump   blocks handed out at least once; those beyond were never touched
 *   count  blocks given since the hint was cleared last, while it is clear. It says when to set the hint, and nothing
 *          else depends on it: how many blocks are free is what the words say
 *   Of a run bump and count are one number: its length in slots.
 *
 *     equations:  live + in magazines  =  bump − set bits
 *         [slab.state]   the slab or run fits where it begins: a slab within its chunk, at a multiple of its slots; a run
 *                        within the window, and what the program has of it within the run
 *         [slab.bump]    1 ≤ bump ≤ blocks
 *         [slab.beyond]  no bit is set from bump on
 *         [slab.count]   count < hint_at
 *         [slot.free]    a free slot has state 0 and all words 0, so that a stale hint finds nothing there. Its word `pages`
 *                        is 0 too, so that no pointer to it is one to a run, and its words `heap` and `quick`
 *         [slot.class]   the class byte of each slot of a slab, and of a run's first, is its class; of all others it is 0.
 *                        Of classes above 176, of sampled runs and of runs that no magazine holds it is 0 too
 *
 * 67 words, padded to an odd number of cache lines (9), so that the states of neighbours fall into different cache sets. */
#define FH_SLAB_WORDS 64u

typedef struct {
    fh_word state;
    fh_word free[FH_SLAB_WORDS]; /* bit b of word w: block 64 · w + b is free. Borrowed: words 32 … 63 are joined.
                                  * Sampled: they say what the program has of each block (store/sampled.h) */
    /* Of the large block that begins in this slot: the pages that the program has of it, and in the upper half the page of
     * the slot that is its first. 0: none begins here. */
    fh_word pages;
    fh_word clean; /* of an edge: pages that were never handed out (store/edge.h) */
    fh_word
        heap; /* of each slot that a heap of the embedding API has: the fh_owned that says whose it is (heap/types.h) */
    fh_word parent; /* of a heap's first slot: the heap that it is below; 0: none (heap/below.h) */
    fh_word
        quick; /* of an extent of one slot whose blocks stripes keep: what free needs to know of it (heap/stripes.h); else 0 */
    uint64_t pad[2];
} fh_slab;

#define FH_STATE_COUNT_MASK UINT64_C(0xFFFF)
#define FH_STATE_BUMP_SHIFT 16
#define FH_STATE_KIND_SHIFT 32
#define FH_STATE_OWNER_SHIFT 48

static inline unsigned fh_state_count(uint64_t s) {
    return (unsigned)(s & FH_STATE_COUNT_MASK);
}
static inline unsigned fh_state_bump(uint64_t s) {
    return (unsigned)(s >> FH_STATE_BUMP_SHIFT) & 0xFFFF;
}
/* The class, or FH_KIND_RUN; ~0u of a free slot. */
static inline unsigned fh_state_kind(uint64_t s) {
    return ((unsigned)(s >> FH_STATE_KIND_SHIFT) & 0xFF) - 1;
}
/* The class whose blocks the slab is divided into: its kind, or the owner of a borrowed one. */
static inline unsigned fh_state_class(uint64_t s) {
    unsigned kind = fh_state_kind(s);
    return kind == FH_CLASS_BORROWED ? (unsigned)(s >> FH_STATE_OWNER_SHIFT) & 0xFF : kind;
}
static inline uint64_t fh_state_make(unsigned kind, unsigned bump) {
    return (uint64_t)(kind + 1) << FH_STATE_KIND_SHIFT | (uint64_t)bump << FH_STATE_BUMP_SHIFT;
}
/* Of a run: its length. */
static inline uint64_t fh_state_make_run(size_t slots) {
    return (uint64_t)(FH_KIND_RUN + 1) << FH_STATE_KIND_SHIFT | (uint32_t)slots;
}
static inline size_t fh_state_run_slots(uint64_t s) {
    return (uint32_t)s;
}

/* ── Chunk: 64 slots ─────────────────────────────────────────────────────────────────────────────────────────────── */

/*     equations, for each slot:  free, or part of exactly one slab or run [slot.overlap], or claimed by a thread that is
 *     about to make it one of these or to release it: in a heap at rest there is none of the last kind [slot.lost].
 *         [chunk.dirty]  dirty  ⇒  used
 *         [chunk.lost]   a chunk that the OS had no memory for has no free slot and nothing in it
 *         [chunk.over]   `over` names the run that covers the chunk's first slot and began before it, if there is one
 *         [chunk.pieces] `pieces` is 0 where `moved` is
 *     over all chunks:
 *         [count.used]   slots of slabs and runs   =  the counter of used slots
 *         [count.dirty]  slots free and dirty      =  the counter of dirty slots
 *         [count.lost]   bits of `lost` in regions =  the window's number of them
 *         [count.kept]   runs without a block      =  the one that is kept, or none (store/run.h)
 *     dirty says of a free slot that it has memory behind it; of a used slot it says nothing that counts.
 *
 * One cache line. A run of 1 TiB touches one page of a region's metadata for 256 MiB. */
typedef struct {
    _Alignas(FH_CACHE_LINE) fh_word free; /* 1 = free. Claimed by compare-and-swap, released by fetch_or: neighbours are
                                           * one run again */
    fh_word dirty;                        /* 1 = written since it came from the OS */
    fh_word used;  /* 1 = was part of a slab or run at least once (so: free, used and not dirty = purged) */
    fh_word split; /* bit 0, bit 1: pages of that half may be purged one by one: no huge page any more;
                    * bit 2, bit 3: and the kernel was advised to make none of it again;
                    * bit 4, bit 5: since it was purged last, it was asked whether to gather it. See thp.h */
    fh_word
        over; /* 1 + the first slot of the run that began in an earlier chunk and has this one's first slot; 0: none */
    fh_word moved;  /* 1 = may be in a mapping of its own, because pages were moved there. See purge.h */
    fh_word pieces; /* how often pages were moved here since `moved` was 0 */
} fh_chunk;

#define FH_CHUNK_ALL (~UINT64_C(0)) /* the free word of a chunk of which nothing is in use */

/* The lowest level of the hints of classes: one bit a slot. */
typedef struct {
    _Alignas(FH_CACHE_LINE) fh_word hint[FH_CLASSES];
} fh_chunk_hints;

/* ── Region: 256 MiB, and records: the metadata of 32 MiB of it ──────────────────────────────────────────────────── */

typedef struct {
    fh_hints hints;    /* one bit a chunk */
    fh_word lost;      /* chunks of this region that the OS had no memory for: to be tried again */
    fh_word foreign;   /* chunks in which another mapping was found: passed over for good */
    fh_word huge;      /* chunks for which huge pages were asked for when they were started */
    fh_word partition; /* FH_PARTITION_… of all its chunks: 0, or written once, before any of them has a free slot */
    fh_chunk chunk[FH_REGION_CHUNKS];
} fh_region;

/* A mapping of its own, so that a small process has address space for little of it: 304 KiB, where a region has 2.3 MiB. */
typedef struct {
    fh_chunk_hints chunk_hints[FH_RECORDS_CHUNKS];
    /* On lines of its own, so that a slab's state and its first seven words come with one miss. And on pages of its own, so that
     * the 36 KiB of a chunk are nine pages, which go when the chunk is forgotten (store/purge.h). */
    _Alignas(4096) fh_slab slab[FH_RECORDS_SLOTS];
} fh_records;

/* ── Partitions: which blocks never share memory, whatever becomes of it ─────────────────────────────────────────── */

/* Regions are of one partition for ever, and so are the addresses in them. The first and the last chunk of a partition's regions
 * are never used and cannot be touched, so nothing goes over such a border. Partition 0 has all other regions: the blocks of
 * malloc, and the allocator's own magazines and thread caches. A number is the sum of these:
 *
 *     FH_PARTITION_POINTERS   blocks of which the program has said that they hold pointers (fh_malloc_type)
 *     FH_PARTITION_HARDENED   blocks of a hardened program (option harden)
 *
 * No magazine holds blocks of a partition, and none has a class byte: to free they are special.
 *     equations:
 *         [slab.live]  in a slab of a hardened partition bit b of word 32 + w says that the program has block 64 · w + b. It is
 *                      not set of a free block, and no two free it: the bit is cleared by the first of them */
#define FH_PARTITION_POINTERS 1u
#define FH_PARTITION_HARDENED 2u
#define FH_PARTITIONS 4u

/* ── Depot: full magazines, a few a class ────────────────────────────────────────────────────────────────────────── */

/* A magazine is an array of block pointers that changes hands as a whole.
 *
 *     ┌──────────┬──────┬─────────┬─────────┬── ─ ─ ──┬───────────┐
 *     │ capacity │ NULL │ block 0 │ block 1 │         │ block n-1 │       64 << k bytes: n = 6, 14, 30, 62, 126, 254, 510
 *     │ from     │      │         │         │         │           │
 *     │ count    │      │         │         │         │           │
 *     └──────────┴──────┴─────────┴─────────┴── ─ ─ ──┴───────────┘
 *                  ↑ top[-1] of an empty magazine: the sentinel that sends malloc to the slow path
 *
 * count is only valid while the magazine is not loaded (the loaded one is described by its bin), from only in the depot.
 *
 *     equations:
 *         [magazine.valid]   it is a block of its class that is handed out, with that class's capacity
 *         [magazine.count]   count ≤ capacity
 *         [magazine.block]   each entry is a block of the bin's class that is handed out
 *         [magazine.twice]   a block is in one magazine at most, and once
 *         [magazine.shared]  a magazine is in one place: a bin's loaded or previous one, or in a slot of a depot
 *         [magazine.lost]    blocks of its classes that are handed out  =  magazines in such places */
typedef struct {
    uint16_t capacity;
    uint16_t from; /* near which CPU it was put into the depot, the number's low half: a hint */
    uint32_t count;
    void *bottom; /* always NULL */
    void *block[];
} fh_magazine;

/* A slot of the depot holds 0, a full magazine, or an empty one with bit 0 set (FH_DEPOT_EMPTY packs them).
 *     put:  0 → full  or  empty|1 → full (and the empty one is the putter's)
 *     get:  full → 0  or  full → empty|1 (the getter's empty one)
 * Any magazine of a class is as good as any other, so a slot that was changed and changed back does no harm.
 * Beside the slots of a class stands how many are full, so that a search ends at once where there is nothing. It is raised
 * before a magazine is put and lowered after one was got: what it says too much is what is in the middle of that.
 *     equations:
 *         [depot.slot]  a full one has blocks, an empty one has none
 *         [depot.full]  full slots of a class  =  the number beside them */
#define FH_DEPOT_SLOTS 32u
#define FH_DEPOT_EMPTY UINT64_C(1)

/* 16-byte blocks have four times as many slots, 32-byte blocks twice: as many as hold a MiB of them too. */
static inline unsigned fh_depot_slots(unsigned c) {
    return c == 1 ? 4 * FH_DEPOT_SLOTS : c == 2 ? 2 * FH_DEPOT_SLOTS : FH_DEPOT_SLOTS;
}

/* The depots of all classes near one CPU, one behind the other; class 0 has none. */
#define FH_DEPOT_ALL ((FH_BINS - 3 + 4 + 2) * FH_DEPOT_SLOTS)

/* Beside that, how often threads near other CPUs got one of these magazines. The blocks of a thread that allocates and frees
 * in turns would go from CPU to CPU for ever so, each time with a cache miss. A hint: of two changes at once one may be lost.
 * The low half of the word is that count, the upper half the bytes by which threads made up for it from slabs. */
#define FH_AWAY_COUNT UINT64_C(0xFFFFFFFF)
#define FH_AWAY_BYTES_SHIFT 32u

typedef struct {
    fh_word full[FH_BINS];
    fh_word away[FH_BINS];
    fh_word slot[FH_DEPOT_ALL];
} fh_depots;

static inline fh_word *fh_depot_of(fh_depots *all, unsigned c) {
    return &all->slot[c < 3 ? (c - 1) * 4 * FH_DEPOT_SLOTS : (c + 3) * FH_DEPOT_SLOTS];
}

/* ── Thread cache ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A bin is all that the hot path touches: 16 bytes a class.
 *     equation:  [cache.bin]  loaded->block ≤ top ≤ end ≤ loaded->block + capacity;  blocks cached = top − loaded->block.
 *     Without a loaded magazine, and in bin 0, both are those of the magazine that is full and empty at once. */
typedef struct {
    void **top;
    void **end;
} fh_bin;

/* What the slow path needs of a bin. Two magazines (Bonwick): `previous` is the older one; it is either full enough to
 * be handed over as a whole, or empty.
 *     equation:  [cache.limit]  a bin that has one of them has a limit above 0 */
typedef struct {
    fh_magazine *loaded;
    fh_magazine *previous;
    uint16_t limit; /* blocks that each of the two may hold now: grows with use, shrinks when idle */
    uint8_t used;   /* refilled or flushed since it was checked last: by a tick, or at the end of a thread */
    uint8_t unused_ticks;
    uint16_t most; /* what `limit` may grow to, 0 until it is asked for: to compute it takes a division */
} fh_rack;

/* What is before a row of bins: how many slots have a class byte, as the thread knows (store/window.h). In its own cache it
 * is plain, so that the hot path compares with it in one instruction. It may be too small until the thread's next slow path.
 *
 * There are two of it, and one or both are 0, so that this compare also says how a free looks for a block that is free
 * already (cache/twice.h):
 *     watched    unwatched
 *     n          0            by the table of last places
 *     0          n            not at all: double_free=flush
 *     0          0            a young thread: each free takes the slow half, which looks through the bin */
typedef struct {
    uint64_t watched_slots;
    uint64_t unwatched_slots;
} fh_row_head;

#define FH_ROW (FH_BINS + 1u) /* from a decoy to its bin, in bins */

/* For each block that the thread has freed, by a hash of its address: the low 16 bits of the place in a magazine that it
 * went to. A later block with that hash takes the entry over. So an entry may be of another block, or of a place where the
 * block is no longer: it says where to look, and never what is there. See cache/twice.h. */
#define FH_PLACE_BITS 12u
#define FH_PLACES (1u << FH_PLACE_BITS)

/* Where the thread's next deferred frees go (heap/defer.h). All zero: the next one is to look. */
typedef struct {
    uint64_t slots; /* slots with a class byte, as the thread knows: plain, so that the hit compares with it at once */
    void **top, **end;
    size_t room;  /* bytes that may be deferred before the bound is looked at again */
    size_t given; /* what `room` was when the batch's bytes were counted last */
} fh_deferring;

typedef struct fh_scope fh_scope;

/* What is before the thread's second row, so that this begins a page. Nothing of it is written as a rule. */
#define FH_THREAD_PAGE 4096u
#define FH_THREAD_UNUSED                                                                                               \
    (FH_THREAD_PAGE - sizeof(fh_row_head) - sizeof(fh_bin[FH_BINS]) - sizeof(fh_deferring) - 2 * sizeof(uint64_t))

typedef struct fh_thread {
    /* What few threads have, so that few write the page that these and the decoys are on. */
    fh_scope *scope; /* the innermost heap scope (heap/scope.h); NULL: in none */
    fh_deferring deferring;
    uint64_t guard_left; /* allocations of its round after the one that was drawn for a guard */
    char unused[FH_THREAD_UNUSED];
    /* Two rows, one behind the other, because the hot path may reach both from the first (cache/observed.h). All decoy bins
     * are empty and full; they are written when the thread is first observed. The second row begins a page. A thread writes that
     * one and, with larger blocks, the next, until it frees more than a few blocks. */
    fh_row_head decoy_head;
    fh_bin decoy[FH_BINS];
    fh_row_head head;
    fh_bin bin[FH_BINS];
    size_t budget_used; /* [cache.budget] Σ 2 · limit · size over the bins, bytes: two magazines each */
    size_t bulky_used;  /*   of these: of bulky blocks */
    int64_t flushed;    /* bytes flushed less refilled that the others do not know of yet (cache/shrink.h) */
    fh_word generation; /* forks before it was made: the thread of an older cache does not exist in this process */
    uint32_t number;    /* 0, 1, 2 … as threads come: a hint for spreading, nothing more */
    fh_word state;      /* FH_THREAD_… */
    uint32_t ticks;     /* slow paths taken */
    uint32_t next_idle; /* the bin that the next tick checks */
    /* Plain: only the owner writes. Statistics, but the last two say also whether a thread wants its own blocks again. */
    uint64_t refills, flushes, from_depot, to_depot;
    /* Of a thread that is observed (cache/observed.h): the interval from which its bytes until the next sample were
     * drawn (0: none were), the state of its generator, and the OS's number of it. */
    uint64_t interval, random;
    uint32_t system_number;
    uint32_t polls;                  /* slow paths, observed or about to be */
    uint64_t block_weight;           /* observed with option guard: what a block counts for beside its bytes; else 0 */
    int64_t weight_left;             /* until the next sample or guard then */
    struct participant *participant; /* in deferred frees (heap/defer.c); NULL: in none */
    uint64_t ticket;                 /* by which stripes of heaps know their owner (heap/stripes.h) */
    /* Not in fh_thread_state: a library that is loaded late gets a few bytes of static TLS, and these were too many. */
    fh_word walked_beside; /* it was refused memory while another thread did this walk, and walked itself */
    uint32_t exchanges;    /* how often the two magazines of a bin changed places, or might have */
    uint16_t young;        /* frees until the thread gets its table of last places: until then that has no memory */
    uint16_t left_behind;  /* times that its thread ended: at some of them all is looked through (cache/twice.h) */
    /* Behind all that every thread writes: one that has only blocks of up to 688 bytes writes nothing of the second page. */
    fh_rack rack[FH_BINS];
    uint32_t handed_over;  /* magazines handed to the depot: which part of the next one is looked at (cache/twice.h) */
    uint16_t last_place[]; /* FH_PLACES of them; of the two caches that stand for none (cache/thread.h) none */
} fh_thread;

#define FH_THREAD_SIZE (offsetof(fh_thread, last_place) + FH_PLACES * sizeof(uint16_t))

#define FH_NO_TICKET UINT64_C(1)

/* Values that memory which is not (yet) a thread cache will not have by chance: the caches are found by walking slabs.
 *     equations, in a heap at rest:
 *         [cache.state]   a cache that is handed out is LIVE or PARKED, one that is free in its slab is DEAD
 *         [cache.parked]  PARKED  ⇔  it is where the next thread looks for one, except what a fork has left behind */
#define FH_THREAD_DEAD UINT64_C(0)
#define FH_THREAD_LIVE UINT64_C(0x66682D6C69766521)
#define FH_THREAD_PARKED UINT64_C(0x66682D7061726B21) /* its thread has ended; the next one gets it (cache/thread.c) */
#define FH_THREAD_BUSY UINT64_C(0x66682D6275737921) /* inside a slow path: its magazines may be half way to somewhere */

/* ── The assertions that the above relies on ─────────────────────────────────────────────────────────────────────── */

_Static_assert(sizeof(fh_word) == 8, "a shared word is 64 bits");
_Static_assert(sizeof(fh_slab) == 9 * FH_CACHE_LINE, "slab metadata: an odd number of lines");
_Static_assert(sizeof(fh_chunk) == FH_CACHE_LINE, "chunk metadata: a line");
_Static_assert(sizeof(fh_chunk_hints) % 128 == FH_CACHE_LINE, "hints of a chunk: an odd number of lines");
_Static_assert(FH_SLOT_SIZE / FH_MIN_ALIGN == FH_SLAB_WORDS * 64, "a slot of the smallest blocks fills the words");
_Static_assert(FH_CLASS_MAP_FIRST % FH_REGION_SLOTS == 0 && FH_CLASS_MAP_FIRST <= FH_CLASS_MAP_SIZE, "whole regions");
_Static_assert(FH_REGION_CHUNKS % FH_RECORDS_CHUNKS == 0, "records are of one region");
_Static_assert(sizeof(fh_bin) == FH_MIN_ALIGN, "malloc computes the bin's address from the size without a shift");
_Static_assert((64u << (FH_SAMPLE_SIZES - 1)) == FH_SMALL_MAX && FH_CLASS_SAMPLE + FH_SAMPLE_SIZES == FH_CLASS_BORROWED,
               "the classes of sampled blocks");
_Static_assert(sizeof(fh_bin[FH_ROW]) == offsetof(fh_thread, bin) - offsetof(fh_thread, decoy) &&
                   offsetof(fh_thread, bin) - offsetof(fh_thread, head) == sizeof(fh_row_head),
               "a row of bins behind a row of decoys, each with its head");
_Static_assert(offsetof(fh_thread, head) == FH_THREAD_PAGE && offsetof(fh_thread, rack[44]) <= 2 * FH_THREAD_PAGE &&
                   offsetof(fh_thread, last_place) <= 3 * FH_THREAD_PAGE,
               "a new thread writes a page, or two");
_Static_assert(FH_RUN_LAST + 1 == FH_BINS, "a bin for each class that a thread caches");

#endif
