//! The seeded bugs, each of which a test must find (`tests/seeded/`).

/// One seeded bug: its name, and for each place the file, the text that must be there once, and what replaces it.
pub struct Mutant {
    pub name: &'static str,
    pub edits: &'static [(&'static str, &'static str, &'static str)],
}

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "relaxed_give",
        edits: &[
            (
                "store/slab.c",
                "fh_or_release(&fh_slab_at(in->slot)->free[e->word], e->bits)",
                "fh_model_or_relaxed(&fh_slab_at(in->slot)->free[e->word], e->bits)",
            ),
            (
                "store/slab.c",
                "fh_or_release(&b->slab->free[b->index / 64], bit)",
                "fh_model_or_relaxed(&b->slab->free[b->index / 64], bit)",
            ),
        ],
    },
    Mutant {
        name: "first_slab_read_relaxed",
        edits: &[(
            "store/slab.c",
            "fh_load_acquire(&current[partition][shard][c]); /* see",
            "fh_load(&current[partition][shard][c]); /* see",
        )],
    },
    Mutant {
        name: "depot_of_a_neighbour_relaxed",
        edits: &[(
            "store/depot.c",
            "if (!is_full(seen) || !fh_cas_acq_rel(slot, &seen, pack(empty, FH_DEPOT_EMPTY))) continue;",
            "if (!is_full(seen) || !fh_cas_relaxed(slot, &seen, pack(empty, FH_DEPOT_EMPTY))) continue;",
        )],
    },
    Mutant {
        name: "relaxed_depot",
        edits: &[(
            "store/depot.c",
            "fh_cas_acq_rel(slot, &seen, pack(full, 0))",
            "fh_cas_relaxed(slot, &seen, pack(full, 0))",
        )],
    },
    Mutant {
        name: "lossy_give",
        edits: &[
            (
                "store/slab.c",
                "fh_or_release(&fh_slab_at(in->slot)->free[e->word], e->bits)",
                "fh_model_or_lossy(&fh_slab_at(in->slot)->free[e->word], e->bits)",
            ),
            (
                "store/slab.c",
                "fh_or_release(&b->slab->free[b->index / 64], bit)",
                "fh_model_or_lossy(&b->slab->free[b->index / 64], bit)",
            ),
        ],
    },
    Mutant {
        name: "unchecked_class",
        edits: &[(
            "store/slab.c",
            "if (got == 0 && fh_state_kind(fh_load(&slab->state)) != c) {",
            "if (got == 64) {",
        )],
    },
    Mutant {
        name: "fresh_freed_by_plain_store",
        edits: &[(
            "store/slab_life.c",
            "} while (!fh_cas_acquire(&slab->state, &state, state + ((uint64_t)(blocks - bump) << FH_STATE_BUMP_SHIFT)));",
            "} while (false);\n    fh_store(&slab->state, state + ((uint64_t)(blocks - bump) << FH_STATE_BUMP_SHIFT));",
        )],
    },
    Mutant {
        name: "unmark_without_second_look",
        edits: &[(
            "store/slab_life.c",
            "if (bump < fh_class_table[c].blocks || any_free(slab, bump)) fh_hint_set(c, 0, slot);",
            "(void)any_free, (void)bump;",
        )],
    },
    Mutant {
        name: "lower_without_second_look",
        edits: &[(
            "store/hints.c",
            "if (fh_load_acquire(node(hint, level, index)) != 0) {",
            "if (level == 64) {",
        )],
    },
    Mutant {
        name: "release_with_one_out",
        edits: &[
            (
                "store/slab_life.c",
                "if (fh_load_acquire(&slab->free[w]) != full_word(bump, w)) return false;",
                "if (fh_count_bits(full_word(bump, w) & ~fh_load_acquire(&slab->free[w])) > 1) return false;",
            ),
            (
                "store/slab_life.c",
                "if (!fh_cas_acquire(&slab->free[w], &full, 0)) break;",
                "fh_swap_acq_rel(&slab->free[w], 0), (void)full;",
            ),
            (
                "store/slab.c",
                "return !(fh_low_mask(bump - word * 64) & ~(before | bits));",
                "return (void)before, true;",
            ),
        ],
    },
    Mutant {
        name: "count_of_a_slab_that_is_gone",
        edits: &[(
            "store/slab_life.c",
            "if (fh_cas_relaxed(&slab->state, &state, state + n)) break;",
            "fh_add_relaxed(&slab->state, n);\n        break;",
        )],
    },
    Mutant {
        name: "slab_published_by_plain_store",
        edits: &[(
            "store/slab.c",
            "uint64_t before = fh_swap_acq_rel(&slab->state, fh_state_make(c, n));\n    FH_ASSERT(before == 0);\n    fh_fence_after_rmw();",
            "fh_store_release(&slab->state, fh_state_make(c, n));",
        )],
    },
    Mutant {
        name: "purged_slots_counted_twice",
        edits: &[(
            "store/purge.c",
            "uint64_t cleared = fh_and_acq_rel(&chunk->dirty, ~take) & take;",
            "fh_and_acq_rel(&chunk->dirty, ~take);\n    uint64_t cleared = take;",
        )],
    },
    Mutant {
        name: "forgotten_without_claim",
        edits: &[
            (
                "store/purge.c",
                "    if (!fh_chunk_claim_exactly(index, FH_CHUNK_ALL)) return;\n    size_t page",
                "    size_t page",
            ),
            (
                "store/purge.c",
                "    fh_chunk_release(index, FH_CHUNK_ALL);\n}",
                "}",
            ),
        ],
    },
    Mutant {
        name: "failed_release_without_mark",
        edits: &[(
            "store/slab_life.c",
            "        if (c >= FH_CLASSES) return;\n        fh_hint_set(c, 0, slot);\n    }",
            "        if (c >= FH_CLASSES) return;\n    }",
        )],
    },
    Mutant {
        name: "orphans_adopted_twice",
        edits: &[
            (
                "cache/thread.c",
                "if (fh_cas_acq_rel(&t->state, &state, FH_THREAD_DEAD)) dissolve(t);",
                "(void)state;\n    dissolve(t);",
            ),
            (
                "cache/thread.c",
                "fh_swap_acq_rel(&orphans, 0)) adopt",
                "(fh_store(&orphans, 0), true)) adopt",
            ),
        ],
    },
    Mutant {
        name: "busy_orphan_adopted",
        edits: &[(
            "cache/thread.c",
            "bool whole = life == FH_THREAD_LIVE ||",
            "bool whole = life == FH_THREAD_LIVE || life == FH_THREAD_BUSY ||",
        )],
    },
    Mutant {
        name: "unparked_twice",
        edits: &[(
            "cache/thread.c",
            "return (fh_thread *)(uintptr_t)fh_swap_acq_rel(&parked[shard], 0);",
            "fh_thread *t = (fh_thread *)(uintptr_t)fh_load_acquire(&parked[shard]);\n    fh_store(&parked[shard], 0);\n    return t;",
        )],
    },
    Mutant {
        name: "parked_relaxed",
        edits: &[(
            "cache/thread.c",
            "if (!fh_load(place) && fh_cas_acq_rel(place, &none, word)) return NULL;",
            "if (!fh_load(place) && fh_cas_relaxed(place, &none, word)) return NULL;",
        )],
    },
    Mutant {
        name: "admitted_together",
        edits: &[(
            "store/limit.c",
            "return fh_add_acq_rel(&fh_limit.pending, bytes) + bytes;",
            "uint64_t claimed = fh_load(&fh_limit.pending) + bytes;\n    fh_add_acq_rel(&fh_limit.pending, bytes);\n    return claimed;",
        )],
    },
    Mutant {
        name: "limit_relaxed",
        edits: &[(
            "store/limit.c",
            "fh_sub_release(&fh_limit.pending, bytes); /*",
            "fh_sub_relaxed(&fh_limit.pending, bytes); /*",
        )],
    },
    Mutant {
        name: "two_in_the_callback",
        edits: &[(
            "reclaim/limits.c",
            "if (!callback || !fh_cas_acq_rel(&calling, &none, caller)) return;",
            "if (!callback || (none = fh_load_acquire(&calling)) != 0) return;\n    fh_store(&calling, caller);",
        )],
    },
    Mutant {
        name: "lost_chunk_found_twice",
        edits: &[(
            "store/window.c",
            "if (!fh_cas_acquire(&r->lost, &lost, lost & ~mask)) continue;",
            "fh_and_acq_rel(&r->lost, ~mask);",
        )],
    },
    Mutant {
        name: "pages_purged_of_blocks_in_use",
        edits: &[(
            "store/pages.c",
            "if (!fh_cas_acquire(&h->slab->free[w], &bits, bits & ~wanted[w])) continue;",
            "fh_store(&h->slab->free[w], bits & ~wanted[w]);",
        )],
    },
    Mutant {
        name: "sample_shown_too_early",
        edits: &[(
            "observe/samples.c",
            "fh_store_release(address, sample->address);",
            "fh_store(address, sample->address);",
        )],
    },
    Mutant {
        name: "index_entry_lost",
        edits: &[(
            "observe/index.c",
            "if (fh_cas_acq_rel(place, &word, (s->hash >> 32) << 32 | made)) return made;",
            "return fh_store_release(place, (s->hash >> 32) << 32 | made), made;",
        )],
    },
    Mutant {
        name: "index_read_relaxed",
        edits: &[(
            "observe/index.c",
            "uint64_t word = fh_load_acquire(place);",
            "uint64_t word = fh_load(place);",
        )],
    },
    Mutant {
        name: "index_loser_takes_what_is_there",
        edits: &[(
            "observe/index.c",
            "if (fh_cas_acq_rel(place, &word, (s->hash >> 32) << 32 | made)) return made;",
            "return fh_cas_acq_rel(place, &word, (s->hash >> 32) << 32 | made) ? made : (uint32_t)word;",
        )],
    },
    Mutant {
        name: "bulky_sum_by_plain_store",
        edits: &[(
            "cache/magazine.c",
            "if (blocks < 0) fh_add_relaxed(&fh_bulky_cached, bytes);",
            "if (blocks < 0) fh_store(&fh_bulky_cached, fh_load(&fh_bulky_cached) + bytes);",
        )],
    },
    Mutant {
        name: "peak_noted_only_by_who_reached_it",
        edits: &[(
            "observe/sites.c",
            "    do {\n        note_peak(control, live, now);\n    } while (",
            "    do {\n    } while (",
        )],
    },
    Mutant {
        name: "plain_claim",
        edits: &[(
            "store/chunk.c",
            "if (!fh_cas_acquire(&chunk->free, &free, free & ~mask)) continue;\n        FH_ASSERT((free & mask) == mask && place % align == 0);",
            "fh_store_release(&chunk->free, free & ~mask);",
        )],
    },
    Mutant {
        name: "part_of_a_run_kept",
        edits: &[(
            "store/run.c",
            "fh_chunk_release(claimed.chunk, claimed.mask);",
            "",
        )],
    },
    Mutant {
        name: "chunk_behind_taken_by_plain_store",
        edits: &[(
            "store/window.c",
            "return fh_cas_acq_rel(&fh_window.next_chunk, &next, chunk + n) && start_or_lose(chunk, n) == 0;",
            "fh_store_release(&fh_window.next_chunk, next + n);\n    return start_or_lose(chunk, n) == 0;",
        )],
    },
    Mutant {
        name: "edge_clean_by_plain_store",
        edits: &[(
            "store/edge.c",
            "if (never_used) fh_and_acq_rel(&slab->clean, ~pages);",
            "if (never_used) fh_store(&slab->clean, fh_load(&slab->clean) & ~pages);",
        )],
    },
    Mutant {
        name: "over_cleared_after_release",
        edits: &[
            ("store/run.c", "    fh_run_set_over(slot, n, false);\n", ""),
            (
                "store/run.c",
                "    fh_run_release(slot, n, true);\n}",
                "    fh_run_release(slot, n, true);\n    fh_run_set_over(slot, n, false);\n}",
            ),
        ],
    },
    Mutant {
        name: "over_cleared_after_long_release",
        edits: &[
            (
                "store/large.c",
                "    fh_run_set_over(slot, touched_slots(slot, word), false);\n    fh_class_set(slot, FH_CLASS_SPECIAL);",
                "    fh_class_set(slot, FH_CLASS_SPECIAL);",
            ),
            (
                "store/large.c",
                "fh_run_release(slot, slots, !return_if_sparse(p, slots));",
                "fh_run_release(slot, slots, !return_if_sparse(p, slots));\n        fh_run_set_over(slot, slots, false);",
            ),
        ],
    },
    Mutant {
        name: "kept_taken_by_plain_store",
        edits: &[(
            "store/run.c",
            "if (!fh_cas_acq_rel(&fh_counts.kept, &kept, 0)) return FH_NONE;",
            "fh_store(&fh_counts.kept, 0);",
        )],
    },
    Mutant {
        name: "kept_replaced_by_plain_store",
        edits: &[(
            "store/run.c",
            "uint64_t before = fh_swap_acq_rel(&fh_counts.kept, (uint64_t)n << 32 | slot);",
            "uint64_t before = fh_load(&fh_counts.kept);\n    fh_store_release(&fh_counts.kept, (uint64_t)n << 32 | slot);",
        )],
    },
    Mutant {
        name: "kept_taken_relaxed",
        edits: &[(
            "store/run.c",
            "if (!fh_cas_acq_rel(&fh_counts.kept, &kept, 0)) return FH_NONE;",
            "if (!fh_cas_relaxed(&fh_counts.kept, &kept, 0)) return FH_NONE;",
        )],
    },
    Mutant {
        name: "pieces_stay",
        edits: &[(
            "store/purge.c",
            "fh_store(&fh_chunk_at(index)->pieces, 0); /* a piece",
            "/* a piece",
        )],
    },
    Mutant {
        name: "lost_chunk_brought_twice",
        edits: &[(
            "store/window.c",
            "if (!(fh_load(lost) & bit) || !(fh_and_acq_rel(lost, ~bit) & bit)) return false;\n    fh_sub_relaxed",
            "if (!(fh_load(lost) & bit)) return false;\n    fh_and_acq_rel(lost, ~bit);\n    fh_sub_relaxed",
        )],
    },
    Mutant {
        name: "chunks_lost_by_plain_store",
        edits: &[(
            "store/window.c",
            "if (fh_cas_acq_rel(&fh_window.next_chunk, &end, last)) {",
            "fh_store_release(&fh_window.next_chunk, last);\n        if (end) {",
        )],
    },
    Mutant {
        name: "edge_given_by_plain_store",
        edits: &[(
            "store/edge.c",
            "uint64_t before = fh_or_release(&slab->free[0], pages);",
            "uint64_t before = fh_load(&slab->free[0]);\n    fh_swap_acq_rel(&slab->free[0], before | pages);",
        )],
    },
    Mutant {
        name: "large_freed_twice",
        edits: &[(
            "store/large.c",
            "!fh_cas_acq_rel(&record->pages, &word, 0)) return false;",
            "(fh_store(&record->pages, 0), false)) return false;",
        )],
    },
    Mutant {
        name: "freed_while_being_opened",
        edits: &[(
            "store/holes.c",
            "if (!is_borrowed(slot, *state)) return false;",
            "if ((void)is_borrowed, fh_state_kind(*state) != FH_CLASS_BORROWED) return false;",
        )],
    },
    Mutant {
        name: "opened_before_the_last_was_given",
        edits: &[(
            "store/slab_life.c",
            "if (kind == FH_CLASS_BORROWED) c = FH_CLASS_BORROWED;",
            "",
        )],
    },
    Mutant {
        name: "opened_without_holding",
        edits: &[(
            "store/holes.c",
            "unsigned w = hold(slot, slab, c, &held);",
            "unsigned w = 0;\n    (void)hold, held = 0;",
        )],
    },
    Mutant {
        name: "class_byte_after_state",
        edits: &[
            (
                "store/holes.c",
                "fh_class_set(slot, FH_CLASS_SPECIAL);",
                ";",
            ),
            (
                "store/holes.c",
                "    fh_slab_put_back(slot, w, held);",
                "    fh_slab_put_back(slot, w, held);\n    fh_class_set(slot, FH_CLASS_SPECIAL);",
            ),
        ],
    },
    Mutant {
        name: "guest_in_another_slab",
        edits: &[(
            "store/holes.c",
            "if (got == 0 && fh_load(&slab->state) != state) {",
            "if (got == 64) {",
        )],
    },
    Mutant {
        name: "joined_cleared_after_the_parts",
        edits: &[
            (
                "store/holes.c",
                "if (parts > 1) fh_and_relaxed(joined_word(slab, w), ~fh_run_mask(first + 1, parts - 1));",
                ";",
            ),
            (
                "store/holes.c",
                "uint64_t before = fh_or_release(&slab->free[w], mask);",
                "uint64_t before = fh_or_release(&slab->free[w], mask);\n    fh_and_relaxed(joined_word(slab, w), ~(mask & ~(UINT64_C(1) << first)));",
            ),
        ],
    },
    Mutant {
        name: "guest_given_relaxed",
        edits: &[(
            "store/holes.c",
            "uint64_t before = fh_or_release(&slab->free[w], mask);",
            "uint64_t before = fh_or_relaxed(&slab->free[w], mask);",
        )],
    },
    Mutant {
        name: "last_guests_each_see_the_other",
        edits: &[
            (
                "store/holes.c",
                "uint64_t before = fh_or_release(&slab->free[w], mask);",
                "uint64_t before = fh_load(&slab->free[w]);\n    fh_or_release(&slab->free[w], mask);",
            ),
            (
                "store/holes.c",
                "bool full = (before | mask) == ~UINT64_C(0) || (w + 1) * 64 > fh_state_bump(state);",
                "bool full = (before | mask) == fh_low_mask(fh_state_bump(state) - 64 * w);",
            ),
        ],
    },
    Mutant {
        name: "guarded_block_freed_twice",
        edits: &[(
            "misuse/guard_slots.c",
            "if (fh_cas_acq_rel(&s->state, &state, next_state(state, FH_GUARD_FREED, stack))) return true;",
            "if (fh_swap_acq_rel(&s->state, next_state(state, FH_GUARD_FREED, stack))) return true;",
        )],
    },
    Mutant {
        name: "guard_slot_taken_twice",
        edits: &[(
            "misuse/guard_slots.c",
            "if (fh_cas_relaxed(&fresh, &seen, seen + 1)) return own((unsigned)seen);",
            "fh_store(&fresh, seen + 1);\n        return own((unsigned)seen);",
        )],
    },
    Mutant {
        name: "guard_paid_by_plain_store",
        edits: &[(
            "misuse/guard_slots.c",
            "} while (!fh_cas_relaxed(&paid[clock], &seen, next));",
            "} while (fh_store(&paid[clock], next), false);",
        )],
    },
    Mutant {
        name: "depot_look_loses_what_was_displaced",
        edits: &[(
            "store/depot.c",
            "if (fh_cas_acq_rel(slot, &none, pack(m, 0))) return;",
            "if (fh_cas_acq_rel(slot, &none, pack(m, 0)) || slot) return;",
        )],
    },
    Mutant {
        name: "depot_look_by_plain_store",
        edits: &[(
            "store/depot.c",
            "if (!fh_cas_acq_rel(&here[k], &seen, 0)) continue;",
            "fh_store_release(&here[k], 0);",
        )],
    },
    Mutant {
        name: "guard_ring_by_plain_store",
        edits: &[(
            "misuse/guard_slots.c",
            "return fh_swap_acq_rel(&ring[at & (places() - 1)], entry);",
            "uint64_t was = fh_load(&ring[at & (places() - 1)]);\n    fh_store(&ring[at & (places() - 1)], entry);\n    return was;",
        )],
    },
    Mutant {
        name: "guard_words_relaxed",
        edits: &[
            (
                "misuse/guard_slots.c",
                "fh_store_release(&s->block, block);",
                "fh_store(&s->block, block);",
            ),
            (
                "misuse/guard_slots.c",
                "fh_store_release(&s->size, size);",
                "fh_store(&s->size, size);",
            ),
            (
                "misuse/guard_slots.c",
                "fh_store_release(&s->pages, pages);",
                "fh_store(&s->pages, pages);",
            ),
            (
                "misuse/guard_slots.c",
                "fh_store_release(&s->made, stack);",
                "fh_store(&s->made, stack);",
            ),
        ],
    },
    Mutant {
        name: "guard_shown_too_early",
        edits: &[(
            "misuse/guard_slots.c",
            "fh_store_release(&s->state, next_state(state, FH_GUARD_LIVE, 0));",
            "fh_store(&s->state, next_state(state, FH_GUARD_LIVE, 0));",
        )],
    },
    Mutant {
        name: "hardened_block_freed_twice",
        edits: &[(
            "cache/hardened.c",
            "fh_live_end(at->c, p) :",
            "(fh_is_live(at->c, p) && (fh_live_end(at->c, p), true)) :",
        )],
    },
    Mutant {
        name: "hardened_delay_by_plain_store",
        edits: &[(
            "cache/hardened.c",
            "return (void *)(uintptr_t)fh_swap_acq_rel(&places[at], (uintptr_t)p); // NOLINT(performance-no-int-to-ptr)",
            "uint64_t was = fh_load_acquire(&places[at]);\n    fh_store_release(&places[at], (uintptr_t)p);\n    return (void *)(uintptr_t)was;",
        )],
    },
    Mutant {
        name: "hardened_delay_relaxed",
        edits: &[(
            "cache/hardened.c",
            "return (void *)(uintptr_t)fh_swap_acq_rel(&places[at], (uintptr_t)p); // NOLINT(performance-no-int-to-ptr)",
            "uint64_t was = fh_load(&places[at]);\n    while (!fh_cas_relaxed(&places[at], &was, (uintptr_t)p));\n    return (void *)(uintptr_t)was;",
        )],
    },
    Mutant {
        name: "hardened_block_taken_twice",
        edits: &[(
            "store/slab.c",
            "if (!fh_cas_acquire(&slab->free[w], &bits, bits & ~one)) continue;\n            if",
            "fh_store(&slab->free[w], bits & ~one);\n            if",
        )],
    },
    Mutant {
        name: "quarantine_by_plain_store",
        edits: &[(
            "misuse/quarantine.c",
            "return fh_swap_acq_rel(&slots[at % SLOTS], entry);",
            "uint64_t was = fh_load(&slots[at % SLOTS]);\n    fh_store_release(&slots[at % SLOTS], entry);\n    return was;",
        )],
    },
    Mutant {
        name: "quarantine_place_passed",
        edits: &[(
            "misuse/quarantine.c",
            "return FH_UNLIKELY(fh_load(&tail) > at) ? swap(at, 0) : 0;",
            "(void)at;\n    return 0;",
        )],
    },
    Mutant {
        name: "quarantine_relaxed",
        edits: &[(
            "misuse/quarantine.c",
            "return fh_swap_acq_rel(&slots[at % SLOTS], entry);",
            "uint64_t was = fh_load(&slots[at % SLOTS]);\n    while (!fh_cas_relaxed(&slots[at % SLOTS], &was, entry));\n    return was;",
        )],
    },
    Mutant {
        name: "quarantine_puts_back_blindly",
        edits: &[(
            "misuse/quarantine.c",
            "put_back(swap(at, entry));\n        put_back(stranded(at));",
            "swap(at, entry);\n        put_back(stranded(at));",
        )],
    },
    Mutant {
        name: "defer_one_epoch_short",
        edits: &[(
            "heap/defer.c",
            "return b->stamp < least;",
            "return b->stamp <= least;",
        )],
    },
    Mutant {
        name: "defer_late_reader_overlooked",
        edits: &[(
            "heap/defer.c",
            "uint64_t least = fh_add_acq_rel(&epoch, 0) + 1;",
            "uint64_t least = UINT64_MAX;\n    fh_add_acq_rel(&epoch, 0);",
        )],
    },
    Mutant {
        name: "defer_online_without_fence",
        edits: &[(
            "heap/defer.c",
            "fh_swap_acq_rel(&r->seen, now());\n    fh_fence_after_rmw();",
            "fh_swap_acq_rel(&r->seen, now());",
        )],
    },
    Mutant {
        name: "defer_pass_relaxed",
        edits: &[(
            "heap/defer.c",
            "if (r && fh_load(&r->seen)) fh_store_release(&r->seen, now());",
            "if (r && fh_load(&r->seen)) fh_store(&r->seen, now());",
        )],
    },
];
