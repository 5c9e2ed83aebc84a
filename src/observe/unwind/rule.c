#include "observe/unwind/rule.h"

#include "system/inspect.h"

#include <stddef.h>
#include <string.h>

/* The numbers of registers in these tables, on x86-64. On other CPUs the rules are not read, and walks go by frame
 * pointers, which the rules of arm64 demand of all code. */
enum { FP = 6, SP = 7, RA = 16 };

/* ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Parts of a page are never copied in part, so a copy ends where its page does. 4096 is the smallest page there is. */
#define PAGE 4096u

void fh_cursor_set(fh_cursor *c, uintptr_t begin, uintptr_t end) {
    c->at = begin;
    c->end = end;
    c->piece = 0;
    c->bytes = 0;
    c->bad = begin > end;
}

/* The next piece. False: nothing is there. */
static bool next_piece(fh_cursor *c) {
    const fh_span *lasting = &c->tables->lasting;
    c->piece = c->at;
    if (c->at >= lasting->begin && c->at < lasting->end) {
        c->from = (const uint8_t *)c->at;
        c->bytes = lasting->end - c->at;
        return true;
    }
    size_t want = PAGE - (c->at & (PAGE - 1));
    if (want > sizeof c->copy) want = sizeof c->copy;
    c->from = c->copy;
    c->bytes = fh_system_peek(c->copy, c->at, want);
    return c->bytes > 0;
}

static uint8_t next_byte(fh_cursor *c) {
    c->bad = c->bad || c->at >= c->end || (c->at - c->piece >= c->bytes && !next_piece(c));
    return c->bad ? 0 : c->from[c->at++ - c->piece];
}

uint64_t fh_cursor_number(fh_cursor *c, unsigned bytes) {
    uint64_t n = 0;
    for (unsigned i = 0; i < bytes; i++) n |= (uint64_t)next_byte(c) << 8 * i;
    return n;
}

static int64_t signed_number(fh_cursor *c, unsigned bytes) {
    uint64_t n = fh_cursor_number(c, bytes);
    if (bytes == 2) return (int16_t)n;
    if (bytes == 4) return (int32_t)n;
    return bytes == 1 ? (int8_t)n : (int64_t)n;
}

/* Numbers of seven bits a byte. At most ten bytes hold 64 bits. */
static uint64_t leb(fh_cursor *c, unsigned *shift, uint8_t *last) {
    uint64_t n = 0;
    *shift = 0;
    do {
        *last = next_byte(c);
        if (*shift < 64) n |= (uint64_t)(*last & 0x7F) << *shift;
        *shift += 7;
    } while ((*last & 0x80) && *shift < 70);
    return n;
}

uint64_t fh_cursor_uleb(fh_cursor *c) {
    unsigned shift;
    uint8_t last;
    return leb(c, &shift, &last);
}

int64_t fh_cursor_sleb(fh_cursor *c) {
    unsigned shift;
    uint8_t last;
    uint64_t n = leb(c, &shift, &last);
    if (shift < 64 && (last & 0x40)) n |= ~UINT64_C(0) << shift;
    return (int64_t)n;
}

/* The lower half of the encoding says how it is stored, the upper one what it is relative to. */
uintptr_t fh_cursor_address(fh_cursor *c, unsigned encoding, uintptr_t data) {
    static const uint8_t unsigned_bytes[5] = {8, 0, 2, 4, 8}, signed_bytes[5] = {8, 0, 2, 4, 8};
    uintptr_t here = c->at;
    unsigned form = encoding & 7;
    uint64_t n;
    if (encoding == FH_ENCODING_OMITTED) return 0;
    if (form > 4) {
        c->bad = true;
        return 0;
    }
    if (form == 1) {
        n = encoding & 8 ? (uint64_t)fh_cursor_sleb(c) : fh_cursor_uleb(c);
    } else {
        n = encoding & 8 ? (uint64_t)signed_number(c, signed_bytes[form]) : fh_cursor_number(c, unsigned_bytes[form]);
    }
    switch (encoding >> 4) {
    case 0:
        return n;
    case 1:
        return here + n;
    case 3:
        return data + n;
    default: /* relative to the text or the function, or by a pointer in memory: not used for what is read here */
        c->bad = true;
        return 0;
    }
}

/* ── Entries ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

bool fh_entry_read(fh_cursor *c, fh_entry_head *head) {
    uint64_t length = fh_cursor_number(c, 4);
    *head = (fh_entry_head){0};
    if (length == 0xFFFFFFFF) length = fh_cursor_number(c, 8);
    head->last = length == 0;
    if (c->bad || head->last) return !c->bad;
    if (length > c->end - c->at) return false;
    head->next = c->at + length;
    uintptr_t field = c->at;
    uint64_t distance = fh_cursor_number(c, 4);
    if (distance > field) return false;
    head->common = distance ? field - distance : 0;
    c->end = head->next;
    return !c->bad;
}

/* What a CIE says for all of its functions. */
typedef struct {
    uint64_t code_unit;
    int64_t data_unit;
    unsigned encoding;
    bool augmented; /* its FDEs have a piece of that name, with its length in front */
    bool signal;
    uintptr_t begin, end; /* its instructions */
} common;

static void read_augmentation(fh_cursor *c, common *k, const char *letters) {
    uint64_t bytes = fh_cursor_uleb(c);
    uintptr_t end = bytes > c->end - c->at ? c->end : c->at + bytes;
    for (const char *letter = letters + 1; *letter && !c->bad; letter++) {
        if (*letter == 'R') {
            k->encoding = (unsigned)fh_cursor_number(c, 1);
        } else if (*letter == 'L') {
            (void)fh_cursor_number(c, 1);
        } else if (*letter == 'P') {
            unsigned personality = (unsigned)fh_cursor_number(c, 1);
            /* Only to be stepped over: what it is relative to, or that it is a pointer to a pointer, does not matter. */
            (void)fh_cursor_address(c, personality & 0x0F, 0);
        } else if (*letter == 'S') {
            k->signal = true;
        } else {
            break;
        }
    }
    c->at = end;
}

static bool read_common(fh_cursor *c, uintptr_t at, common *k) {
    fh_entry_head head;
    char letters[8];
    fh_cursor_set(c, at, c->tables->limit);
    if (!fh_entry_read(c, &head) || head.last || head.common) return false;
    unsigned version = (unsigned)fh_cursor_number(c, 1), n = 0;
    while (n < sizeof letters - 1 && (letters[n] = (char)fh_cursor_number(c, 1)) != 0) n++;
    if (letters[n] != 0 || (letters[0] != 0 && letters[0] != 'z')) return false;
    if (version == 4) (void)fh_cursor_number(c, 2); /* sizes of an address and of a segment's number */
    *k = (common){.augmented = letters[0] == 'z'};
    k->code_unit = fh_cursor_uleb(c);
    k->data_unit = fh_cursor_sleb(c);
    uint64_t ra = version == 1 ? fh_cursor_number(c, 1) : fh_cursor_uleb(c);
    if (k->augmented) read_augmentation(c, k, letters);
    k->begin = c->at;
    k->end = c->end;
    return !c->bad && ra == RA && (version == 1 || version == 3 || version == 4);
}

/* Reads an FDE up to its instructions. */
static bool read_entry(fh_cursor *c, uintptr_t entry, common *k, uintptr_t *begin, uintptr_t *end) {
    fh_entry_head head;
    fh_cursor_set(c, entry, c->tables->limit);
    if (!fh_entry_read(c, &head) || head.last || !head.common) return false;
    uintptr_t at = c->at;
    if (!read_common(c, head.common, k)) return false;
    fh_cursor_set(c, at, head.next);
    *begin = fh_cursor_address(c, k->encoding, 0);
    *end = *begin + fh_cursor_address(c, k->encoding & 0x0F, 0);
    if (k->augmented) {
        uint64_t bytes = fh_cursor_uleb(c);
        if (bytes > c->end - c->at) return false;
        c->at += bytes;
    }
    return !c->bad && *begin < *end;
}

/* Neighbours usually have their CIE in common, so the last one's encoding is kept. */
bool fh_entry_begin(fh_cursor *c, const fh_entry_head *head, fh_entry_memo *memo, uintptr_t *begin) {
    if (memo->common != head->common) {
        fh_cursor other;
        common k;
        fh_cursor_open(&other, c->tables);
        if (!read_common(&other, head->common, &k)) return false;
        *memo = (fh_entry_memo){head->common, k.encoding};
    }
    *begin = fh_cursor_address(c, memo->encoding, 0);
    return !c->bad;
}

/* ── Expressions ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A value on the little stack machine: a number, rsp or rbp plus a number, or what is in memory there. */
typedef struct {
    enum { NUMBER, BASED, LOADED } form;
    unsigned base;
    uint64_t n;
} value;

typedef struct {
    value of[8];
    unsigned depth;
    bool bad;
} machine;

static void push(machine *m, value v) {
    if (m->depth == 8) {
        m->bad = true;
    } else {
        m->of[m->depth++] = v;
    }
}

static value pop(machine *m) {
    if (m->depth == 0) {
        m->bad = true;
        return (value){0};
    }
    return m->of[--m->depth];
}

static bool compare(unsigned op, int64_t a, int64_t b) {
    switch (op) {
    case 0x29:
        return a == b;
    case 0x2A:
        return a >= b;
    case 0x2B:
        return a > b;
    case 0x2C:
        return a <= b;
    case 0x2D:
        return a < b;
    default:
        return a != b;
    }
}

/* Operations on two values. Of these, only a sum or a difference may have a register in it. */
static void combine(machine *m, unsigned op) {
    value b = pop(m), a = pop(m);
    if (op == 0x22 && a.form == NUMBER && b.form == BASED) {
        value swap = a;
        a = b;
        b = swap;
    }
    bool sum = op == 0x22 || op == 0x1C;
    if (b.form != NUMBER || (a.form != NUMBER && !(sum && a.form == BASED))) m->bad = true;
    switch (op) {
    case 0x1A:
        a.n &= b.n;
        break;
    case 0x1C:
        a.n -= b.n;
        break;
    case 0x21:
        a.n |= b.n;
        break;
    case 0x22:
        a.n += b.n;
        break;
    case 0x24:
        a.n = b.n < 64 ? a.n << b.n : 0;
        break;
    case 0x25:
        a.n = b.n < 64 ? a.n >> b.n : 0;
        break;
    default:
        a.n = compare(op, (int64_t)a.n, (int64_t)b.n);
    }
    push(m, a);
}

static void load(machine *m) {
    value a = pop(m);
    if (a.form != BASED) m->bad = true;
    a.form = LOADED;
    push(m, a);
}

static void operate(machine *m, fh_cursor *c, unsigned op, uintptr_t address) {
    if (op >= 0x30 && op <= 0x4F) {
        push(m, (value){.n = op - 0x30});
    } else if (op >= 0x70 && op <= 0x8F) {
        unsigned base = op - 0x70;
        uint64_t n = (uint64_t)fh_cursor_sleb(c);
        if (base == RA) {
            push(m, (value){.n = address + n});
        } else {
            if (base != SP && base != FP) m->bad = true;
            push(m, (value){BASED, base, n});
        }
    } else if (op == 0x06) {
        load(m);
    } else if (op >= 0x08 && op <= 0x0F) {
        unsigned bytes = 1u << (op - 0x08) / 2;
        push(m, (value){.n = op & 1 ? (uint64_t)signed_number(c, bytes) : fh_cursor_number(c, bytes)});
    } else if (op == 0x10 || op == 0x11) {
        push(m, (value){.n = op == 0x10 ? fh_cursor_uleb(c) : (uint64_t)fh_cursor_sleb(c)});
    } else if (op == 0x23) {
        push(m, (value){.n = fh_cursor_uleb(c)});
        combine(m, 0x22);
    } else if (op == 0x1A || op == 0x1C || op == 0x21 || op == 0x22 || op == 0x24 || op == 0x25 ||
               (op >= 0x29 && op <= 0x2E)) {
        combine(m, op);
    } else if (op != 0x96) {
        m->bad = true;
    }
}

/* Evaluates the expression at the cursor (its length in front) and steps over it, also when it is too difficult. */
static bool evaluate(fh_cursor *c, uintptr_t address, value *result) {
    machine m = {.depth = 0};
    uint64_t bytes = fh_cursor_uleb(c);
    if (bytes > c->end - c->at) c->bad = true;
    uintptr_t end = c->at + bytes;
    while (!c->bad && !m.bad && c->at < end) operate(&m, c, (unsigned)fh_cursor_number(c, 1), address);
    *result = pop(&m);
    if (!c->bad) c->at = end;
    return !c->bad && !m.bad;
}

/* ── Instructions ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Where a register of the caller's is. */
typedef struct {
    enum { SAME, FROM_CFA, FROM_BASE, UNDEFINED, DIFFICULT } form;
    unsigned base;
    int64_t offset;
} place;

/* An offset in the table's own unit. Damaged ones may be of any size, hence without sign, where too much just wraps. */
static int64_t scaled(uint64_t n, const common *k) {
    return (int64_t)(n * (uint64_t)k->data_unit);
}

typedef struct {
    value cfa;
    bool difficult; /* the CFA by an expression that no word holds */
    place ra, fp;
} row;

typedef struct {
    row now, first;
    row kept[6];
    unsigned depth;
    uint64_t location;
} program;

static void set_place(program *p, uint64_t reg, place where) {
    if (reg == RA) p->now.ra = where;
    if (reg == FP) p->now.fp = where;
}

static void restore(program *p, uint64_t reg) {
    if (reg == RA) p->now.ra = p->first.ra;
    if (reg == FP) p->now.fp = p->first.fp;
}

static void by_expression(program *p, fh_cursor *c, uintptr_t address) {
    uint64_t reg = fh_cursor_uleb(c);
    value v;
    bool known = evaluate(c, address, &v) && v.form == BASED;
    set_place(p, reg, known ? (place){FROM_BASE, v.base, (int64_t)v.n} : (place){.form = DIFFICULT});
}

static void define_cfa(program *p, uint64_t reg, uint64_t offset) {
    p->now.cfa = (value){BASED, (unsigned)reg, offset};
    p->now.difficult = reg != SP && reg != FP;
}

/* The instructions that speak of the CFA. False: it is none of them. */
static bool about_cfa(program *p, fh_cursor *c, unsigned op, const common *k, uintptr_t address) {
    uint64_t reg;
    switch (op) {
    case 0x0C:
        reg = fh_cursor_uleb(c);
        define_cfa(p, reg, fh_cursor_uleb(c));
        return true;
    case 0x12:
        reg = fh_cursor_uleb(c);
        define_cfa(p, reg, (uint64_t)scaled((uint64_t)fh_cursor_sleb(c), k));
        return true;
    case 0x0D:
        define_cfa(p, fh_cursor_uleb(c), p->now.cfa.n);
        return true;
    case 0x0E:
        p->now.cfa.n = fh_cursor_uleb(c);
        return true;
    case 0x13:
        p->now.cfa.n = (uint64_t)scaled((uint64_t)fh_cursor_sleb(c), k);
        return true;
    case 0x0F:
        p->now.difficult = !evaluate(c, address, &p->now.cfa) || p->now.cfa.form == NUMBER;
        return true;
    default:
        return false;
    }
}

/* The instructions that say where a register is kept. False: it is none of them. */
static bool about_register(program *p, fh_cursor *c, unsigned op, const common *k, uintptr_t address) {
    uint64_t reg;
    switch (op) {
    case 0x05:
        reg = fh_cursor_uleb(c);
        set_place(p, reg, (place){FROM_CFA, 0, scaled(fh_cursor_uleb(c), k)});
        return true;
    case 0x11:
        reg = fh_cursor_uleb(c);
        set_place(p, reg, (place){FROM_CFA, 0, scaled((uint64_t)fh_cursor_sleb(c), k)});
        return true;
    case 0x06:
        restore(p, fh_cursor_uleb(c));
        return true;
    case 0x07:
        set_place(p, fh_cursor_uleb(c), (place){.form = UNDEFINED});
        return true;
    case 0x08:
        set_place(p, fh_cursor_uleb(c), (place){.form = SAME});
        return true;
    case 0x09: /* in another register */
    case 0x14: /* the CFA plus something, itself */
    case 0x15:
        set_place(p, fh_cursor_uleb(c), (place){.form = DIFFICULT});
        (void)fh_cursor_uleb(c);
        return true;
    case 0x10:
        by_expression(p, c, address);
        return true;
    case 0x16: {
        value ignored;
        set_place(p, fh_cursor_uleb(c), (place){.form = DIFFICULT});
        (void)evaluate(c, address, &ignored);
        return true;
    }
    default:
        return false;
    }
}

/* The rest: where the next row begins, and rows that are kept for later. False: unknown, and so is all that follows. */
static bool about_rows(program *p, fh_cursor *c, unsigned op, const common *k) {
    switch (op) {
    case 0x00:
        return true;
    case 0x01:
        p->location = fh_cursor_address(c, k->encoding, 0);
        return true;
    case 0x02:
    case 0x03:
    case 0x04:
        p->location += fh_cursor_number(c, 1u << (op - 2)) * k->code_unit;
        return true;
    case 0x0A:
        if (p->depth == sizeof p->kept / sizeof p->kept[0]) return false;
        p->kept[p->depth++] = p->now;
        return true;
    case 0x0B:
        if (p->depth == 0) return false;
        p->now = p->kept[--p->depth];
        return true;
    case 0x2E: /* bytes of arguments on the stack: for who throws, not for who looks */
        (void)fh_cursor_uleb(c);
        return true;
    default:
        return false;
    }
}

/* Runs the instructions at the cursor until they speak of addresses behind `address`. Each takes at least one byte, so an
 * FDE of n bytes ends after n steps; a damaged one that claims to be long is cut. */
#define MOST_STEPS 20000u

static bool run(program *p, fh_cursor *c, const common *k, uintptr_t address) {
    for (unsigned step = 0; c->at < c->end && step < MOST_STEPS; step++) {
        unsigned op = (unsigned)fh_cursor_number(c, 1);
        bool known = true;
        if (op >> 6 == 1) {
            p->location += (op & 0x3F) * k->code_unit;
        } else if (op >> 6 == 2) {
            set_place(p, op & 0x3F, (place){FROM_CFA, 0, scaled(fh_cursor_uleb(c), k)});
        } else if (op >> 6 == 3) {
            restore(p, op & 0x3F);
        } else {
            known = about_cfa(p, c, op, k, address) || about_register(p, c, op, k, address) || about_rows(p, c, op, k);
        }
        if (!known || c->bad) return false;
        if (p->location > address) {
            /* A row that begins behind the address; what was said before it stands. All row-beginning instructions come
             * before what they announce. */
            return true;
        }
    }
    return c->at >= c->end;
}

/* ── The word ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool in_words(int64_t bytes, unsigned bits, int64_t *words) {
    *words = bytes / 8;
    int64_t most = INT64_C(1) << (bits - 1);
    return bytes % 8 == 0 && *words >= -most && *words < most;
}

/* False if the row needs more than the word has room for. */
static bool pack(const row *r, fh_rule *rule) {
    int64_t cfa, ra, fp = 0;
    rule->kind = FH_RULE_TABLE;
    rule->base_fp = r->cfa.base == FP;
    rule->cfa_in_memory = r->cfa.form == LOADED;
    rule->ra_from_base = r->ra.form == FROM_BASE;
    if (r->difficult || !in_words((int64_t)r->cfa.n, 20, &cfa) || !in_words(r->ra.offset, 8, &ra)) return false;
    if (r->ra.form != FROM_CFA && !(r->ra.form == FROM_BASE && r->ra.base == r->cfa.base)) return false;
    switch (r->fp.form) {
    case SAME:
        rule->fp_from = FH_FROM_SAME;
        break;
    case FROM_CFA:
        rule->fp_from = FH_FROM_CFA;
        break;
    case FROM_BASE:
        rule->fp_from = FH_FROM_BASE;
        if (r->fp.base != r->cfa.base) return false;
        break;
    default:
        rule->fp_from = FH_FROM_NOWHERE;
    }
    if ((r->fp.form == FROM_CFA || r->fp.form == FROM_BASE) && !in_words(r->fp.offset, 10, &fp)) return false;
    rule->cfa = cfa;
    rule->ra = ra;
    rule->fp = fp;
    return true;
}

fh_rule fh_rule_at(uintptr_t entry, const fh_tables *tables, uintptr_t address) {
    fh_rule none = {.bits = 0}, pointers = {.kind = FH_RULE_POINTERS}, rule = {.bits = 0};
    fh_cursor c;
    common k;
    uintptr_t begin, end;
    fh_cursor_open(&c, tables);
    if (!read_entry(&c, entry, &k, &begin, &end) || address < begin || address >= end) return none;
    uintptr_t at = c.at, stop = c.end;
    program p = {.now = {.ra = {.form = DIFFICULT}}, .location = begin};
    p.now.difficult = true;
    fh_cursor_set(&c, k.begin, k.end);
    /* What the functions have in common stands from the first instruction on. */
    if (!run(&p, &c, &k, UINTPTR_MAX)) return pointers;
    p.first = p.now;
    p.location = begin;
    fh_cursor_set(&c, at, stop);
    if (!run(&p, &c, &k, address)) return pointers;
    if (p.now.ra.form == UNDEFINED) {
        rule.kind = FH_RULE_END;
        return rule;
    }
    rule.signal = k.signal;
    return pack(&p.now, &rule) ? rule : pointers;
}
