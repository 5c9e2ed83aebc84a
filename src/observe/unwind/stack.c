#include "observe/unwind/stack.h"

#include "base/bits.h"
#include "observe/unwind/modules.h"
#include "observe/unwind/table.h"
#include "system/inspect.h"
#include "system/system.h"

/* ── Reading the stack ───────────────────────────────────────────────────────────────────────────────────────────── */

/* The thread's own stack is read as memory: from where the stack pointer is to the stack's upper end it is there as long as
 * the thread runs. Which part of it was found to be readable is kept for the thread:
 *
 *     fh_stack_own_top − fh_stack_own_bytes ≤ readable < fh_stack_own_top
 *
 * The upper end is where the C libraries put the thread's control block, and for the first thread what the kernel put above
 * its frames. Any other stack (of a fibre, of a signal handler) has bounds that are not known, and a neighbour that another
 * thread may unmap: it is copied by the kernel, piece by piece. */
__thread uintptr_t fh_stack_own_top __attribute__((tls_model("initial-exec")));
__thread uint32_t fh_stack_own_bytes __attribute__((tls_model("initial-exec")));

/* Searches for it that found nothing. For a thread that usually runs fibres it is not searched again and again. */
static __thread uint32_t own_failures __attribute__((tls_model("initial-exec")));
#define FAILURES_MOST 16u

#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096) /* the smallest there is */
#define OWN_MOST (64 * MIB)
/* A longer one is copied. A library that is loaded late gets few bytes of static TLS, so the words are short. */
#define OWN_LONGEST UINT32_MAX
#define OWN_STEP (8 * MIB) /* a stack pointer so far below what is known is taken for another stack's */

/* A frame of more than that is none: it would be most of a thread's stack. */
#define FRAME_MOST (64 * MIB)

typedef struct {
    uintptr_t low, high; /* read as memory */
    uintptr_t copied;    /* address of copy[0] */
    size_t bytes;        /* of copy[] that count */
    uint64_t copy[48];
} reader;

/* Finds out whether the stack pointer is on the thread's own stack, and how much of it may be read. */
static bool find_own(uintptr_t sp) {
    uintptr_t from = sp & ~(uintptr_t)(PAGE - 1);
    if (fh_stack_own_bytes > 0) {
        uintptr_t low = fh_stack_own_top - fh_stack_own_bytes;
        if (sp >= low || low - sp > OWN_STEP || !fh_system_readable(from, low)) return false;
        if (fh_stack_own_top - from > OWN_LONGEST) return false;
        fh_stack_own_bytes = (uint32_t)(fh_stack_own_top - from);
        return true;
    }
    uintptr_t top[2] = {fh_system_thread_block(), fh_system_first_stack()};
    for (unsigned i = 0; i < 2; i++) {
        if (top[i] <= sp || top[i] - sp > OWN_MOST || !fh_system_readable(from, top[i])) continue;
        /* In this order: a signal handler that comes between finds no bytes yet. */
        fh_stack_own_top = top[i] & ~(uintptr_t)7;
        fh_stack_own_bytes = (uint32_t)(fh_stack_own_top - from);
        return true;
    }
    return false;
}

static void reader_begin(reader *r, uintptr_t sp) {
    bool own = sp - (fh_stack_own_top - fh_stack_own_bytes) < fh_stack_own_bytes;
    if (!own && own_failures < FAILURES_MOST) {
        own = find_own(sp);
        own_failures += !own;
    }
    r->low = own ? sp : 0;
    r->high = own ? fh_stack_own_top : 0;
    r->bytes = 0;
    r->copied = 0;
}

static bool copy_more(reader *r, uintptr_t at) {
    size_t page_rest = PAGE - (at & (PAGE - 1));
    r->copied = at;
    r->bytes = fh_system_peek(r->copy, at, page_rest < sizeof r->copy ? page_rest : sizeof r->copy);
    return r->bytes >= sizeof(uint64_t);
}

/* True if the word at `at` can be read as memory. Ends of stacks are multiples of 8. */
static inline bool is_own(const reader *r, uintptr_t at) {
    return (at & 7) == 0 && at - r->low < r->high - r->low;
}

/* The word at `at`, false if there is none. */
static bool read_word(reader *r, uintptr_t at, uintptr_t *word) {
    if (is_own(r, at)) {
        *word = fh_stack_word_at(at);
        return true;
    }
    if (at & 7) return false;
    if (at - r->copied >= r->bytes && !copy_more(r, at)) return false;
    *word = r->copy[(at - r->copied) / sizeof(uint64_t)];
    return true;
}

/* ── One frame to the next ───────────────────────────────────────────────────────────────────────────────────────── */

/*     pc: an address in the function, behind the call that is under way (or exact, if a signal interrupted it)
 *     sp: its stack pointer at that point; fp: its rbp */
typedef struct {
    uintptr_t pc, sp, fp;
    bool exact;
    uintptr_t fp_at; /* where fp was read; 0: not known. For trails */
} frame_state;

/* Notes a word of the stack that the walk depends on. */
static inline void note(fh_stack_trail *trail, uintptr_t at) {
    if (!trail || trail->count > FH_TRAIL_MOST) return;
    if (trail->count < FH_TRAIL_MOST) trail->at[trail->count] = at;
    trail->count++;
}

/* What nearly all frames are, in a few instructions. False, and nothing changed: it is not that simple. */
__attribute__((always_inline)) static inline bool by_plain_table(const reader *r, frame_state *f, fh_rule rule,
                                                                 fh_stack_trail *trail) {
    if (trail && rule.base_fp) note(trail, f->fp_at);
    uintptr_t cfa = (rule.base_fp ? f->fp : f->sp) + (uintptr_t)((intptr_t)rule.cfa * 8), fp = f->fp;
    if (!rule.plain || f->exact || cfa <= f->sp || !is_own(r, cfa - 8)) return false;
    if (rule.fp_from == FH_FROM_CFA) {
        uintptr_t at = cfa + (uintptr_t)((intptr_t)rule.fp * 8);
        if (!is_own(r, at)) return false;
        fp = fh_stack_word_at(at);
        if (trail) f->fp_at = at;
    }
    f->pc = fh_stack_word_at(cfa - 8);
    note(trail, cfa - 8);
    f->sp = cfa;
    f->fp = fp;
    return true;
}

static bool by_table(reader *r, frame_state *f, fh_rule rule) {
    uintptr_t base = rule.base_fp ? f->fp : f->sp, cfa = base + (uintptr_t)((intptr_t)rule.cfa * 8), fp = f->fp, pc;
    if (FH_UNLIKELY(rule.cfa_in_memory) && !read_word(r, cfa, &cfa)) return false;
    if (!read_word(r, (rule.ra_from_base ? base : cfa) + (uintptr_t)((intptr_t)rule.ra * 8), &pc)) return false;
    if (rule.fp_from == FH_FROM_CFA || rule.fp_from == FH_FROM_BASE) {
        uintptr_t from = rule.fp_from == FH_FROM_CFA ? cfa : base;
        if (!read_word(r, from + (uintptr_t)((intptr_t)rule.fp * 8), &fp)) return false;
    } else if (rule.fp_from == FH_FROM_NOWHERE) {
        fp = 0;
    }
    if (FH_UNLIKELY(rule.signal)) {
        /* The interrupted code may have been on another stack, above this one or below. */
        reader_begin(r, cfa);
    } else if (cfa <= f->sp || cfa - f->sp > FRAME_MOST) {
        return false;
    }
    *f = (frame_state){pc, cfa, fp, rule.signal, 0};
    return true;
}

/* Without a table: the frame pointer, if there is one. It is believed when it is above the stack pointer, and what is
 * above it is the address behind a call. */
static bool by_pointers(reader *r, const fh_unwind_table *table, frame_state *f) {
    uintptr_t pc, fp;
    if (f->fp < f->sp || f->fp - f->sp > FRAME_MOST) return false;
    if (!read_word(r, f->fp, &fp) || !read_word(r, f->fp + 8, &pc)) return false;
    if (pc != 0) {
        fh_rule rule = fh_unwind_known(table, pc - 1);
        if (rule.kind == FH_RULE_NONE) rule = fh_unwind_learn(pc - 1);
        if (!rule.after_call) return false;
    }
    *f = (frame_state){pc, f->fp + 16, fp, false, 0};
    return true;
}

/* ── The walk ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The rule for where the frame is. `module` is that of the frame before: only when it changes is it worth asking whether the
 * module is still the one that the rule was made for. */
static inline uint64_t rule_for(const fh_unwind_table *table, const frame_state *f, unsigned module) {
    uintptr_t address = f->exact ? f->pc : f->pc - 1;
    fh_rule rule = fh_unwind_known(table, address);
    if (FH_LIKELY(rule.kind != FH_RULE_NONE)) {
        if (FH_LIKELY(rule.module == module) || fh_module_stands(rule.module, address)) return rule.bits;
    }
    return fh_unwind_learn(address).bits;
}

/* True if the frame's return address was not left there by a call: code that makes a stack for a fibre puts the address of a
 * first function's end there. Such a frame is walked like any other, but nothing sensible needs to be behind it. */
static bool is_made_up(const frame_state *f, fh_rule rule) {
    return !f->exact && !rule.after_call && !rule.signal;
}

static bool is_last(const frame_state *f, fh_rule rule) {
    return rule.kind == FH_RULE_END || (rule.kind == FH_RULE_POINTERS && f->fp == 0);
}

/* Goes to the caller's frame. False: there is none, or no way to it. */
static bool step(reader *r, const fh_unwind_table *table, frame_state *f, fh_rule rule) {
    if (is_last(f, rule)) return false;
    return rule.kind == FH_RULE_TABLE ? by_table(r, f, rule) : by_pointers(r, table, f);
}

__attribute__((always_inline)) static inline unsigned walk_along(uintptr_t *out, unsigned most, frame_state f,
                                                                 bool *whole, fh_stack_trail *trail) {
    const fh_unwind_table *table = fh_unwind_table_get();
    unsigned n = 0, module = FH_MODULE_NONE;
    if (!table) return 0;
    reader r;
    reader_begin(&r, f.sp);
    while (f.pc != 0) {
        fh_rule rule = {.bits = rule_for(table, &f, module)};
        if (rule.kind == FH_RULE_NONE) return n;
        module = rule.module;
        /* Asked only after the first rule, because before the first walk of all no module is known. */
        if (n > 0 || module != fh_module_own()) {
            if (n == most) return n;
            out[n++] = f.exact ? f.pc + 1 : f.pc;
        }
        if (FH_LIKELY(by_plain_table(&r, &f, rule, trail))) continue;
        bool last = is_last(&f, rule) || is_made_up(&f, rule);
        /* Where it goes on otherwise, the trail is not all that it depends on. */
        if (trail && rule.kind != FH_RULE_END) trail->count = FH_TRAIL_MOST + 1;
        if (!step(&r, table, &f, rule)) {
            *whole = last;
            return n;
        }
        /* A made-up frame may be followed by an address that is none. */
        if (last && fh_module_learn(f.pc - 1) == FH_MODULE_NONE) f.pc = 0;
    }
    *whole = n > 0;
    return n;
}

__attribute__((noinline)) static unsigned walk(uintptr_t *out, unsigned most, frame_state f, bool *whole) {
    return walk_along(out, most, f, whole, NULL);
}

/* A function that asks for its frame address keeps, there and above it, its caller's rbp and the return address. */
unsigned fh_stack_walk(uintptr_t *out, unsigned most, const void *frame, bool *whole) {
    const uintptr_t *words = frame;
    frame_state f = {.pc = words[1], .sp = (uintptr_t)(words + 2), .fp = words[0]};
    *whole = false;
    return walk(out, most, f, whole);
}

unsigned fh_stack_walk_trail(uintptr_t *out, unsigned most, const void *frame, fh_stack_trail *trail) {
    const uintptr_t *words = frame;
    frame_state f = {.pc = words[1], .sp = (uintptr_t)(words + 2), .fp = words[0], .fp_at = (uintptr_t)words};
    bool whole = false;
    trail->count = 0;
    note(trail, (uintptr_t)(words + 1));
    unsigned n = walk_along(out, most, f, &whole, trail);
    if (trail->count > FH_TRAIL_MOST) trail->count = 0;
    return n;
}

size_t fh_stack_memory(void) {
    return fh_modules_memory() + sizeof(fh_unwind_table);
}
