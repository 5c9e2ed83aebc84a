// SPDX-License-Identifier: MIT OR Apache-2.0
// The ancestors: baselines, not products. Each is the design of an older allocator, written anew and small
// from its description, so that it can run in the same harness as the allocators of today and the way from
// 2004 can be drawn. What is not described of an original is chosen as plainly as possible.
//
// An ancestor is two functions, take and give. The shim makes the malloc family of them: it keeps a header of
// 16 bytes before each block, because these designs are told the size on release, and it serves what is
// larger than the limit.
//
//     malloc, free, ...  →  shim.c  →  ancestor_take / ancestor_give  →  window.c  →  the system
#ifndef FREEHOLD_ANCESTOR_H
#define FREEHOLD_ANCESTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHUNK = 65536, HEAD = 16 };

// ---------------------------------------------------------------------------------------------------- what each provides

extern const char ancestor_name[];
extern const size_t ancestor_limit;   // the largest size, header included, that is its business
extern const bool ancestor_headless;  // it finds a block's size by itself, and the shim keeps no header
extern const bool ancestor_uses_libc; // what is larger goes to the C library's allocator instead of a mapping

// Returns memory aligned to 16 bytes, or NULL. The size includes the header.
void *ancestor_take(size_t size);
// Takes it back. Headless ones may be given any address inside of the block, and ignore the size.
void ancestor_give(void *block, size_t size);
// The bytes from this address to the end of its block; asked of headless ones only.
size_t ancestor_room(const void *address);

// A fork may happen while another thread holds a lock; the forking thread takes all of them first.
enum fork_moment { BEFORE_FORK, AFTER_FORK_PARENT, AFTER_FORK_CHILD };
void ancestor_fork(enum fork_moment moment);

// ---------------------------------------------------------------------------------------------------- window.c

// All small memory lies in one reserved window, so that a block has a number of 32 bits and a chunk one of
// 17: that leaves room for a tag beside it in one word. The window also bounds baselines whose memory grows
// without limit.
enum { WINDOW_CHUNKS = 131072 };
extern char *window_base;

bool window_holds(const void *address);
// One chunk of 64 KiB, aligned to that; its content is undefined. NULL when the window is used up.
void *window_chunk(void);
// Gives a chunk back: its pages go to the system, its address is used again.
void window_return(void *chunk);
// Several chunks in a row, never to be given back.
void *window_run(size_t chunks);
_Noreturn void ancestor_die(const char *message);

// ---------------------------------------------------------------------------------------------------- size classes

// Shared by the designs whose own classes are not described: 16-byte steps to 1 KiB, then four to a doubling.
enum { CLASSES = 109 };

static inline unsigned class_of(size_t size) {
    if (size <= 1024) {
        return (unsigned)((size + 15) >> 4);
    }
    unsigned shift = 61 - (unsigned)__builtin_clzll(size - 1);
    return 64 + (shift - 8) * 4 + (unsigned)((size - 1) >> shift) - 3;
}

static inline size_t class_size(unsigned class) {
    if (class <= 64) {
        return (size_t) class << 4;
    }
    unsigned shift = (class - 65) / 4 + 8;
    return (size_t)((class - 65) % 4 + 5) << shift;
}

#endif
