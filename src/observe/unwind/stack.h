/* The calling thread's stack as a list of return addresses, for the sampler: no lock, no memory of the heap, no signal, no
 * ptrace, and never a fault, whatever is in the registers and on the stack. docs/observe-stacks.md has the whole story.
 *
 *     address ──▶ rule (table.h: "the caller's stack pointer is rsp + 48, its rbp is 16 below") ──▶ next address
 *
 * The rules come from the modules' own unwind information and are kept by return address, so that a frame costs a lookup in
 * a hash table. Code without such information (made at run time) is walked by its frame pointers. */
#ifndef FH_OBSERVE_UNWIND_STACK_H
#define FH_OBSERVE_UNWIND_STACK_H

#include "base/atomic.h"
#include "base/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes up to `most` return addresses to out[], innermost first, and returns how many. `frame` is what
 * __builtin_frame_address(0) says in the function of ours from whose caller on the stack is wanted, best the one that the
 * program called. Further frames of this library at the inner end are left out, but not where it is linked into the program
 * itself: there, what to leave out is known by names only, hence by the tool.
 *
 * Of a frame that a signal interrupted, out[] has the interrupted instruction's address + 1, so that address − 1 names the
 * right line for all.
 *
 * *whole: the walk arrived at the thread's beginning. It is false when there were more frames than `most`, or no way on.
 *
 * Any thread, any time, also in a signal handler. errno is kept. Takes about 1 KiB of stack; a module or an address that is
 * new costs some µs (where it can be unloaded some 20 and system calls, the list of mappings at most 1 % of the time), one that is
 * known nothing of that. */
unsigned fh_stack_walk(uintptr_t *out, unsigned most, const void *frame, bool *whole);

/* The words of the stack that a walk has read, by address. A walk from the same frame, with the same words there, has the same
 * answer: so who keeps both need not walk again. */
#define FH_TRAIL_MOST 30u
typedef struct {
    unsigned count; /* 0: this walk depends on more than that */
    uintptr_t at[FH_TRAIL_MOST];
} fh_stack_trail;

/* fh_stack_walk, with its trail. */
unsigned fh_stack_walk_trail(uintptr_t *out, unsigned most, const void *frame, fh_stack_trail *trail);

/* One of them, as who keeps it has it: bytes from the frame to it, and the word. */
typedef struct {
    fh_word up, word;
} fh_stack_word;

/* The calling thread's own stack, as far as it is known to be readable: own_top − own_bytes ≤ readable < own_top (stack.c). */
extern __thread uintptr_t fh_stack_own_top __attribute__((tls_model("initial-exec"))) FH_HIDDEN;
extern __thread uint32_t fh_stack_own_bytes __attribute__((tls_model("initial-exec"))) FH_HIDDEN;

/* Not seen by sanitizers: a walk reads other functions' frames. */
__attribute__((no_sanitize("address", "thread"))) static inline uintptr_t fh_stack_word_at(uintptr_t at) {
    /* Not NULL: the range that is known begins at a stack pointer. */
    return *(const volatile uintptr_t *)at; // NOLINT(clang-analyzer-core.NullDereference)
}

/* True if each of these n places is on the calling thread's own stack, above the frame, and has that word. They may change
 * meanwhile: whatever they are, nothing but that stack is read. The loads are acquire. Cost: ten instructions, and nine for
 * each. */
static inline bool fh_stack_same(const void *frame, const fh_stack_word *words, size_t n) {
    const uintptr_t at = (uintptr_t)frame, top = fh_stack_own_top, bytes = top - at;
    if (FH_UNLIKELY(bytes - 1 >= fh_stack_own_bytes)) return false;
    for (const fh_stack_word *end = words + n; words < end; words++) {
        uint64_t up = fh_load_acquire(&words->up);
        if (FH_UNLIKELY(up >= bytes || fh_stack_word_at(at + up) != fh_load_acquire(&words->word))) return false;
    }
    return true;
}

/* Bytes of memory that the walker has taken for itself. */
size_t fh_stack_memory(void);

#endif
