#include "observe/unwind/table.h"

#include "observe/unwind/modules.h"
#include "system/system.h"

#include <string.h>

_Static_assert(sizeof(fh_unwind_entry[FH_UNWIND_WAYS]) == FH_CACHE_LINE, "a bucket is a line");

static fh_word table_address;

fh_unwind_table *fh_unwind_table_get(void) {
    /* acquire: the zeroes of a mapping that another thread made. */
    uint64_t known = fh_load_acquire(&table_address);
    if (known) return (fh_unwind_table *)(uintptr_t)known;
    fh_unwind_table *table = fh_system_map(sizeof *table, FH_CACHE_LINE);
    if (!table || fh_cas_acq_rel(&table_address, &known, (uintptr_t)table)) return table;
    fh_system_unmap(table, sizeof *table);
    return (fh_unwind_table *)(uintptr_t)known;
}

/* The address's own entry, if its module has changed; else an empty one of the bucket; else one by chance: which one goes does
 * not matter much, and uses are not counted. */
static void enter(uintptr_t address, fh_rule rule) {
    fh_unwind_table *table = fh_unwind_table_get();
    if (!table) return;
    uint64_t mixed = fh_unwind_mix(address);
    fh_unwind_entry *bucket = table->entry[mixed >> 40 & (FH_UNWIND_BUCKETS - 1)];
    unsigned way = (unsigned)mixed % FH_UNWIND_WAYS;
    for (unsigned i = FH_UNWIND_WAYS; i-- > 0;) {
        if (fh_load(&bucket[i].rule) == 0) way = i;
    }
    for (unsigned i = 0; i < FH_UNWIND_WAYS; i++) {
        if ((fh_load(&bucket[i].check) ^ fh_unwind_mix(fh_load(&bucket[i].rule))) == mixed) way = i;
    }
    /* relaxed: a reader checks that the two words belong together. */
    fh_store(&bucket[way].check, mixed ^ fh_unwind_mix(rule.bits));
    fh_store(&bucket[way].rule, rule.bits);
}

/* ── The code itself ─────────────────────────────────────────────────────────────────────────────────────────────── */

#define BEFORE 8u

/* True if the bytes that end at code[BEFORE] may be a call: by a distance, or through a register or memory, whose forms have
 * 2, 3, 4, 6 or 7 bytes behind a prefix. */
static bool ends_with_call(const uint8_t *code) {
    static const uint8_t lengths[] = {2, 3, 4, 6, 7};
    const uint8_t *end = code + BEFORE;
    if (end[-5] == 0xE8) return true;
    for (unsigned i = 0; i < sizeof lengths; i++) {
        const uint8_t *start = end - lengths[i];
        if (start[0] == 0xFF && (start[1] >> 3 & 7) == 2) return true;
    }
    return false;
}

/* The two instructions that a signal handler returns to: the call of rt_sigreturn. glibc has unwind information for them,
 * musl has none. */
static bool is_signal_return(const uint8_t *code) {
    static const uint8_t long_form[] = {0x48, 0xC7, 0xC0, 0x0F, 0, 0, 0, 0x0F, 0x05};
    static const uint8_t short_form[] = {0xB8, 0x0F, 0, 0, 0, 0x0F, 0x05};
    return memcmp(code, long_form, sizeof long_form) == 0 || memcmp(code, short_form, sizeof short_form) == 0;
}

/* The kernel's record is at the stack pointer: a head of 40 bytes, then the registers in their fixed order. */
static fh_rule signal_rule(void) {
    return (fh_rule){.kind = FH_RULE_TABLE,
                     .signal = 1,
                     .cfa_in_memory = 1,
                     .ra_from_base = 1,
                     .fp_from = FH_FROM_BASE,
                     .cfa = 160 / 8,
                     .ra = 168 / 8,
                     .fp = 120 / 8};
}

/* ── Learning ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static fh_rule by_module(const fh_module *m, uintptr_t address) {
    /* acquire: what the index holds. */
    const fh_unwind_index *index = (const fh_unwind_index *)(uintptr_t)fh_load_acquire(&m->index);
    uintptr_t entry = 0;
    fh_tables tables = {m->image.limit, fh_module_lasting(m, m->image.frames_index)};
    if (m->image.frames_index) entry = fh_unwind_by_header(m->image.frames_index, &tables, address);
    if (!entry && index) entry = fh_unwind_by_index(index, address);
    fh_rule rule = {.bits = 0};
    if (entry >= m->image.start && entry < m->image.limit) rule = fh_rule_at(entry, &tables, address);
    return rule;
}

static bool read_code(unsigned number, uintptr_t from, uint8_t *to, size_t n) {
    fh_span lasting = number == FH_MODULE_CODE ? (fh_span){0, 0} : fh_module_lasting(fh_module_at(number), from);
    if (lasting.end < from + n) return fh_system_peek(to, from, n) == n;
    memcpy(to, (const void *)from, n);
    return true;
}

fh_rule fh_unwind_learn(uintptr_t address) {
    unsigned number = fh_module_learn(address);
    if (number == FH_MODULE_NONE) return (fh_rule){.bits = 0};
    fh_rule rule = {.kind = FH_RULE_POINTERS};
    uint8_t code[BEFORE + 9] = {0};
    /* What is around the return address, address + 1. */
    bool readable = read_code(number, address + 1 - BEFORE, code, sizeof code);
    if (number != FH_MODULE_CODE) {
        fh_rule found = by_module(fh_module_at(number), address);
        if (found.kind != FH_RULE_NONE) rule = found;
        if (found.kind == FH_RULE_NONE && readable && is_signal_return(code + BEFORE)) rule = signal_rule();
    }
    rule.after_call = readable && ends_with_call(code);
    rule.module = number;
    rule.plain = rule.kind == FH_RULE_TABLE && rule.after_call && !rule.signal && !rule.cfa_in_memory &&
                 !rule.ra_from_base && rule.ra == -1 && (rule.fp_from == FH_FROM_SAME || rule.fp_from == FH_FROM_CFA);
    if (number != FH_MODULE_CODE) enter(address, rule);
    return rule;
}
