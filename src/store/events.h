/* What the store tells the policy, and what the policy tells the store.
 *
 * The store is mechanism: it claims, releases and purges, and decides nothing about when. All that a policy may have to
 * react to is an *event*: it adds to counters and sets *due* bits, nothing more. The policy (src/reclaim) is polled at one
 * safe point, the end of a slow path with nothing held, and only if a due bit is set. What it decides comes back as
 * *orders*: words that the store reads.
 *
 *         cache, store ──▶ event ──▶ counters, fh_due           order ◀── policy
 *                                          │                                ▲
 *                                          └── safe point: fh_hook_reclaim ─┘
 *
 * Thread-safety: any thread. Memory orders: relaxed throughout. Counters are figures to steer by, no memory is read or
 * written because of their values alone. A due bit that is seen late is acted on at the end of the next slow path.
 * Progress: wait-free. Cost: a locked instruction a counter, for a slab or large block and not for a block. */
#ifndef FH_STORE_EVENTS_H
#define FH_STORE_EVENTS_H

#include "base/assert.h"
#include "base/tuning.h"
#include "base/types.h"

/* ── Due bits ────────────────────────────────────────────────────────────────────────────────────────────────────── */

#define FH_DUE_IDLE (UINT64_C(1) << 0)       /* more freed memory is kept than `idle_slots` */
#define FH_DUE_GROWTH (UINT64_C(1) << 1)     /* the heap has got chunks */
#define FH_DUE_LIMIT (UINT64_C(1) << 2)      /* there was a claim or a release while a hard limit is set */
#define FH_DUE_GROUP (UINT64_C(1) << 3)      /* the control group is to be read: enough has got memory */
#define FH_DUE_REFAULT (UINT64_C(1) << 4)    /* memory that was purged is in use again */
#define FH_DUE_HUGE_PAGE (UINT64_C(1) << 5)  /* the first touch of a huge page was timed */
#define FH_DUE_PARKED (UINT64_C(1) << 6)     /* parked caches are to be flushed: the heap contracts */
#define FH_DUE_BACKGROUND (UINT64_C(1) << 7) /* the background thread may have something to do */
#define FH_DUE_THREAD (UINT64_C(1) << 8)     /* the background thread is to be started */
#define FH_DUE_CALLBACK (UINT64_C(1) << 9)   /* the program's callback is to be called */
#define FH_DUE_METRICS (UINT64_C(1) << 10)   /* the metrics file is to be written */
#define FH_DUE_FLOW (UINT64_C(1) << 11)      /* another MiB was taken from slabs */
#define FH_DUE_INSIDE (UINT64_C(1) << 12)    /* so much was flushed that pages inside slabs may be free */
#define FH_DUE_PEAK (UINT64_C(1) << 13)      /* more slots are in use than `peak_slots` */

/* What waits for the end of an allocation, because it may run the program's code or take the C library's locks. */
#define FH_DUE_ALLOCATION_ONLY (FH_DUE_THREAD | FH_DUE_CALLBACK | FH_DUE_METRICS)

extern fh_word fh_due FH_HIDDEN;

static inline void fh_set_due(uint64_t bits) {
    if ((fh_load(&fh_due) & bits) != bits) fh_or_relaxed(&fh_due, bits);
}

/* ── Counters ────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    fh_word used_slots;    /* in slabs and large blocks, or claimed for one */
    fh_word dirty_slots;   /* free, with memory behind them */
    fh_word kept;          /* the run that is kept (run.h): its slots in the upper half, and its first one; 0: none */
    fh_word kept_times;    /* how often there were so many free slots that the policy may have to be asked about it */
    fh_word refaulted;     /* bytes that were purged and then used again, since the policy last asked */
    fh_word reused;        /* bytes that were kept free and then used again, likewise */
    fh_word purged_second; /* when free slots were last purged, in units of 2^30 ns */
    fh_word released_end;  /* 1 + the last chunk of the long run that was released last; 0: the policy has seen it */
    fh_word touch_ns;      /* what the last timed huge page took */
    fh_word lowest_dirty;  /* the least that dirty_slots was since the background thread last asked */
    fh_word moves;         /* claims and releases of slots, while the background thread counts them */
    fh_word shard_taken[FH_SHARDS][FH_CACHE_LINE / 8]; /* bytes taken from slabs, the first word of each line */
    fh_word flushed;       /* bytes flushed and not refilled since slabs were sampled last; two's complement */
    fh_word inside_purged; /* bytes purged inside slabs, less what may be in use again */
    fh_word inside_second; /* when that was last, in units of 2^30 ns */
    fh_word split;         /* 1: a half was purged piece by piece, so growth is counted */
    fh_word grown;         /* bytes refilled and not flushed since a half was purged piece by piece, less those that
                            * were spent on gathering (thp.h); two's complement */
    fh_word wanted;        /* bytes that were about to get memory, ever; counted while the control group has a limit */
} fh_counters;

extern fh_counters fh_counts FH_HIDDEN;

/* Bytes in slabs and large blocks; bytes free with memory behind them. */
static inline size_t fh_used_bytes(void) {
    return (size_t)fh_load(&fh_counts.used_slots) * FH_SLOT_SIZE;
}
static inline size_t fh_dirty_bytes(void) {
    return (size_t)fh_load(&fh_counts.dirty_slots) * FH_SLOT_SIZE;
}

/* Slots of the run that is kept. Those that may have memory and are in no slab or block: they are free, or kept. */
static inline size_t fh_kept_slots(void) {
    return (size_t)(fh_load(&fh_counts.kept) >> 32);
}
static inline size_t fh_free_slots(void) {
    return (size_t)fh_load(&fh_counts.dirty_slots) + fh_kept_slots();
}

/* Of each class, what the policy of cold classes wants to know. */
#define FH_COLD_COUNTED (UINT64_C(1) << 63) /* in `given`: the class is cold, and bytes given to it are counted below */

typedef struct {
    fh_word demand; /* 1: blocks were taken from slabs or the depot since the policy last asked */
    fh_word given;  /* 0, or FH_COLD_COUNTED | bytes given to slabs */
} fh_class_events;

extern fh_class_events fh_class_event[FH_CLASSES] FH_HIDDEN;

/* ── Orders ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* How short memory is. */
typedef enum {
    FH_PRESSURE_NONE,
    FH_PRESSURE_SOME, /* nine tenths of a limit are used: caches shrink */
    FH_PRESSURE_HIGH, /* next to nothing is left: all that is free is purged */
} fh_pressure;

#define FH_WATCH_GROUP (UINT64_C(1) << 0)      /* there is a control group with a limit */
#define FH_WATCH_BACKGROUND (UINT64_C(1) << 1) /* there is a background thread, or will be */
#define FH_WATCH_ADDRESSES (UINT64_C(1) << 2)  /* address space was refused: free chunks are to be dropped */

#define FH_TRIMMED UINT64_C(1)        /* depots, empty slabs and the memory of free slots were released */
#define FH_TRIMMED_CHUNKS UINT64_C(2) /* and the address space of free chunks */
#define FH_TRIMMING UINT64_C(4)       /* with one of these, and a number above: a thread is about to */

typedef struct {
    fh_word pressure;        /* an fh_pressure */
    fh_word watch;           /* FH_WATCH_…: events that are worth counting */
    fh_word idle_slots;      /* with more dirty slots than this the policy checks */
    fh_word keep;            /* found within the budget: so many kept slots, of so many in use (the upper half) */
    fh_word peak_slots;      /* with more slots in use than this the policy takes note of a peak */
    fh_word inside_step;     /* slabs are sampled when as many bytes were flushed */
    fh_word credit;          /* bytes of refault credit (reclaim/credit.h) */
    fh_word group_read_at;   /* the control group is to be read when `wanted` is so large; two's complement */
    fh_word cold_rounds;     /* rounds over the cold classes: more holes may be open */
    fh_word trimmed;         /* FH_TRIMMED…: nothing that was free has come back since all of it was released */
    fh_word thp_first_chunk; /* chunks from this one on are put on huge pages */
    fh_word thp_dense_chunk; /* the same for a heap that is written whole; UINT64_MAX: it makes no difference */
    fh_word thp_timed;       /* one first touch in so many is timed, and thp_skip counts; 0: none is */
    fh_word thp_skip;        /* so many halves of chunks are to do without */
    fh_word thp_split_bytes; /* free bytes in a half from which on its huge page may be split */
} fh_orders;

extern fh_orders fh_order FH_HIDDEN;

static inline fh_pressure fh_pressure_now(void) {
    return (fh_pressure)fh_load(&fh_order.pressure);
}

/* A half of a chunk is a huge page. Splitting it pays from an eighth of it on. */
#define FH_HUGE_PAGE (2 * FH_MIB)
#define FH_SPLIT_BYTES (FH_HUGE_PAGE / 8)

/* ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Memory that was purged is missed if it is in use again within a second or two. A program that comes back to its size after
 * a minute was idle without that memory, which is what returning it is for. */
static inline bool fh_is_refault(uint64_t seconds_since_purge) {
    return seconds_since_purge <= 1;
}

/* So many more slots are used. Of all that were claimed `dirty` have memory, and `purged` had some before. */
void fh_event_claimed(size_t slots, size_t dirty, size_t purged);

/* Claimed slots, from this one on, are about to be free, with memory behind them or without. `counted`: they count as used. */
void fh_event_released(size_t first, size_t slots, bool dirty, bool counted);

/* So many claimed slots are kept, with memory behind them; and are in use again. */
void fh_event_kept(size_t slots);
void fh_event_taken_again(size_t slots);

/* Claimed slots go back to the OS with their address space. */
void fh_event_dropped(size_t slots);

/* Some slow paths later. What may stay beyond the floor fades with time, also while no slot is claimed or released. */
static inline void fh_event_time_passed(void) {
    if (fh_free_slots() > fh_load(&fh_order.idle_slots)) fh_set_due(FH_DUE_IDLE);
}

/* Free slots have lost their memory. */
static inline void fh_event_purged(unsigned slots) {
    uint64_t dirty = fh_sub_relaxed(&fh_counts.dirty_slots, slots);
    FH_ASSERT(dirty >= slots);
}

/* The heap has got chunk number `index`. */
static inline void fh_event_chunk(size_t index) {
    if (index >= FH_GROWTH_FROM) fh_set_due(FH_DUE_GROWTH);
}

/* The heap is young, and most of it is written: how large its control group is may matter soon. */
static inline void fh_event_dense(void) {
    if (fh_load(&fh_order.thp_dense_chunk) == UINT64_MAX) fh_set_due(FH_DUE_GROUP);
}

/* `bytes` that were purged are in use again: a refault. */
static inline void fh_event_refaulted(size_t bytes) {
    fh_add_relaxed(&fh_counts.refaulted, bytes);
    fh_set_due(FH_DUE_REFAULT);
}

/* Blocks of class c are taken from slabs or the depot. Written only when it changes: readers share the line. */
static inline void fh_event_demand(unsigned c) {
    if (FH_UNLIKELY(!fh_load(&fh_class_event[c].demand))) fh_store(&fh_class_event[c].demand, 1);
}

/* Blocks, magazines or slots have come back, by a read-modify-write before this: trimming is worth while again. The barriers
 * here and in the trim let one of the two see the other. Written only when it changes: readers share the line. */
static inline void fh_event_came_back(void) {
    fh_fence_after_rmw();
    if (FH_UNLIKELY(fh_load(&fh_order.trimmed))) fh_store(&fh_order.trimmed, 0);
}

/* `bytes` of class c went back to slabs. */
static inline void fh_event_given(unsigned c, size_t bytes) {
    fh_event_came_back();
    if (FH_UNLIKELY(fh_load(&fh_class_event[c].given))) fh_add_relaxed(&fh_class_event[c].given, bytes);
}

/* `bytes` were taken from slabs by a thread of that shard. The sum is of interest now and then. */
static inline void fh_event_taken(unsigned shard, size_t bytes) {
    uint64_t before = fh_add_relaxed(&fh_counts.shard_taken[shard][0], bytes);
    if (FH_UNLIKELY((before ^ (before + bytes)) >> FH_FLOW_STEP_SHIFT)) fh_set_due(FH_DUE_FLOW);
}

/* A thread has flushed `bytes` to depots and slabs, or refilled them (negative). */
void fh_event_flushed(int64_t bytes);

/* `bytes` are about to be used that may have no memory yet. */
void fh_event_may_touch(size_t bytes);

/* A half is purged piece by piece: what the heap grows by counts from here on. */
static inline void fh_event_split(void) {
    if (!fh_load(&fh_counts.split)) fh_store(&fh_counts.split, 1);
    if (fh_load(&fh_counts.grown)) fh_store(&fh_counts.grown, 0);
}

/* True if the heap has grown by so much since a half was purged piece by piece that memory may come ahead of it. */
static inline bool fh_has_grown(void) {
    return (int64_t)fh_load(&fh_counts.grown) >= (int64_t)FH_GROWN;
}

/* `bytes` of memory come ahead of it. Of two threads at once both may have seen the same growth. */
static inline void fh_event_gathered(size_t bytes) {
    fh_sub_relaxed(&fh_counts.grown, bytes);
}

/* The first touch of a huge page took so long. */
static inline void fh_event_touched(uint64_t nanoseconds) {
    fh_store(&fh_counts.touch_ns, nanoseconds);
    fh_set_due(FH_DUE_HUGE_PAGE);
}

#endif
