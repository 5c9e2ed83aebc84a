//! Those of heaps of the embedding API.

use super::*;

#[test]
fn heap_units_by_plain_store() {
    must_find_in(
        "heap_units_by_plain_store",
        "heaps: two take and free units",
        "before & own",
    );
}

#[test]
fn heap_block_by_plain_store() {
    must_find_in(
        "heap_block_by_plain_store",
        "heaps: two take and free of an extent",
        "",
    );
}

#[test]
fn heap_charged_by_plain_store() {
    must_find_in(
        "heap_charged_by_plain_store",
        "heaps: two charge a parent that has room for one",
        "beyond",
    );
}

#[test]
fn heap_use_without_second_look() {
    must_find_ended("heap_use_without_second_look");
}

#[test]
fn heap_use_without_fence() {
    must_find_ended("heap_use_without_fence");
}

#[test]
fn heap_end_without_fence() {
    must_find_ended("heap_end_without_fence");
}

#[test]
fn heap_extent_retired_unclaimed() {
    must_find_in(
        "heap_extent_retired_unclaimed",
        "heaps: an extent is retired while another takes of it",
        "are in hands",
    );
}

fn must_find_forgotten(variant: &str, name: &str) {
    must_find_in(variant, name, "an extent with a free block is forgotten");
}

#[test]
fn heap_extent_closed_without_second_look() {
    must_find_forgotten(
        "heap_extent_closed_without_second_look",
        "heaps: an extent is closed while a block of it is freed",
    );
}

#[test]
fn heap_extent_closed_without_fence() {
    must_find_forgotten(
        "heap_extent_closed_without_fence",
        "heaps: an extent is closed while a block of it is freed",
    );
}

#[test]
fn heap_stripe_by_plain_store() {
    must_find_in(
        "heap_stripe_by_plain_store",
        "heaps: two take over the stripe of one that is gone",
        "",
    );
}

#[test]
fn heap_stripe_owner_relaxed() {
    must_find_in(
        "heap_stripe_owner_relaxed",
        "heaps: two take over the stripe of one that is gone",
        "",
    );
}

#[test]
fn heap_stripe_of_a_living_thread() {
    must_find_in(
        "heap_stripe_of_a_living_thread",
        "heaps: two want the only stripe",
        "",
    );
}

#[test]
fn heap_stripe_gives_back_what_it_keeps() {
    must_find_in(
        "heap_stripe_gives_back_what_it_keeps",
        "heaps: a full stripe gives back while another takes by bits",
        "",
    );
}

#[test]
fn heap_stripe_gives_back_by_plain_store() {
    must_find_in(
        "heap_stripe_gives_back_by_plain_store",
        "heaps: a full stripe gives back while another takes by bits",
        "",
    );
}

#[test]
fn heap_stripe_ends_unseen() {
    must_find_in(
        "heap_stripe_ends_unseen",
        "heaps: a stripe is left while another wants it",
        "",
    );
}

#[test]
fn heap_extent_almost_retired_stays_closed() {
    must_find_forgotten(
        "heap_extent_almost_retired_stays_closed",
        "heaps: an extent is almost retired, and closed meanwhile",
    );
}

#[test]
fn heap_stack_without_count() {
    must_find_in(
        "heap_stack_without_count",
        "heaps: an extent is closed, and opened again meanwhile",
        "is on the stack",
    );
}

#[test]
fn bounded_block_by_plain_store() {
    must_find_in(
        "bounded_block_by_plain_store",
        "heaps: two take blocks of a bounded slab",
        "",
    );
}

#[test]
fn bounded_slab_made_by_plain_store() {
    must_find_in(
        "bounded_slab_made_by_plain_store",
        "heaps: two want the only slab of a bounded one",
        "",
    );
}

#[test]
fn bounded_room_without_second_look() {
    must_find_in(
        "bounded_room_without_second_look",
        "heaps: a bounded slab is full, and is left, at once",
        "a slab with room is forgotten",
    );
}

#[test]
fn bounded_empty_without_second_look() {
    must_find_in(
        "bounded_empty_without_second_look",
        "heaps: a bounded slab changes its class while another takes of it",
        "an empty slab is forgotten",
    );
}

#[test]
fn bounded_slab_made_while_it_is_held() {
    must_find_in(
        "bounded_slab_made_while_it_is_held",
        "heaps: a bounded slab changes its class while another takes of it",
        "",
    );
}

#[test]
fn bounded_entered_whatever_it_is() {
    must_find_in(
        "bounded_entered_whatever_it_is",
        "heaps: a bounded slab changes its class while another takes of it",
        "",
    );
}

#[test]
fn bounded_run_not_undone() {
    must_find_in(
        "bounded_run_not_undone",
        "heaps: two make bounded runs that overlap",
        "for ever",
    );
}

#[test]
fn bounded_left_before_it_is_free() {
    must_find_in(
        "bounded_left_before_it_is_free",
        "heaps: a bounded slab changes its class while another takes of it",
        "",
    );
}

#[test]
fn bounded_left_by_plain_store() {
    must_find_in(
        "bounded_left_by_plain_store",
        "heaps: two take blocks of a bounded slab",
        "",
    );
}

#[test]
fn bounded_seat_behind_all_seats() {
    must_find_in(
        "bounded_seat_behind_all_seats",
        "heaps: a bounded slab is full while another one gets room",
        "a seat behind all seats",
    );
}

#[test]
fn marks_lowered_without_second_look() {
    must_find_in(
        "marks_lowered_without_second_look",
        "heaps: a bounded slab is full while another one gets room",
        "forgotten",
    );
}
