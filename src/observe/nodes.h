/* The tree of stacks, each path kept once: a node is (caller's node, return address), found again through an index, so
 * that ten thousand samples of one call site cost one path. Thread-safety: any thread. Progress: lock-free. */
#ifndef FH_OBSERVE_NODES_H
#define FH_OBSERVE_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The node of a stack: return addresses, innermost first. *lost: there was no room, and it is the root (0). */
uint32_t fh_nodes_of(const uintptr_t *stack, unsigned depth, bool whole, bool *lost);

/* The child of a fork has a profile file of its own: forgets all numbers. No other thread may use the table. */
void fh_nodes_clear(void);

size_t fh_nodes_bytes(void); /* of private memory */

#endif
