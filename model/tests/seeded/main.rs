//! Every seeded bug must be found. A checker that passes a broken twin says nothing about the original.

use freehold_model::explore::{Bounds, MOST_STEPS, every_interleaving, random_interleavings};
use freehold_model::program::Scenario;
use freehold_model::scenarios;

mod heaps;
mod order;

/// Few preemptions first: most bugs need only one or two, and the space grows fast.
fn must_find(variant: &str, scenario: &Scenario, said: &str) {
    must_find_within(variant, scenario, MOST_STEPS, said);
}

fn must_find_within(variant: &str, scenario: &Scenario, steps: usize, said: &str) {
    for preemptions in 0..=3 {
        let outcome = every_interleaving(
            variant,
            scenario,
            Bounds {
                preemptions: Some(preemptions),
                seconds: 1200, // as in real.rs
                steps,
            },
        );
        let Some(finding) = outcome.finding else {
            continue;
        };
        eprintln!(
            "{variant}: {preemptions} preemptions, run {}: {finding}",
            outcome.runs
        );
        assert!(
            finding.contains(said),
            "{variant}: expected {said:?}, found {finding:?}"
        );
        return;
    }
    panic!("{variant} was not found");
}

fn must_find_in(variant: &str, name: &str, said: &str) {
    must_find(variant, &scenarios::named(name).scenario, said);
}

#[test]
fn relaxed_give() {
    must_find_in(
        "relaxed_give",
        "a block is taken while another is given",
        "Causality",
    );
}

#[test]
fn first_slab_read_relaxed() {
    must_find_in(
        "first_slab_read_relaxed",
        "first: two take with nothing",
        "a region that is not there",
    );
}

#[test]
fn depot_of_a_neighbour_relaxed() {
    must_find_in(
        "depot_of_a_neighbour_relaxed",
        "near: a magazine is got from a neighbour's depot",
        "Causality",
    );
}

#[test]
fn relaxed_depot() {
    must_find_in(
        "relaxed_depot",
        "a magazine goes through the depot",
        "Causality",
    );
}

#[test]
fn lossy_give() {
    must_find_in("lossy_give", "a block is taken while another is given", "");
}

#[test]
#[ignore = "takes more than two minutes since chunks have a bucket for each length"]
fn unchecked_class() {
    must_find_in(
        "unchecked_class",
        "a slab becomes another class under a taker",
        "",
    );
}

#[test]
fn fresh_freed_by_plain_store() {
    must_find_in(
        "fresh_freed_by_plain_store",
        "what a slab never handed out becomes free while it is taken",
        "(before & bits) == 0",
    );
}

#[test]
fn unmark_without_second_look() {
    must_find_in(
        "unmark_without_second_look",
        "a taker unmarks what a giver fills",
        "has its hint",
    );
}

#[test]
fn lower_without_second_look() {
    must_find_in(
        "lower_without_second_look",
        "the last mark of a chunk goes while the next comes",
        "the bit above",
    );
}

#[test]
fn release_with_one_out() {
    must_find_in("release_with_one_out", "one block of a slab stays out", "");
}

#[test]
fn count_of_a_slab_that_is_gone() {
    must_find_in(
        "count_of_a_slab_that_is_gone",
        "a slab goes while its frees are counted",
        "a free slot has",
    );
}

#[test]
fn slab_published_by_plain_store() {
    must_find_in(
        "slab_published_by_plain_store",
        "a slab is made where a stale mark lies",
        "has its hint",
    );
}

#[test]
fn purged_slots_counted_twice() {
    must_find_in(
        "purged_slots_counted_twice",
        "two purge the same chunk",
        "dirty >= slots",
    );
}

#[test]
fn forgotten_without_claim() {
    must_find_in(
        "forgotten_without_claim",
        "a chunk is forgotten while a slab is made in it",
        "bits == 0",
    );
}

#[test]
fn failed_release_without_mark() {
    must_find_in(
        "failed_release_without_mark",
        "a release fails because blocks never handed out are taken",
        "has its hint",
    );
}

#[test]
fn plain_claim() {
    must_find_in("plain_claim", "two claim runs", "");
}

#[test]
fn orphans_adopted_twice() {
    must_find_in("orphans_adopted_twice", "two threads after a fork", "");
}

#[test]
fn busy_orphan_adopted() {
    must_find_in(
        "busy_orphan_adopted",
        "an orphan that was busy is left alone",
        "flushed though busy",
    );
}

#[test]
fn unparked_twice() {
    must_find_in("unparked_twice", "two begin where one cache waits", "");
}

#[test]
fn parked_relaxed() {
    must_find_in(
        "parked_relaxed",
        "a thread ends while another begins",
        "Causality",
    );
}

#[test]
fn admitted_together() {
    must_find_in(
        "admitted_together",
        "two claims where a limit has room for one",
        "beyond its limit",
    );
}

/// The bug was in the real file once.
#[test]
fn limit_relaxed() {
    must_find_in(
        "limit_relaxed",
        "two are admitted where a limit has room for one",
        "beyond its limit",
    );
}

#[test]
fn two_in_the_callback() {
    must_find_in("two_in_the_callback", "two are at the limit's callback", "");
}

#[test]
fn lost_chunk_found_twice() {
    must_find_in(
        "lost_chunk_found_twice",
        "two find a chunk that was lost",
        "",
    );
}

#[test]
fn pages_purged_of_blocks_in_use() {
    must_find_in(
        "pages_purged_of_blocks_in_use",
        "pages of a slab are purged while its blocks are taken",
        "",
    );
}

#[test]
fn part_of_a_run_kept() {
    must_find_in(
        "part_of_a_run_kept",
        "runs: one claims over a border, the other behind it",
        "every slot is free or part of something",
    );
}

#[test]
fn chunks_lost_by_plain_store() {
    must_find_in(
        "chunks_lost_by_plain_store",
        "runs: several chunks are refused once",
        "",
    );
}

/// What a run does in between is long, so that all interleavings with a preemption are too many: a random one finds it.
#[test]
fn chunk_behind_taken_by_plain_store() {
    let name = "large: one grows beyond the last chunk while another brings one";
    let scenario = &scenarios::named(name).scenario;
    let real = random_interleavings("real", scenario, 2_000);
    assert!(real.finding.is_none(), "{:?}", real.finding);
    let outcome = random_interleavings("chunk_behind_taken_by_plain_store", scenario, 100_000);
    let finding = outcome.finding.expect("it was not found");
    eprintln!("run {}: {finding}", outcome.runs);
}

#[test]
fn large_freed_twice() {
    must_find_in("large_freed_twice", "large: two free one block", "");
}

#[test]
fn sample_shown_too_early() {
    must_find_in(
        "sample_shown_too_early",
        "a sample is entered while it is looked for",
        "Causality",
    );
}

#[test]
fn index_entry_lost() {
    must_find_in("index_entry_lost", "two look for one key", "two numbers");
}

#[test]
fn index_read_relaxed() {
    must_find_in("index_read_relaxed", "two look for one key", "Causality");
}

#[test]
fn bulky_sum_by_plain_store() {
    must_find_in(
        "bulky_sum_by_plain_store",
        "two take bulky blocks, and one gives up its bin",
        "bulky blocks",
    );
}

#[test]
fn peak_noted_only_by_who_reached_it() {
    must_find_in(
        "peak_noted_only_by_who_reached_it",
        "a peak is reached while what stands for it is freed",
        "the peak is",
    );
}

#[test]
fn index_loser_takes_what_is_there() {
    must_find_in(
        "index_loser_takes_what_is_there",
        "two keys want one place",
        "has two",
    );
}

/// The bug was in the real file once: a block of a slab whose class byte says special while its state says host.
#[test]
fn freed_while_being_opened() {
    must_find_in(
        "freed_while_being_opened",
        "holes: a block is freed while its slab is being opened",
        "nobody knows it",
    );
}

/// The bug was in the real file once: the slab stayed, all free.
#[test]
fn opened_before_the_last_was_given() {
    must_find_in(
        "opened_before_the_last_was_given",
        "holes: the last block is given while its slab is being opened",
        "one at most is all free",
    );
}

#[test]
fn opened_without_holding() {
    must_find_in(
        "opened_without_holding",
        "holes: a slab is made again while it is being opened",
        "(before & bits) == 0",
    );
}

#[test]
fn class_byte_after_state() {
    must_find_in(
        "class_byte_after_state",
        "holes: a guest is taken while its slab is being opened",
        "found as class 72",
    );
}

#[test]
fn guest_in_another_slab() {
    must_find_in(
        "guest_in_another_slab",
        "holes: a slab becomes another class under a taker",
        "",
    );
}

#[test]
fn joined_cleared_after_the_parts() {
    must_find_in(
        "joined_cleared_after_the_parts",
        "holes: one is given while another is taken beside it",
        "(before & parts) == 0",
    );
}

#[test]
fn guest_given_relaxed() {
    must_find_in(
        "guest_given_relaxed",
        "holes: one is given while another is taken beside it",
        "Causality",
    );
}

#[test]
fn last_guests_each_see_the_other() {
    must_find_in(
        "last_guests_each_see_the_other",
        "holes: two give the last",
        "one at most is all free",
    );
}

/// The linked stack with a plain compare-and-swap: what all of the five old allocators stumbled over.
#[test]
fn linked_stack() {
    must_find("real", &scenarios::aba(), "handed out twice");
}

/// A page that a block gives back is given twice by a plain store, and the other neighbour's is lost.
#[test]
fn edge_given_by_plain_store() {
    must_find_in(
        "edge_given_by_plain_store",
        "edges: both neighbours of one are freed",
        "edge.pages",
    );
}

#[test]
fn edge_clean_by_plain_store() {
    must_find_in(
        "edge_clean_by_plain_store",
        "edges: clean: one grows into a gap in which another begins",
        "edge.clean",
    );
}

#[test]
fn over_cleared_after_release() {
    must_find_in(
        "over_cleared_after_release",
        "kept: over: one is released while another comes over its border",
        "chunk.over",
    );
}

#[test]
fn over_cleared_after_long_release() {
    must_find_in(
        "over_cleared_after_long_release",
        "large: over: one is freed below a limit while another comes over its border",
        "chunk.over",
    );
}

#[test]
fn kept_taken_by_plain_store() {
    must_find_in(
        "kept_taken_by_plain_store",
        "kept: two allocate where one was freed",
        "handed out twice",
    );
}

#[test]
fn kept_replaced_by_plain_store() {
    must_find_in(
        "kept_replaced_by_plain_store",
        "kept: two free and one allocates again",
        "broken: fh_state_run_slots",
    );
}

#[test]
fn kept_taken_relaxed() {
    must_find_in(
        "kept_taken_relaxed",
        "kept: two free and one allocates again",
        "Causality",
    );
}

#[test]
fn pieces_stay() {
    must_find_in(
        "pieces_stay",
        "large: chunks with moved pages are dropped",
        "chunk.pieces",
    );
}

#[test]
fn lost_chunk_brought_twice() {
    must_find_in(
        "lost_chunk_brought_twice",
        "large: one grows into a chunk that was dropped while another wants it",
        "",
    );
}

#[test]
fn guarded_block_freed_twice() {
    must_find_in(
        "guarded_block_freed_twice",
        "guards: two free one block",
        "waits twice",
    );
}

#[test]
fn guard_slot_taken_twice() {
    must_find_in(
        "guard_slot_taken_twice",
        "guards: two take the first slots",
        "handed out twice",
    );
}

#[test]
fn guard_paid_by_plain_store() {
    must_find_in(
        "guard_paid_by_plain_store",
        "guards: two ask where there is time for one",
        "2 guards were afforded",
    );
}

#[test]
fn depot_look_loses_what_was_displaced() {
    must_find_in(
        "depot_look_loses_what_was_displaced",
        "a block is looked for in the depot while another puts",
        "magazines are out",
    );
}

#[test]
fn depot_look_by_plain_store() {
    must_find_in(
        "depot_look_by_plain_store",
        "a block is looked for in the depot while another gets it",
        "Causality violation",
    );
}

#[test]
fn guard_ring_by_plain_store() {
    must_find_in(
        "guard_ring_by_plain_store",
        "guards: one takes what another puts",
        "are in hands",
    );
}

#[test]
fn guard_shown_too_early() {
    must_find_in(
        "guard_shown_too_early",
        "guards: a touch while the block is replaced",
        "a live block of",
    );
}

/// It was so once.
#[test]
fn guard_words_relaxed() {
    must_find_in(
        "guard_words_relaxed",
        "guards: a touch while the block is replaced",
        "a live block of",
    );
}

/// The end writes into the header that the other call reads.
fn must_find_ended(variant: &str) {
    must_find_in(
        variant,
        "heaps: a checked heap is destroyed while its block is freed",
        "Causality",
    );
}

#[test]
fn hardened_block_freed_twice() {
    must_find_in(
        "hardened_block_freed_twice",
        "hardened: two free one block",
        "",
    );
}

#[test]
fn hardened_delay_by_plain_store() {
    must_find_in(
        "hardened_delay_by_plain_store",
        "hardened: what waits is put and taken by two",
        "",
    );
}

#[test]
fn hardened_delay_relaxed() {
    must_find_in(
        "hardened_delay_relaxed",
        "hardened: what waits is put and taken by two",
        "",
    );
}

#[test]
fn hardened_block_taken_twice() {
    must_find_in(
        "hardened_block_taken_twice",
        "hardened: two take from one slab",
        "",
    );
}

#[test]
fn quarantine_by_plain_store() {
    must_find_in(
        "quarantine_by_plain_store",
        "quarantine: two put, and the oldest leave",
        "",
    );
}

#[test]
fn quarantine_place_passed() {
    must_find_in(
        "quarantine_place_passed",
        "quarantine: one puts while another lets all go",
        "at a place that was passed",
    );
}

#[test]
fn quarantine_relaxed() {
    must_find_in(
        "quarantine_relaxed",
        "quarantine: two put, and the oldest leave",
        "Causality",
    );
}

#[test]
fn quarantine_puts_back_blindly() {
    must_find_in(
        "quarantine_puts_back_blindly",
        "quarantine: all are looked at while others put and leave",
        "are not those of the blocks that wait",
    );
}

#[test]
fn defer_one_epoch_short() {
    must_find_in("defer_one_epoch_short", "defer: a reader passes", "");
}

/// It was so once.
#[test]
fn defer_late_reader_overlooked() {
    must_find_in(
        "defer_late_reader_overlooked",
        "defer: another frees while a reader comes late",
        "",
    );
}

#[test]
fn defer_online_without_fence() {
    must_find_in(
        "defer_online_without_fence",
        "defer: a reader comes late",
        "",
    );
}

#[test]
fn defer_pass_relaxed() {
    must_find_in("defer_pass_relaxed", "defer: a reader passes", "Causality");
}
