//! Seeded bugs of the recorder's order.

use crate::mutants::Mutant;

const H: &str = "../recorder/order.h";
const C: &str = "../recorder/order.c";

pub const ORDER: &[Mutant] = &[
    Mutant {
        name: "order_note_is_anybodys",
        edits: &[(
            H,
            "return (uint64_t)(uintptr_t)address >> ORDER_AREA_BITS << (ORDER_DATE_BITS + ORDER_THREAD_BITS + 1) |",
            "(void)address;\n    return",
        )],
    },
    Mutant {
        name: "order_any_note_is_older",
        edits: &[(H, "note < self->date &&", "note < ORDER_NOTE_SET &&")],
    },
    Mutant {
        name: "order_same_date_is_older",
        edits: &[(
            H,
            "note < self->date &&",
            "note >> ORDER_THREAD_BITS <= self->date >> ORDER_THREAD_BITS &&",
        )],
    },
    Mutant {
        name: "order_era_is_not_asked",
        edits: &[(
            H,
            "note < self->date && self->era == fh_load(&order_era)",
            "note < self->date",
        )],
    },
    Mutant {
        name: "order_era_is_not_told",
        edits: &[(C, "while (known < self->era &&", "while (false &&")],
    },
    Mutant {
        name: "order_owner_is_not_told",
        edits: &[(C, "fh_swap_acq_rel(owner, ORDER_SEVERAL);", "")],
    },
    Mutant {
        name: "order_note_of_two_blocks",
        edits: &[(
            H,
            "return (uintptr_t)block % 16 == 0 && block != NULL;",
            "return block != NULL;",
        )],
    },
    Mutant {
        name: "order_threads_without_number_are_one",
        edits: &[(
            C,
            "self->signature = has_number ? self->number : 0;",
            "self->signature = self->number;",
        )],
    },
    Mutant {
        name: "order_note_is_not_renewed",
        edits: &[(
            H,
            "if (note != (self->date | self->signature)) {",
            "if (false) {",
        )],
    },
];
