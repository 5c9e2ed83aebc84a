/* Call stacks, each kept once, under a number: where a checked block was allocated and freed.
 *
 *     table     fh_word[]   0, or the hash's upper half │ number     0 → entry by compare-and-swap, once
 *     records   uint64_t[]  count, then that many return addresses; a number is a record's place
 *
 * Both are mapped once and grow by being touched. A record is written before the entry that names it (release) and never
 * after. Of two threads with the same new stack one loses, and its record's bytes are not used.
 *
 * Thread-safety: any thread, any time. Progress: wait-free; a search takes 16 steps at most. What there is no room for gets
 * number 0. Does not allocate. errno is kept. */
#ifndef FH_MISUSE_STACKS_H
#define FH_MISUSE_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FH_STACK_FRAMES 16u

/* Maps both. False: no memory; then all stacks are 0. Or they are in memory of the caller's, of fh_stacks_bytes(), zero and at a
 * multiple of 64. */
bool fh_stacks_start(void);
size_t fh_stacks_bytes(void);
void fh_stacks_start_in(char *memory);

/* The number of the calling thread's stack, from the caller of the frame on (observe/unwind/stack.h). */
uint32_t fh_stacks_note(const void *frame);

/* The return addresses of a number, innermost first. Returns how many. */
unsigned fh_stacks_get(uint32_t number, const uint64_t **addresses);

#endif
