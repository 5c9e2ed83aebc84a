#include "misuse/report.h"

#include "base/settings.h"
#include "base/text.h"
#include "misuse/owner.h"
#include "misuse/stacks.h"
#include "observe/unwind/modules.h"
#include "system/inspect.h"
#include "system/system.h"

#include <errno.h>

#define LONGEST ((size_t)16 * 1024)

/* ── Words ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static const char *const allocators[] = {"malloc", "operator new", "operator new[]", "operator new, one of them"};
static const char *const releasers[] = {"free", "operator delete", "operator delete[]",
                                        "operator delete, the same one"};

static unsigned family_of(const fh_misuse_report *r) {
    return r->h ? fh_checked_family_of(fh_load(&r->h->state)) & FH_SAYS_FAMILY : 0;
}

static size_t size_of(const fh_misuse_report *r) {
    return r->h ? r->h->size : 0;
}

void fh_misuse_put_size(fh_text *t, size_t n) {
    fh_text_number(t, n);
    fh_text_string(t, n == 1 ? " byte" : " bytes");
}

static void say_a_block(fh_text *t, const fh_misuse_report *r) {
    fh_text_string(t, "a block of ");
    fh_misuse_put_size(t, size_of(r));
}

/* "byte 40 of …": where r->at is in the block. */
static void say_offset(fh_text *t, const fh_misuse_report *r) {
    fh_text_string(t, "byte ");
    fh_text_number(t, (size_t)(r->at - fh_checked_block(r->h)));
    fh_text_string(t, " of ");
    say_a_block(t, r);
}

/* ── The first line ──────────────────────────────────────────────────────────────────────────────────────────────── */

static void say_mismatch(fh_text *t, const fh_misuse_report *r) {
    if (r->what == FH_MISUSE_FAMILY) {
        fh_text_string(t, "wrong function: the block came from ");
        fh_text_string(t, allocators[family_of(r)]);
        fh_text_string(t, "; release it with ");
        fh_text_string(t, releasers[family_of(r)]);
    } else if (r->what == FH_MISUSE_SIZE) {
        fh_text_string(t, "wrong size: ");
        fh_text_number(t, r->said);
        fh_text_string(t, " bytes do not belong to a block of ");
        fh_text_number(t, size_of(r));
        fh_text_string(t, "; pass the size that was asked for, and delete an object through its own type or a virtual "
                          "destructor");
    } else {
        fh_text_string(t, "wrong alignment: ");
        if (r->said) {
            fh_text_number(t, r->said);
        } else {
            fh_text_string(t, "none");
        }
        fh_text_string(t, " does not belong to a block at a multiple of ");
        fh_text_number(t, (size_t)1 << fh_checked_align_of(fh_load(&r->h->state)));
        fh_text_string(t, "; pass the alignment that was asked for");
    }
}

static void say_touched(fh_text *t, const fh_misuse_report *r) {
    switch (r->what) {
    case FH_MISUSE_DOUBLE_FREE:
        fh_text_string(t, "double free: ");
        if (r->h) {
            fh_text_string(t, "this block of ");
            fh_misuse_put_size(t, size_of(r));
            fh_text_string(t, " is free already");
        } else {
            fh_text_string(t, "no live block is left around it");
        }
        fh_text_string(t, "; look for a second owner, or set the pointer to NULL where it is released "
                          "first");
        break;
    case FH_MISUSE_USE_AFTER_FREE:
        fh_text_string(t, "use after free: ");
        if (r->h) {
            fh_text_string(t, "this block of ");
            fh_misuse_put_size(t, size_of(r));
            fh_text_string(t, " is free already");
        } else {
            fh_text_string(t, "no live block begins there any more");
        }
        fh_text_string(t, "; look for a second owner of it");
        break;
    case FH_MISUSE_WRITTEN_FREE:
        fh_text_string(t, "write after free: ");
        say_offset(t, r);
        fh_text_string(t, " was written when it was free already; look for a pointer that was kept");
        break;
    case FH_MISUSE_BEHIND:
        fh_text_string(t, "overflow: ");
        say_offset(t, r);
        fh_text_string(t, " was written; look for a loop or a copy that goes too far");
        break;
    default:
        fh_text_string(t, "underflow: bytes before ");
        if (r->h) {
            say_a_block(t, r);
        } else {
            fh_text_string(t, "the block");
        }
        fh_text_string(t, " were written; look for a negative index");
    }
}

static void say_what(fh_text *t, const fh_misuse_report *r) {
    switch (r->what) {
    case FH_MISUSE_SIZE:
    case FH_MISUSE_ALIGN:
    case FH_MISUSE_FAMILY:
        say_mismatch(t, r);
        break;
    case FH_MISUSE_INSIDE:
        fh_text_string(t, "pointer into the middle of a block: ");
        if (r->h) {
            fh_text_string(t, "the block of ");
            fh_misuse_put_size(t, size_of(r));
            fh_text_string(t, " begins at ");
            fh_text_pointer(t, fh_checked_block(r->h));
        } else {
            fh_text_string(t, "it is in memory of the heap");
        }
        fh_text_string(t, "; pass the pointer that the allocation returned");
        break;
    case FH_MISUSE_FOREIGN:
        fh_text_string(t, "foreign pointer: ");
        fh_owner_say(t, r->p, r->frame);
        fh_text_string(t, "; release it with the library that made it, once, or look for an overwritten pointer");
        break;
    default:
        say_touched(t, r);
    }
    fh_text_char(t, '\n');
}

static void say_call(fh_text *t, const fh_misuse_report *r) {
    fh_text_string(t, "freehold: ");
    if (r->call) {
        fh_text_string(t, r->call);
        fh_text_char(t, '(');
        fh_text_pointer(t, r->p);
        if (r->what == FH_MISUSE_SIZE) {
            fh_text_string(t, ", ");
            fh_text_number(t, r->said);
        }
        fh_text_string(t, "): ");
    }
}

/* ── Stacks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* "    #0 0x55… /usr/bin/x+0x1234": what addr2line -e wants. */
static void say_frame(fh_text *t, unsigned i, uintptr_t address) {
    unsigned module = fh_module_find(address - 1);
    fh_text_string(t, "    #");
    fh_text_number(t, i);
    fh_text_char(t, ' ');
    fh_text_hex(t, address);
    if (module < FH_MODULE_CODE) {
        const fh_module *m = fh_module_at(module);
        const char *path = fh_module_path(m);
        fh_text_char(t, ' ');
        fh_text_string(t, *path ? path : "the program");
        fh_text_char(t, '+');
        fh_text_hex(t, address - 1 - m->image.bias);
    }
    fh_text_char(t, '\n');
}

void fh_misuse_put_stack(fh_text *t, const char *what, const uint64_t *addresses, unsigned n) {
    fh_text_string(t, "  ");
    fh_text_string(t, what);
    fh_text_string(t, n ? " at\n" : " at a place that was not kept\n");
    for (unsigned i = 0; i < n; i++) say_frame(t, i, (uintptr_t)addresses[i]);
}

void fh_misuse_put_noted(fh_text *t, const char *what, uint32_t number) {
    const uint64_t *addresses = NULL;
    unsigned n = fh_stacks_get(number, &addresses);
    fh_misuse_put_stack(t, what, addresses, n);
}

/* ── The bytes around ────────────────────────────────────────────────────────────────────────────────────────────── */

static void say_byte(fh_text *t, unsigned char byte) {
    static const char digits[] = "0123456789abcdef";
    fh_text_char(t, digits[byte >> 4]);
    fh_text_char(t, digits[byte & 15]);
}

/* mark: the byte in brackets; NULL: none. */
static void say_bytes(fh_text *t, const char *at, const char *mark) {
    uintptr_t from = ((uintptr_t)at & ~(uintptr_t)15) - 16;
    fh_text_string(t, "  bytes around ");
    fh_text_pointer(t, at);
    fh_text_char(t, '\n');
    for (unsigned row = 0; row < 3; row++, from += 16) {
        unsigned char bytes[16];
        size_t n = fh_system_peek(bytes, from, sizeof bytes);
        if (n == 0) continue;
        fh_text_string(t, "    ");
        fh_text_hex(t, from);
        for (size_t i = 0; i < n; i++) {
            bool here = from + i == (uintptr_t)mark, was = i && from + i - 1 == (uintptr_t)mark;
            fh_text_char(t, here ? '[' : was ? ']' : ' ');
            say_byte(t, bytes[i]);
            if (here && i + 1 == n) fh_text_char(t, ']');
        }
        fh_text_char(t, '\n');
    }
}

void fh_misuse_put_bytes(fh_text *t, const char *at) {
    say_bytes(t, at, at);
}

/* ── All of it ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void say_block(fh_text *t, const fh_misuse_report *r) {
    uint64_t s = fh_load_acquire(&r->h->state);
    fh_text_string(t, "  the block: ");
    fh_misuse_put_size(t, r->h->size);
    fh_text_string(t, " at ");
    fh_text_pointer(t, fh_checked_block(r->h));
    fh_text_string(t, ", from ");
    fh_text_string(t, allocators[family_of(r)]);
    fh_text_char(t, '\n');
    fh_misuse_put_noted(t, "allocated", r->h->allocated);
    /* These are found by the call that frees it. */
    bool by_this = r->call && (r->what == FH_MISUSE_BEHIND || r->what == FH_MISUSE_BEFORE ||
                               r->what == FH_MISUSE_SIZE || r->what == FH_MISUSE_ALIGN || r->what == FH_MISUSE_FAMILY);
    if (fh_checked_kind_of(s) != FH_CHECKED_LIVE && !by_this) fh_misuse_put_noted(t, "freed", fh_checked_freed_of(s));
}

void fh_misuse_begin(fh_misuse_message *m) {
    m->mapped = fh_system_map(LONGEST, fh_system_page_size());
    m->text = m->mapped ? fh_text_in(m->mapped, LONGEST) : fh_text_in(m->few, sizeof m->few);
}

void fh_misuse_write(fh_misuse_message *m) {
    fh_system_write(2, m->text.begin, fh_text_length(&m->text));
    if (m->mapped) fh_system_unmap(m->mapped, LONGEST);
}

void fh_misuse_tell(const fh_misuse_report *said) {
    int saved = errno;
    fh_misuse_message m;
    fh_misuse_report copy = *said;
    const fh_misuse_report *r = &copy;
    bool unknown = r->what == FH_MISUSE_BEFORE && !r->at; /* what the header says is not to be believed */
    if (unknown) copy.h = NULL;
    fh_misuse_begin(&m);
    fh_text *t = &m.text;
    say_call(t, r);
    say_what(t, r);
    if (r->h) {
        say_block(t, r);
    } else if (r->what == FH_MISUSE_BEFORE) {
        fh_text_string(t, "  the block begins at ");
        fh_text_pointer(t, r->p);
        fh_text_string(t, ", and what was known of it is overwritten\n");
    }
    if (r->frame) {
        fh_misuse_put_noted(t, "found", fh_stacks_note(r->frame));
    } else if (r->found) {
        fh_text_string(t, "  ");
        fh_text_string(t, r->found);
        fh_text_char(t, '\n');
    }
    if (r->at) fh_misuse_put_bytes(t, r->at);
    if (unknown) say_bytes(t, (const char *)r->p - sizeof(fh_checked) / 2, NULL);
    fh_misuse_write(&m);
    errno = saved;
}

void fh_misuse_say(const fh_misuse_report *r) {
    fh_misuse_tell(r);
    if (FH_SETTING(on_error) == FH_ON_ERROR_ABORT) fh_system_abort();
}
