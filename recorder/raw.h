// SPDX-License-Identifier: MIT OR Apache-2.0
// The raw recording: what the shim writes and `freehold record` reads. docs/trace-format.md describes it.
//
//     header (4096 bytes) | state of each block, 4 bytes | padding to 4096 | block 0 | block 1 | ...
//
// The file is mapped shared, so what is in it survives the death of the program by any signal.
#ifndef FREEHOLD_RECORDER_RAW_H
#define FREEHOLD_RECORDER_RAW_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum raw_op {
    RAW_MALLOC = 1,
    RAW_CALLOC,
    RAW_REALLOC_FROM, // the old block; the thread's next record is RAW_REALLOC_TO
    RAW_REALLOC_TO,
    RAW_ALIGNED,
    RAW_FREE,
    RAW_FREE_SIZED,
    RAW_NEW,
    RAW_NEW_ALIGNED,
    RAW_DELETE,
    RAW_DELETE_SIZED,
    RAW_THREAD_START, // address: the number of the new thread
    RAW_THREAD_END,
    RAW_TRIM,
    RAW_FORK, // noted by the parent
};

// A block of the pool goes from unused or free to owned, to full, and through the reader back to free.
enum raw_state { RAW_UNUSED, RAW_OWNED, RAW_FULL, RAW_FREE_BLOCK };

// What happens when no block of the pool is free.
enum raw_when_full { RAW_DROP, RAW_WAIT, RAW_RING };

struct raw_record {
    uint64_t stamp;   // ticks: before a call that releases, after a call that allocates
    uint64_t address; // bits 0-47 address, 48-55 log2 of the alignment, 56-63 the operation
    uint64_t size;
};
static_assert(sizeof(struct raw_record) == 24, "the reader knows the size");

enum { RAW_BLOCK_BYTES = 65536, RAW_HEADER_BYTES = 4096, RAW_BLOCK_HEADER = 64 };
enum { RAW_RECORDS = (RAW_BLOCK_BYTES - RAW_BLOCK_HEADER) / sizeof(struct raw_record) };

struct raw_block {
    uint32_t thread;
    _Atomic uint32_t count; // records that are whole
    uint64_t sequence;      // one counter for the process, so blocks of one thread are in its order
    uint64_t timed_calls;   // calls of the allocator that were timed
    uint64_t timed_ticks;   // ticks of the short ones
    uint64_t timed_ns;      // CPU time of the long ones, in which the thread may have been off its CPU
    uint8_t unused[RAW_BLOCK_HEADER - 40];
    struct raw_record records[RAW_RECORDS];
};
static_assert(offsetof(struct raw_block, records) == RAW_BLOCK_HEADER, "the reader knows the offset");

struct raw_header {
    char magic[8]; // "FHRAWREC"
    uint32_t version, when_full;
    uint64_t blocks, process, parent;
    uint64_t begin_ticks, begin_ns;
    _Atomic uint64_t lost;     // records for which there was no room
    _Atomic uint64_t waits;    // times a thread waited for room
    _Atomic uint64_t sequence; // the next block's
    _Atomic uint32_t threads;  // the next thread's number
    _Atomic uint32_t closed;   // set by the reader when it stops: nobody waits for room any more
    uint64_t reader;           // its process
};
static_assert(sizeof(struct raw_header) <= RAW_HEADER_BYTES, "it fits its page");

// Of a thread. `depth` is above 0 while a call of the allocator runs, whose own calls are not the program's.
struct recorder_thread {
    struct raw_block *block;
    uint32_t count, index;  // records in the block, and its place in the pool
    uint32_t number, depth; // number: 0 before the first record
    uint32_t until_timed;
    bool ended;
};
extern __thread struct recorder_thread recorder_self;
extern _Atomic bool recorder_on;

void recorder_begin(void);
void recorder_put_slow(const struct raw_record *record);
uint32_t recorder_new_thread(void);
void recorder_thread_ends(void);

#endif
