// SPDX-License-Identifier: MIT OR Apache-2.0
// The raw recording: what the shim writes and `freehold record` reads. docs/trace-format.md describes it.
//
//     header (4096 bytes) | state of each block, 4 bytes | padding to 4096 | block 0 | block 1 | ...
//
// The file is mapped shared, so what is in it survives the death of the program by any signal.
#ifndef FREEHOLD_RECORDER_RAW_H
#define FREEHOLD_RECORDER_RAW_H

#include "order.h"

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
    RAW_EVENT,  // no call on a block
    RAW_STAMP,  // no record: the time of those that follow
    RAW_PREFIX, // no record: what the next word has no room for
};

enum raw_event {
    RAW_THREAD_START = 1, // value: the number of the new thread
    RAW_THREAD_END,
    RAW_TRIM, // value: the pad
    RAW_FORK, // noted by the parent
};

// The words of a block. The lowest four bits are a raw_op; a word of zero ends the block.
//
//     call     size, 16 bits  |  address, 44 bits (a multiple of 16)                |  op
//     EVENT    value, 56 bits                                | raw_event, 4 bits    |  op
//     STAMP    ticks, 60 bits                                                       |  op
//     PREFIX   the size's other 48 bits | - | log2 of the alignment, 6 | low address bits, 4 | op
//
// A call without a stamp of its own is dated by the last one of its thread. No other thread has had to do with
// that block since: see order.h.
enum { RAW_LARGE = 65536 }; // from this size on a call has a prefix

// A block of the pool goes from unused or free to owned, to full, and through the reader back to free.
enum raw_state { RAW_UNUSED, RAW_OWNED, RAW_FULL, RAW_FREE_BLOCK };

// What happens when no block of the pool is free.
enum raw_when_full { RAW_DROP, RAW_WAIT, RAW_RING };

// A program may be ready to be recorded, and be recorded once, while a reader is there: it asks, and later says so.
enum raw_asked { RAW_NOT_YET, RAW_ASKED, RAW_OVER };

enum { RAW_BLOCK_BYTES = 65536, RAW_HEADER_BYTES = 4096, RAW_BLOCK_HEADER = 64 };
enum { RAW_WORDS = (RAW_BLOCK_BYTES - RAW_BLOCK_HEADER) / 8 };

struct raw_block {
    uint32_t thread;
    uint32_t count;       // its records, once it is full
    uint64_t sequence;    // one counter for the process, so blocks of one thread are in its order
    uint64_t timed_calls; // calls of the allocator that were timed
    uint64_t timed_ticks; // ticks of the short ones
    uint64_t timed_ns;    // CPU time of the long ones, in which the thread may have been off its CPU
    uint64_t empty_ticks; // of the short ones: what timing nothing took
    uint8_t unused[RAW_BLOCK_HEADER - 48];
    _Atomic uint64_t words[RAW_WORDS]; // the first is a stamp
};
static_assert(offsetof(struct raw_block, words) == RAW_BLOCK_HEADER, "the reader knows the offset");

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
    _Atomic uint64_t reader;   // its process
    _Atomic uint32_t asked;    // of a program that is recorded later: a raw_asked
    uint32_t later;            // 1 if it is such a program
    uint64_t base_resident;    // private resident bytes before the first call; 0 if not known
    char allocator[32];        // what the reader calls the allocator; it is terminated, and may be empty
};
static_assert(offsetof(struct raw_header, asked) == 96, "the reader knows the offset");
static_assert(offsetof(struct raw_header, allocator) == 112, "the reader knows the offset");
static_assert(sizeof(struct raw_header) <= RAW_HEADER_BYTES, "it fits its page");

typedef _Atomic uint64_t raw_word;

// While a call of the allocator runs, `at` is this: the allocator's own calls are not the program's.
#define RECORDER_HELD ((raw_word *)UINTPTR_MAX)

// Of a thread. All zero, it sends every call to the slow path, which finds out why.
struct recorder_thread {
    raw_word *at;   // the next word
    raw_word *stop; // from here on a call takes the slow path: the nearest of the three below
    struct raw_block *block;
    raw_word *stamp_at, *timed_at; // the next stamp, the next timed call
    uint64_t stamped;              // the last stamp's ticks
    uint32_t index;                // the block's place in the pool
    uint32_t others;               // words of the block that are no records
    uint32_t number;               // 0 before the first record
    uint32_t run;                  // calls that share a stamp
    uint32_t until_long;           // timed calls until one by the CPU clock too
    int32_t until_timed;           // while there is no block, what is left of timed_at
    struct order_dates dates;      // of the last stamp
    bool ended, owes_allocation;   // the next timed call is an allocation
};
extern __thread struct recorder_thread recorder_self __attribute__((tls_model("initial-exec")));
// An allocation of less needs nothing before it: RAW_LARGE, or 0 if the next one is to be timed. By itself, so that the compiler
// keeps no address of it over the call.
extern __thread size_t recorder_simple_below __attribute__((tls_model("initial-exec")));
extern _Atomic bool recorder_on;
extern _Atomic uint32_t *recorder_asked; // in the header; NULL if recording begins with the program

// One call in 241 is timed: for the share of the program's time that is spent in the allocator. As many calls at most
// share one stamp. One timed call in five is timed by the thread's CPU clock too, which is a system call.
enum { RECORDER_TIMED_EACH = 241, RECORDER_LONG_EACH = 5 };

void recorder_begin(void);
void recorder_program_ends(void);                                                 // as it should
bool recorder_wake(void);                                                         // true, and the recording has begun
void *recorder_put(enum raw_op op, void *address, uint64_t size, unsigned align); // returns the address
void recorder_put_event(enum raw_event event, uint64_t value);
uint32_t recorder_new_thread(void);
void recorder_thread_ends(void);
void recorder_before_fork(void);
void recorder_in_child(void);
void recorder_keep_off(void); // after the tables of order.h have become new ones

#endif
