/* Rules by address: the compact unwind table. It holds what was asked for, not what there is: a rule is worked out of the
 * module's unwind information when an address is seen for the first time (some µs, once), and from then on found by one
 * lookup in one cache line.
 *
 *     bucket = 4 entries = one line          entry: │ check = mix(address) ^ mix(rule) │ rule │
 *
 * An entry is two words that threads write without order. A reader believes a rule only if it and the check word fit the
 * address, so half of one entry and half of another is none. And if it were believed, with a chance of 2^-64: the walker
 * trusts no rule further than to read its own stack.
 *
 * Rejected: a table of all rows of a module, sorted (docs/observe-stacks.md): it takes 14 to 23 % of the code's size, has to be
 * made as a whole in the middle of one malloc, and its binary search costs more than this. */
#ifndef FH_OBSERVE_UNWIND_TABLE_H
#define FH_OBSERVE_UNWIND_TABLE_H

#include "base/atomic.h"
#include "observe/unwind/rule.h"

#include <stddef.h>

#define FH_UNWIND_BUCKETS 8192u
#define FH_UNWIND_WAYS 4u

typedef struct {
    fh_word check, rule;
} fh_unwind_entry;

typedef struct {
    fh_unwind_entry entry[FH_UNWIND_BUCKETS][FH_UNWIND_WAYS];
} fh_unwind_table;

/* The table, made at the first call; NULL: no memory, and nothing is known. */
fh_unwind_table *fh_unwind_table_get(void);

static inline uint64_t fh_unwind_mix(uint64_t n) {
    n *= UINT64_C(0x9E3779B97F4A7C15);
    return n ^ n >> 32;
}

/* The rule for an instruction's address: of a return address, the address before it. FH_RULE_NONE: not in the table. */
static inline fh_rule fh_unwind_known(const fh_unwind_table *table, uintptr_t address) {
    uint64_t mixed = fh_unwind_mix(address);
    const fh_unwind_entry *entry = table->entry[mixed >> 40 & (FH_UNWIND_BUCKETS - 1)];
    for (unsigned i = 0; i < FH_UNWIND_WAYS; i++) {
        /* relaxed: see above. */
        fh_rule rule = {.bits = fh_load(&entry[i].rule)};
        if ((fh_load(&entry[i].check) ^ fh_unwind_mix(rule.bits)) == mixed && rule.bits != 0) return rule;
    }
    return (fh_rule){.bits = 0};
}

/* Works the rule out and enters it. FH_RULE_NONE: the address is in no module, and nothing is entered. Code that was made at
 * run time is not entered either, as it may be something else tomorrow. */
fh_rule fh_unwind_learn(uintptr_t address);

#endif
