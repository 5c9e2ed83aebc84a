/* A mistake that is made a thousand times, without a consequence of its own: guard_share KIND OTHERS SEED. Before each there are
 * so many other allocations. Ends by the signal of the report if one of them was found. What is written is put back, and only a
 * neighbour of this program's own is written to. */
#include "../support/alloc.h"

#include <string.h>

enum { TIMES = 1000, LENGTH = 100, NEXT = 112 };

static char *volatile block;
static volatile char byte;
static volatile unsigned done; /* what follows a call keeps it from being a jump */

__attribute__((noinline)) void allocates(void) {
    block = t_malloc(LENGTH);
    done++;
}
__attribute__((noinline)) void frees(void) {
    t_free(block);
    done++;
}
__attribute__((noinline)) void reads(ptrdiff_t i) {
    byte = block[i];
    done++;
}
__attribute__((noinline)) void writes(ptrdiff_t i) {
    block[i] = (char)~block[i];
    done++;
}

/* Written where the neighbour begins, found by the guard there or when the block is freed; then put back. */
static void overrun(ptrdiff_t i) {
    char *other = block + i;
    writes(i);
    frees();
    *other = (char)~*other;
}

static void make(char kind) {
    allocates();
    /* The block before the first one of a slab is another class's, or nothing. */
    if (kind == 'u' && (uintptr_t)block % 4096 == 0 && t_usable_size(block) != LENGTH) {
        frees();
    } else if (kind == 'o') {
        overrun(NEXT);
    } else if (kind == 'u') {
        overrun(-1);
    } else {
        frees();
        reads(3);
    }
}

int main(int count, char **words) {
    if (count != 4) return 2;
    unsigned others = (unsigned)atoi(words[2]), state = (unsigned)atoi(words[3]);
    for (unsigned i = 0; i < TIMES; i++) {
        for (unsigned k = 0; k < others; k++) {
            state = state * 1103515245u + 12345u;
            t_free(t_malloc(1 + state / 65536 % 2000));
        }
        make(words[1][0]);
    }
    return 0;
}
