#include "misuse/guard_touch.h"

#include "misuse/guard_report.h"
#include "misuse/stacks.h"
#include "observe/observe.h"
#include "observe/profile.h"
#include "observe/unwind/stack.h"
#include "store/guarded.h"
#include "system/system.h"

#include <string.h>

/* The frames of the handler itself come first: they end where the signal interrupted. */
#define HANDLER_FRAMES 8u
#define MOST (FH_PROFILE_FAULT_FRAMES + HANDLER_FRAMES)

/* A program may jump out of its handler and go on; it is told so often. */
#define TIMES_MOST 100u

/* The stack of the access, without the handler's frames. Where the walk finds no way to it, the instruction alone. */
static unsigned walk(const fh_touch *touch, uint64_t out[FH_PROFILE_FAULT_FRAMES], const void *frame) {
    uintptr_t frames[MOST];
    bool whole;
    unsigned n = fh_stack_walk(frames, MOST, frame, &whole), from = 0, count = 0;
    if (touch->pc) {
        while (from < n && frames[from] != touch->pc + 1) from++;
        /* A jump to a guard: its own address is no code, and its caller is behind it. */
        if (from == n) out[count++] = touch->pc + 1;
    }
    while (from < n && count < FH_PROFILE_FAULT_FRAMES) out[count++] = frames[from++];
    return count;
}

static uint64_t copy_stack(uint64_t out[FH_PROFILE_FAULT_FRAMES], uint32_t number) {
    const uint64_t *addresses = NULL;
    unsigned n = fh_stacks_get(number, &addresses);
    if (n > FH_PROFILE_FAULT_FRAMES) n = FH_PROFILE_FAULT_FRAMES;
    if (n) memcpy(out, addresses, n * sizeof *out);
    return n;
}

static const fh_profile_fault_kind kinds[] = {
    [FH_GUARD_NO_BLOCK] = FH_PROFILE_FAULT_GUARD,
    [FH_GUARD_BEFORE] = FH_PROFILE_FAULT_UNDERFLOW,
    [FH_GUARD_INSIDE] = FH_PROFILE_FAULT_USE_AFTER_FREE,
    [FH_GUARD_BEHIND] = FH_PROFILE_FAULT_OVERFLOW,
};

/* Static, because a signal's stack may be short; one thread at a time has it. */
static fh_profile_fault fault;

static void tell(const fh_touch *touch, const void *frame) {
    fh_guard_report r = {.what = FH_GUARD_TOUCHED, .p = touch->address, .access = touch->access};
    r.side = fh_guard_find(touch->address, &r.view);
    memset(&fault, 0, sizeof fault);
    fault.ns = fh_system_nanoseconds();
    fault.address = touch->address;
    fault.access = (uint64_t)touch->access;
    fault.signal = touch->signal;
    fault.kind = kinds[r.side];
    fault.thread = fh_system_thread_number();
    fault.touched_frames = walk(touch, fault.touched, frame);
    if (r.side != FH_GUARD_NO_BLOCK) {
        fault.block = r.view.block;
        fault.size = r.view.size;
        fault.allocated_frames = copy_stack(fault.allocated, r.view.made);
        fault.is_free = r.view.kind == FH_GUARD_FREED;
        if (fault.is_free) fault.freed_frames = copy_stack(fault.freed, r.view.freed);
    }
    fh_observe_fault(&fault);
    r.touched = fault.touched;
    r.touched_count = (unsigned)fault.touched_frames;
    fh_guard_say(&r);
}

bool fh_guard_touched(const fh_touch *touch) {
    static fh_word busy, times;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (!fh_in_guards((const void *)touch->address)) return false;
    /* acq_rel: `fault` is this thread's until the word is 0 again. */
    if (fh_load(&times) >= TIMES_MOST || fh_swap_acq_rel(&busy, 1)) return false;
    fh_add_relaxed(&times, 1);
    tell(touch, __builtin_frame_address(0));
    fh_store_release(&busy, 0);
    return true;
}
