// SPDX-License-Identifier: MIT OR Apache-2.0
// The film of a replay: where live blocks and resident pages are, at each of some operations in total order.
#ifndef FREEHOLD_RECORDER_FILM_H
#define FREEHOLD_RECORDER_FILM_H

#include <stddef.h>
#include <stdint.h>

// A block of the trace, while it is live.
struct slot {
    void *block;
    uint64_t size;
};

// What the file has for each 64 KiB of addresses in which anything is. `live` is what was asked for.
struct film_cell {
    uint64_t number; // the address over 64 KiB, plus 1
    uint32_t live, blocks;
    uint32_t pages, huge_pages; // of 4 KiB: resident ones, and those of them that are in a huge page
};

// The file has frames, one after the other: the operation, the number of cells, the cells in no order.
// The first frame is of the moment before the first operation.
void film_begin(const char *path);
void film_frame(uint64_t at, const struct slot *slots, uint32_t count);

// Memory that is mapped shared, so it is not among the allocator's pages. Ends the process if there is none.
void *shared(size_t bytes);

#endif
