//! Those of the recorder's order.

use super::*;

#[test]
fn order_note_is_anybodys() {
    must_find_in(
        "order_note_is_anybodys",
        "order: two blocks share the place of a note",
        "which is not after",
    );
}

#[test]
fn order_any_note_is_older() {
    must_find_in(
        "order_any_note_is_older",
        "order: a block goes to and fro in a region of several",
        "which is not after",
    );
}

#[test]
fn order_same_date_is_older() {
    must_find_in(
        "order_same_date_is_older",
        "order: a block goes to and fro in a region of several",
        "which is not after",
    );
}

#[test]
fn order_era_is_not_asked() {
    must_find_in(
        "order_era_is_not_asked",
        "order: an era ends",
        "which is not after",
    );
}

#[test]
fn order_era_is_not_told() {
    must_find_in(
        "order_era_is_not_told",
        "order: an era ends",
        "which is not after",
    );
}

#[test]
fn order_owner_is_not_told() {
    must_find_in(
        "order_owner_is_not_told",
        "order: a region becomes that of several",
        "which is not after",
    );
}

#[test]
fn order_note_of_two_blocks() {
    must_find_in(
        "order_note_of_two_blocks",
        "order: two blocks are closer than a note is long",
        "which is not after",
    );
}

#[test]
fn order_threads_without_number_are_one() {
    must_find_in(
        "order_threads_without_number_are_one",
        "order: threads without a number",
        "which is not after",
    );
}

#[test]
fn order_note_is_not_renewed() {
    must_find_in(
        "order_note_is_not_renewed",
        "order: a thread's own calls renew the note",
        "which is not after",
    );
}
