// Allocators that misbehave on purpose, one for each of the macros below, over the system's own. Without a macro it is a
// plain pass-through, which is what the others are to be compared with.
//
//   WASTE_TIME     each malloc burns an eighth of the work that the workload does between two of them
//   WASTE_MEMORY   each block is a quarter larger than asked for, and touched
//   CRASH, HANG    once the program is well under way
//   DIRTY          calloc returns memory that is not zero
//
// Trivial programs, which the harness loads each library into first, stay below the number of calls that triggers these.
#define _GNU_SOURCE 1
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "burn.h"

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

enum { UNDER_WAY = 10000 };
static int calls;

void *malloc(size_t size) {
    calls++;
#ifdef WASTE_TIME
    burn(BURN_WASTE);
#endif
#ifdef CRASH
    if (calls > UNDER_WAY) {
        abort();
    }
#endif
#ifdef HANG
    while (calls > UNDER_WAY) {
        pause();
    }
#endif
#ifdef WASTE_MEMORY
    char *block = __libc_malloc(size + size / 4);
    memset(block + size, 1, size / 4);
    return block;
#else
    return __libc_malloc(size);
#endif
}

void *calloc(size_t count, size_t size) {
    unsigned char *block = __libc_calloc(count, size);
#ifdef DIRTY
    if (calls > UNDER_WAY) {
        block[count * size / 2] = 1;
    }
#endif
    return block;
}

void *realloc(void *block, size_t size) {
    return __libc_realloc(block, size);
}

void free(void *block) {
    __libc_free(block);
}
