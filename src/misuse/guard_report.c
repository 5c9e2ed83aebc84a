#include "misuse/guard_report.h"

#include "base/settings.h"
#include "base/text.h"
#include "misuse/report.h"
#include "misuse/stacks.h"
#include "system/system.h"

#include <errno.h>

static void say_a_block(fh_text *t, const fh_guard_report *r) {
    fh_text_string(t, "a block of ");
    fh_misuse_put_size(t, r->view.size);
}

/* "byte 40 of a block of 40 bytes", "4 bytes before a block of 40 bytes". */
static void say_beside(fh_text *t, const fh_guard_report *r, uintptr_t address) {
    if (r->side == FH_GUARD_BEFORE) {
        fh_misuse_put_size(t, r->view.block - address);
        fh_text_string(t, " before ");
    } else {
        fh_text_string(t, "byte ");
        fh_text_number(t, address - r->view.block);
        fh_text_string(t, " of ");
    }
    say_a_block(t, r);
}

static void say_advice(fh_text *t, fh_guard_side side) {
    fh_text_string(t, side == FH_GUARD_BEFORE ? "; look for a negative index"
                                              : "; look for a loop or a copy that goes too far");
}

static void say_touch(fh_text *t, const fh_guard_report *r) {
    if (r->side == FH_GUARD_NO_BLOCK) {
        fh_text_string(t, "a guard between blocks, of which nothing is known; look for an overwritten pointer");
    } else if (r->side == FH_GUARD_INSIDE) {
        fh_text_string(t, "use after free, ");
        fh_misuse_put_size(t, r->p - r->view.block);
        fh_text_string(t, " into ");
        say_a_block(t, r);
        fh_text_string(t, "; look for a pointer that was kept");
    } else {
        fh_text_string(t, r->side == FH_GUARD_BEFORE ? "underflow, " : "overflow, ");
        say_beside(t, r, r->p);
        if (r->view.kind == FH_GUARD_FREED) fh_text_string(t, " that is free already");
        say_advice(t, r->side);
    }
}

static void say_foreign(fh_text *t, const fh_guard_report *r) {
    fh_text_string(t, "foreign pointer: it is in a guard, ");
    if (r->side == FH_GUARD_NO_BLOCK) {
        fh_text_string(t, "and no block is near");
    } else if (r->side == FH_GUARD_BEFORE) {
        say_beside(t, r, r->p);
    } else {
        fh_misuse_put_size(t, r->p - (r->view.block + r->view.size));
        fh_text_string(t, " behind the end of ");
        say_a_block(t, r);
    }
    fh_text_string(t, "; look for an overwritten pointer");
}

static void say_what(fh_text *t, const fh_guard_report *r) {
    switch (r->what) {
    case FH_GUARD_DOUBLE_FREE:
        fh_text_string(t, "double free: this block of ");
        fh_misuse_put_size(t, r->view.size);
        fh_text_string(t, " is free already; look for a second owner, or set the pointer to NULL where it is released "
                          "first");
        break;
    case FH_GUARD_USED_FREE:
        fh_text_string(t, "use after free: this block of ");
        fh_misuse_put_size(t, r->view.size);
        fh_text_string(t, " is free already; look for a second owner of it");
        break;
    case FH_GUARD_WRONG_BEGIN:
        fh_text_string(t, "pointer into the middle of a block: the block of ");
        fh_misuse_put_size(t, r->view.size);
        fh_text_string(t, " begins at ");
        fh_text_hex(t, r->view.block);
        if (r->view.kind == FH_GUARD_FREED) fh_text_string(t, ", and is free already");
        fh_text_string(t, "; pass the pointer that the allocation returned");
        break;
    case FH_GUARD_FOREIGN:
        say_foreign(t, r);
        break;
    case FH_GUARD_WRITTEN_AROUND:
        fh_text_string(t, r->side == FH_GUARD_BEFORE ? "underflow: " : "overflow: ");
        say_beside(t, r, (uintptr_t)r->at);
        fh_text_string(t, r->side == FH_GUARD_BEFORE && r->view.block - (uintptr_t)r->at > 1 ? " were written"
                                                                                             : " was written");
        say_advice(t, r->side);
        break;
    default:
        say_touch(t, r);
    }
    fh_text_char(t, '\n');
}

static void say_call(fh_text *t, const fh_guard_report *r) {
    static const char *const accesses[] = {"access to ", "read of ", "write to ", "jump to "};
    fh_text_string(t, "freehold: ");
    fh_text_string(t, r->call ? r->call : accesses[r->access]);
    if (r->call) fh_text_char(t, '(');
    fh_text_hex(t, r->p);
    fh_text_string(t, r->call ? "): " : ": ");
}

static void say_block(fh_text *t, const fh_guard_report *r) {
    fh_text_string(t, "  the block: ");
    fh_misuse_put_size(t, r->view.size);
    fh_text_string(t, " at ");
    fh_text_hex(t, r->view.block);
    fh_text_string(t, ", guarded\n");
    fh_misuse_put_noted(t, "allocated", r->view.made);
    if (r->view.kind == FH_GUARD_FREED) fh_misuse_put_noted(t, "freed", r->view.freed);
}

void fh_guard_say(const fh_guard_report *r) {
    static const char *const where[] = {"touched", "read", "written", "executed"};
    int saved = errno;
    fh_misuse_message m;
    fh_misuse_begin(&m);
    fh_text *t = &m.text;
    say_call(t, r);
    say_what(t, r);
    if (r->side != FH_GUARD_NO_BLOCK) say_block(t, r);
    if (r->frame) {
        fh_misuse_put_noted(t, "found", fh_stacks_note(r->frame));
    } else {
        fh_misuse_put_stack(t, where[r->access], r->touched, r->touched_count);
    }
    if (r->at) fh_misuse_put_bytes(t, r->at);
    fh_misuse_write(&m);
    if (r->what != FH_GUARD_TOUCHED && FH_SETTING(on_error) == FH_ON_ERROR_ABORT) fh_system_abort();
    errno = saved;
}
