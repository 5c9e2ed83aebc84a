//! Every seeded bug must be found. A checker that passes a broken twin says nothing about the original.

use freehold_model::explore::{Bounds, every_interleaving};
use freehold_model::program::Scenario;
use freehold_model::scenarios;

/// Few preemptions first: most bugs need only one or two, and the space grows fast.
fn must_find(variant: &str, scenario: &Scenario, said: &str) {
    for preemptions in 0..=3 {
        let outcome = every_interleaving(
            variant,
            scenario,
            Bounds {
                preemptions: Some(preemptions),
                seconds: 120,
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
fn unchecked_class() {
    must_find_in(
        "unchecked_class",
        "a slab becomes another class under a taker",
        "",
    );
}

#[test]
fn unmark_without_second_look() {
    must_find_in(
        "unmark_without_second_look",
        "a taker unmarks what a giver fills",
        "is marked",
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
        "is marked",
    );
}

#[test]
fn purged_slots_counted_twice() {
    must_find_in(
        "purged_slots_counted_twice",
        "two purge the same chunk",
        "dirty slots",
    );
}

#[test]
fn failed_release_without_mark() {
    must_find_in(
        "failed_release_without_mark",
        "a release fails because blocks never handed out are taken",
        "is marked",
    );
}

#[test]
fn plain_claim() {
    must_find_in("plain_claim", "two claim runs", "");
}

/// The linked stack with a plain compare-and-swap: what all of the five old allocators stumbled over.
#[test]
fn linked_stack() {
    must_find("real", &scenarios::aba(), "handed out twice");
}
