/* What the heap holds at this moment, by reading the words: nothing is counted while the program allocates. */
#ifndef FH_SEE_STATS_H
#define FH_SEE_STATS_H

#include "base/types.h"

/* One size class, or the large blocks above all classes.
 *     equation (in a program that stands still):  made = live + cached + free;  made ≤ room */
typedef struct {
    size_t size;   /* bytes of a block */
    size_t slabs;  /* in use; of a run class: its runs */
    size_t slots;  /* of 64 KiB that they take */
    size_t room;   /* blocks that fit into the slabs */
    size_t made;   /* handed out at least once: the memory beyond was never touched */
    size_t free;   /* a bit is set */
    size_t cached; /* in magazines of threads, or in the depot */
    size_t live;   /* the program has them */
} fh_stats_row;

#define FH_STATS_LARGE 0u /* the row of runs above 1 MiB: class 0 has no blocks of its own */

typedef struct {
    fh_stats_row row[FH_CLASSES];
    size_t large_bytes;  /* of the blocks in row FH_STATS_LARGE: they differ in size */
    size_t chunks;       /* with memory */
    size_t dirty_bytes;  /* free slots that still have memory behind them */
    size_t purged_bytes; /* free slots without memory */
    size_t huge_count;   /* blocks with a mapping of their own */
    size_t huge_bytes;
    size_t huge_cached_bytes;
    size_t threads; /* caches of live threads */
    size_t metadata_bytes;
    uint64_t refills, flushes, from_depot, to_depot; /* slow paths of the threads that live now */
} fh_stats;

/* Fills *s. Any thread, any time: nobody is stopped, so that figures of a running program are a little off (never
 * negative, never out of bounds). Reads one word for each slot and the words of each slab: about 1 ms for 1 GiB. Does not
 * allocate; *s is about 9 KiB. */
void fh_stats_collect(fh_stats *s);

/* Totals over all classes that programs use, in bytes and blocks; huge blocks not included. */
typedef struct {
    size_t live_bytes, cached_bytes, free_bytes, fresh_bytes, slot_bytes;
    size_t live_blocks, cached_blocks, free_blocks;
} fh_stats_total;

fh_stats_total fh_stats_sum(const fh_stats *s);

#endif
