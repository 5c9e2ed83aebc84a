/* Known chains of calls. Each function notes where it will return to (the compiler knows), then calls the next one; at the
 * inner end the walker has to say the same, address for address. Nothing is compared by name, and no symbols are needed, so it
 * works for static programs, other C libraries, and any flags. */
#ifndef FREEHOLD_TESTS_STACK_CHAIN_H
#define FREEHOLD_TESTS_STACK_CHAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
unsigned fh_stack_walk(uintptr_t *out, unsigned most, const void *frame, bool *whole);
#ifdef __cplusplus
}
#endif

#define CHAIN_MOST 16384

/* What is expected, outermost first. Of one thread at a time: each keeps its own. */
typedef struct {
    unsigned depth;
    unsigned found;
    bool whole;
    uintptr_t expected[CHAIN_MOST];
    uintptr_t got[CHAIN_MOST];
} chain;

static __thread chain *chain_now;

/* At the beginning of a function of the chain. */
#define CHAIN_ENTER() (chain_now->expected[chain_now->depth++] = (uintptr_t)__builtin_return_address(0))

/* At its end: the call before it is not the last thing it does, so it stays a call. */
#define CHAIN_LEAVE()                                                                                                  \
    do {                                                                                                               \
        chain_now->depth--;                                                                                            \
        __asm__ volatile("" ::: "memory");                                                                             \
    } while (0)

/* Takes the stack and compares: the first `skip` frames of it, those of the test itself, are not in the chain. */
__attribute__((noinline, unused)) static void chain_take(unsigned most) {
    CHAIN_ENTER();
    chain *c = chain_now;
    c->found = fh_stack_walk(c->got, most, __builtin_frame_address(0), &c->whole);
    CHAIN_LEAVE();
}

/* The frames around number `at`. */
__attribute__((unused)) static void chain_print(const chain *c, unsigned depth, unsigned at) {
    unsigned first = at > 5 ? at - 5 : 0;
    for (unsigned i = first; i < first + 12 && (i < c->found || i < depth); i++) {
        uintptr_t expected = i < depth ? c->expected[depth - 1 - i] : 0, got = i < c->found ? c->got[i] : 0;
        fprintf(stderr, "  %2u  expected %#14lx  got %#14lx%s\n", i, (unsigned long)expected, (unsigned long)got,
                i < depth && expected != got ? "  <──" : "");
    }
}

/* Called in the function that made the chain, when it is `depth` deep (all its functions have returned). */
__attribute__((unused)) static bool chain_is_right(const chain *c, unsigned depth) {
    for (unsigned i = 0; i < depth; i++) {
        if (i >= c->found || c->got[i] != c->expected[depth - 1 - i]) {
            fprintf(stderr, "frame %u of %u is wrong (found %u%s)\n", i, depth, c->found, c->whole ? ", whole" : "");
            chain_print(c, depth, i);
            return false;
        }
    }
    return true;
}

#endif
