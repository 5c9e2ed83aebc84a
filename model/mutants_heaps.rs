//! Those of heaps of the embedding API.

use crate::mutants::Mutant;

pub const HEAPS: &[Mutant] = &[
    Mutant {
        name: "heap_units_by_plain_store",
        edits: &[(
            "heap/take.c",
            "if (!fh_bits_claim(h, &h->free[w], &seen, fh_run_mask(at, units))) continue;",
            "fh_store(&h->free[w], seen & ~fh_run_mask(at, units));",
        )],
    },
    Mutant {
        name: "heap_block_by_plain_store",
        edits: &[(
            "heap/take.c",
            "if (!fh_bits_claim(e->owned.heap, &e->free[w], &seen, UINT64_C(1) << at)) continue;",
            "fh_store(&e->free[w], seen & ~(UINT64_C(1) << at));",
        )],
    },
    Mutant {
        name: "heap_charged_by_plain_store",
        edits: &[(
            "heap/quota.c",
            "} while (!fh_cas_relaxed(&h->charged, &seen, seen + bytes));",
            "} while (0);\n    fh_add_relaxed(&h->charged, bytes);",
        )],
    },
    Mutant {
        name: "heap_extent_retired_unclaimed",
        edits: &[(
            "heap/take.c",
            "if (!all || fh_bits_claim(h, &e->free[w], &seen, all)) continue;",
            "fh_store(&e->free[w], 0);\n        if (seen | 1) continue;",
        )],
    },
    Mutant {
        name: "heap_stripe_by_plain_store",
        edits: &[(
            "heap/stripes.c",
            "if (!fh_cas_acq_rel(&s->owner, &seen, t->ticket)) return NULL;",
            "fh_store(&s->owner, t->ticket);",
        )],
    },
    Mutant {
        name: "heap_stripe_owner_relaxed",
        edits: &[(
            "heap/stripes.c",
            "    uint64_t seen = fh_load_acquire(&s->owner);\n    if",
            "    uint64_t seen = fh_load(&s->owner);\n    if",
        )],
    },
    Mutant {
        name: "heap_stripe_of_a_living_thread",
        edits: &[(
            "heap/stripes.c",
            "if (seen && lives(seen)) return NULL;",
            "",
        )],
    },
    Mutant {
        name: "heap_stripe_gives_back_what_it_keeps",
        edits: &[(
            "heap/stripes.c",
            "bin->top = (uint16_t)(bin->begin + (has - n) * sizeof(uint64_t));",
            "bin->top = (uint16_t)(bin->begin + has * sizeof(uint64_t));",
        )],
    },
    Mutant {
        name: "heap_stripe_gives_back_by_plain_store",
        edits: &[(
            "heap/stripes.c",
            "uint64_t before = fh_bits_set(e->owned.heap, &e->free[first / 64], bits);",
            "uint64_t before = fh_load(&e->free[first / 64]);\n        fh_store(&e->free[first / 64], before | bits);",
        )],
    },
    Mutant {
        name: "heap_stripe_ends_unseen",
        edits: &[(
            "heap/stripes.c",
            "    fh_store_release(place_of(ticket), 0);\n",
            "    fh_store_release(place_of(ticket), 0);\n    t->ticket = ticket;\n",
        )],
    },
    Mutant {
        name: "bounded_block_by_plain_store",
        edits: &[(
            "heap/bounded.c",
            "if (fh_bit_clear(&at->free[w], bit))",
            "uint64_t there = fh_load(&at->free[w]);\n            fh_store(&at->free[w], there & ~(UINT64_C(1) << bit));\n            if (there >> bit & 1)",
        )],
    },
    Mutant {
        name: "bounded_slab_made_by_plain_store",
        edits: &[(
            "heap/bounded.c",
            "    if (!fh_cas_acq_rel(&s->b->slab[i].state, &was, state_of(BEING_MADE, 0) | 1)) return false;",
            "    fh_store(&s->b->slab[i].state, state_of(BEING_MADE, 0) | 1);",
        )],
    },
    Mutant {
        name: "bounded_room_without_second_look",
        edits: &[(
            "heap/bounded.c",
            "    if (kind_of(now) == c && (now & HOLDERS) < blocks_of(c)) fh_marks_set(&m, i);",
            "    (void)now;",
        )],
    },
    Mutant {
        name: "bounded_empty_without_second_look",
        edits: &[(
            "heap/bounded.c",
            "    if ((now & HOLDERS) == 0) fh_marks_set(&m, i);",
            "    (void)now;",
        )],
    },
    Mutant {
        name: "bounded_slab_made_while_it_is_held",
        edits: &[(
            "heap/bounded.c",
            "if ((was & HOLDERS) || before >= OF_RUN) return false;",
            "if (before >= OF_RUN) return false;",
        )],
    },
    Mutant {
        name: "bounded_entered_whatever_it_is",
        edits: &[(
            "heap/bounded.c",
            "kind_of(was) != s->c || holders >= s->blocks",
            "holders >= s->blocks",
        )],
    },
    Mutant {
        name: "bounded_run_not_undone",
        edits: &[(
            "heap/bounded.c",
            "uint64_t empty = unmake_all(b, first, made, BEING_MADE, 0);",
            "uint64_t empty = 0;",
        )],
    },
    Mutant {
        name: "bounded_left_before_it_is_free",
        edits: &[(
            "heap/bounded.c",
            "    if (fh_bit_set(&b->slab[i].free[block / 64], block % 64)) return false;\n    fh_store(&b->slab[i].from, block / 64);\n    leave(b, i);",
            "    leave(b, i);\n    if (fh_bit_set(&b->slab[i].free[block / 64], block % 64)) return false;",
        )],
    },
    Mutant {
        name: "bounded_left_by_plain_store",
        edits: &[(
            "heap/bounded.c",
            "    uint64_t was = fh_sub_acq_rel(&b->slab[i].state, 1);\n",
            "    uint64_t was = fh_load(&b->slab[i].state);\n    fh_store_release(&b->slab[i].state, was - 1);\n",
        )],
    },
    Mutant {
        name: "bounded_seat_behind_all_seats",
        edits: &[("heap/bounded.c", " >> 60) % PLACES;", " >> 60);")],
    },
    Mutant {
        name: "marks_lowered_without_second_look",
        edits: &[(
            "heap/marks.h",
            "    if (fh_load(&m->word[w])) fh_or_release(&m->top[w / 64], UINT64_C(1) << w % 64);",
            "",
        )],
    },
    Mutant {
        name: "heap_extent_closed_without_second_look",
        edits: &[("heap/stacks.c", "if (w < e->words) fh_extent_open(e);", "")],
    },
    Mutant {
        name: "heap_extent_closed_without_fence",
        edits: &[(
            "heap/stacks.c",
            "swap_has(e, 0);\n    fh_fence_after_rmw();",
            "fh_store(&e->has, 0);",
        )],
    },
    Mutant {
        name: "heap_extent_almost_retired_stays_closed",
        edits: &[(
            "heap/take.c",
            "fh_extent_open(e); /* one who found it without a free block may have closed it */",
            "",
        )],
    },
    Mutant {
        name: "heap_stack_without_count",
        edits: &[("heap/stacks.c", "(*seen + CHANGE)", "*seen")],
    },
    Mutant {
        name: "heap_use_without_second_look",
        edits: &[(
            "heap/use.c",
            "if (FH_LIKELY(!is_closed(h))) return use;",
            "return use;",
        )],
    },
    Mutant {
        name: "heap_use_without_fence",
        edits: &[(
            "heap/use.c",
            "fh_word *use = mark(h);\n    fh_fence_after_rmw();",
            "fh_word *use = mark(h);",
        )],
    },
    Mutant {
        name: "heap_end_without_fence",
        edits: &[(
            "heap/use.c",
            "of_this_process(fh_heap_this_thread())));\n    fh_fence_after_rmw();",
            "of_this_process(fh_heap_this_thread())));",
        )],
    },
];
