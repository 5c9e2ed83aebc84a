/* How to get from a frame to its caller's, in one word, and how to find that out: the interpreter of a module's unwind
 * information (the .eh_frame section, in the format of DWARF and of the Linux Standard Base).
 *
 * Compilers describe for each instruction where the caller's registers are. Of all of it a walk needs three: the caller's
 * stack pointer (the CFA, "canonical frame address"), its return address and its rbp.
 *
 *     higher   │ caller's frame           │
 *              ├──────────────────────────┤ ◀─ CFA = rsp + k  or  rbp + k
 *              │ return address           │    at CFA − 8
 *              │ rbp of the caller        │    at CFA − m, if this function uses rbp
 *              │ locals                   │
 *     lower    └──────────────────────────┘ ◀─ rsp
 *
 * The rare rest is in the word too: a CFA that is in memory (functions that align their stack again: [rbp − 8]), the frame of
 * a signal handler (everything in a record on the stack), rules by expressions (PLT entries). */
#ifndef FH_OBSERVE_UNWIND_RULE_H
#define FH_OBSERVE_UNWIND_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    FH_RULE_NONE,     /* nothing is known about the address */
    FH_RULE_TABLE,    /* the fields below */
    FH_RULE_POINTERS, /* no unwind information: by the frame pointer, if it is one */
    FH_RULE_END       /* the thread's first function */
} fh_rule_kind;

typedef enum { FH_FROM_SAME, FH_FROM_CFA, FH_FROM_BASE, FH_FROM_NOWHERE } fh_rule_from;

/* base is rbp or rsp. Offsets are in words of 8 bytes.
 *     CFA = base + cfa, or the word in memory there;
 *     return address: in memory at CFA + ra, or at base + ra;
 *     rbp: as it is, in memory at CFA + fp, or at base + fp, or none */
typedef union {
    struct {
        uint64_t kind : 2;
        uint64_t signal : 1;     /* the caller was interrupted: its address is exact, its stack may be another one */
        uint64_t after_call : 1; /* the instruction before the address is a call */
        uint64_t
            plain : 1; /* as nearly all are: after a call, by table, CFA = base + cfa, ra = -1, rbp same or at CFA */
        uint64_t base_fp : 1;
        uint64_t cfa_in_memory : 1;
        uint64_t ra_from_base : 1;
        uint64_t fp_from : 2; /* fh_rule_from */
        int64_t cfa : 20;
        int64_t ra : 8;
        int64_t fp : 10;
        uint64_t module : 16;
    };
    uint64_t bits;
} fh_rule;

_Static_assert(sizeof(fh_rule) == 8, "a rule is one word");

/* Addresses from `begin` to before `end`. */
typedef struct {
    uintptr_t begin, end;
} fh_span;

/* Where a module's tables are. What is known to stay mapped and readable as long as this code runs is read as memory; the
 * rest is copied by the kernel, at some 2 µs a piece. */
typedef struct {
    uintptr_t limit; /* nothing at or above it is the module's */
    fh_span lasting; /* what stays */
} fh_tables;

/* Bytes of the module, piece by piece: what is not there reads as 0 and sets `bad`. */
typedef struct {
    const fh_tables *tables;
    uintptr_t at, end;   /* to be read next; the end of what may be read */
    uintptr_t piece;     /* address of the piece that was read last */
    size_t bytes;        /* of it that count */
    const uint8_t *from; /* the piece: in the module, or in copy[] */
    bool bad;
    uint8_t copy[128];
} fh_cursor;

/* Before the first fh_cursor_set. The tables are not copied. */
static inline void fh_cursor_open(fh_cursor *c, const fh_tables *tables) {
    c->tables = tables;
}

void fh_cursor_set(fh_cursor *c, uintptr_t begin, uintptr_t end);
uint64_t fh_cursor_number(fh_cursor *c, unsigned bytes);
uint64_t fh_cursor_uleb(fh_cursor *c);
int64_t fh_cursor_sleb(fh_cursor *c);

/* An address in one of the encodings of these tables (DW_EH_PE_…). `data` is what "relative to the data" means. */
#define FH_ENCODING_OMITTED 0xFFu
uintptr_t fh_cursor_address(fh_cursor *c, unsigned encoding, uintptr_t data);

/* The head of an entry of .eh_frame: a description of one function ("FDE"), or what several have in common ("CIE"). */
typedef struct {
    uintptr_t next;   /* the entry behind it */
    uintptr_t common; /* the CIE of an FDE; 0: it is a CIE itself */
    bool last;        /* the end of all entries */
} fh_entry_head;

/* Reads a head at the cursor and leaves the cursor behind it, with the entry's end as its end. False: damaged. */
bool fh_entry_read(fh_cursor *c, fh_entry_head *head);

/* Where the function begins that the FDE describes whose head was just read at the cursor. The memo begins as zero and is
 * kept from call to call. */
typedef struct {
    uintptr_t common;
    unsigned encoding;
} fh_entry_memo;

bool fh_entry_begin(fh_cursor *c, const fh_entry_head *head, fh_entry_memo *memo, uintptr_t *begin);

/* The rule at `address`, out of the FDE at `entry`. FH_RULE_POINTERS if the FDE says something that a word cannot hold,
 * FH_RULE_NONE if it describes another address. Cannot fault, whatever is there, and ends after a bounded number of steps. */
fh_rule fh_rule_at(uintptr_t entry, const fh_tables *tables, uintptr_t address);

#endif
