/* Option guard=N: about one allocation in N has pages to itself, and what is around them faults. So a program in production
 * finds overruns and uses after free by itself, at a price that nobody notices.
 *
 *     malloc ─▶ fh_alloc_slow ─▶ the draw is over (observe/) ─▶ fh_hook_guard ─▶ a slot, its pages opened
 *     free ──▶ fh_release_slow ─▶ not in the window ─▶ fh_hook_guard_free ─▶ its pages closed; the slot waits
 *     a touch ─▶ SIGSEGV ─▶ guard_touch.c: what, where, three stacks ─▶ profile file, stderr ─▶ the program's own handler
 *
 * The region is one reservation, behind the tables of slots and stacks:
 *
 *     ┌───────┬──────────── 64 KiB ────────────┬───────┬──────────── 64 KiB ────────────┬───────┬ ─ ─
 *     │ guard │ slot 0: left-aligned block │ … │ guard │ … │ right-aligned block :slot 1 │ guard │
 *     └───────┴────────────────────────────────┴───────┴────────────────────────────────┴───────┴ ─ ─
 *
 * Of a slot only the pages that the block is in are open; the rest of it is guard too. A block begins where its slot begins,
 * or ends where it ends, by turns. It ends at a multiple of its alignment, so up to 15 bytes may be between it and the guard.
 * Those, and the rest of its pages, are filled, and looked at when it is freed.
 *
 * The slots' shared words are in guard_slots.h. Nothing here allocates from the heap or takes a lock. errno is kept. */
#ifndef FH_MISUSE_GUARD_H
#define FH_MISUSE_GUARD_H

#include <stdbool.h>

/* The largest N: what a thread counts down has 63 bits (observe/observe.c). */
#define FH_GUARD_SELDOMEST ((size_t)1 << 20)

/* Follows the option. False, with a line on stderr: there is no memory for it. In a checked program it does nothing, because
 * option check finds more. Any thread. */
bool fh_guard_configure(void);

#endif
