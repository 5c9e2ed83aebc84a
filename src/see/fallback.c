/* What the observer calls and this build may not have: a walk by frame pointers alone, no modules, no scan. Weak, so that
 * the real ones take their place where they are linked. */
#include "see/modules.h"
#include "see/reachable.h"
#include "see/stack.h"

__attribute__((weak)) void fh_modules_note(void) {
}

__attribute__((weak)) void fh_reachable_poll(void) {
}

__attribute__((weak)) size_t fh_stack_memory(void) {
    return 0;
}

/* A frame is trusted if it lies a little above the one before, in steps of 8 bytes. */
__attribute__((weak)) unsigned fh_stack_walk(uintptr_t *out, unsigned most, const void *frame, bool *whole) {
    const uintptr_t *at = frame;
    unsigned n = 0;
    while (n < most && at[1] > 4096) {
        out[n++] = at[1];
        uintptr_t next = at[0];
        if (next <= (uintptr_t)at || next - (uintptr_t)at > 65536 || next % 8) break;
        at = (const uintptr_t *)next; // NOLINT(performance-no-int-to-ptr)
    }
    *whole = false;
    return n;
}
