//! What the library has counted of its heap, as the split wants it.

use profile_file::layout::{self, ClassUse};
use profile_file::{Absent, Amount, Snapshot, View};

use super::heap::{Class, Counted, Measured, Slots};

/// All that the counted parts would be, were all of it resident.
pub fn everything(counted: &Counted) -> u64 {
    counted
        .live
        .saturating_sub(counted.slots.absent + counted.absent.unwrap_or(0))
        + counted.cached
        + counted.free.saturating_sub(counted.free_given_back)
        + counted
            .measured
            .map_or(counted.dirty, |it| it.free_slots + it.fresh)
        + counted.own
        + counted.freed_since
}

pub fn counted(snapshot: &Snapshot) -> Counted {
    let Some(statistics) = &snapshot.profile.statistics else {
        return Counted::default();
    };
    let rows = snapshot.rows();
    let measured = statistics.measured == 1;
    // By who counted last: this command in the program's memory, or the program.
    let by_library = Absent {
        live: statistics.absent_held_bytes,
        cached: statistics.absent_cached_bytes,
    };
    let asked = measured && by_library.live + by_library.cached > 0;
    let absent = snapshot.profile.absent.or(asked.then_some(by_library));
    let used = |class_use: ClassUse| {
        let rows = rows.iter().skip(1);
        rows.filter(move |row| row.class_use() == Some(class_use))
    };
    Counted {
        live: statistics.live_bytes,
        live_error: 0,
        slots: Slots {
            blocks: used(ClassUse::Samples)
                .filter(|row| row.live > 0)
                .map(|row| (row.size, row.live))
                .collect(),
            absent: if measured {
                statistics.absent_live_bytes
            } else {
                0
            },
        },
        short: snapshot.profile.control.lost_samples != 0,
        interval: snapshot.interval(),
        absent: absent.map(|absent| absent.live),
        cached: statistics
            .cached_bytes
            .saturating_sub(absent.map_or(0, |absent| absent.cached)),
        free: statistics.free_bytes,
        free_given_back: statistics.purged_in_slabs_bytes
            + if measured {
                statistics.absent_free_bytes
            } else {
                0
            },
        fresh: statistics.fresh_bytes,
        dirty: statistics.dirty_bytes,
        measured: measured.then_some(Measured {
            free_slots: statistics.resident_free_bytes,
            fresh: statistics.resident_fresh_bytes,
        }),
        own: used(ClassUse::Own)
            .map(|row| row.made.saturating_mul(row.size))
            .sum(),
        freed_since: 0,
        classes: used(ClassUse::Program).map(class).collect(),
    }
}

fn class(row: &layout::Row) -> Class {
    Class {
        size: row.size,
        slabs: row.slabs,
        room: row.room,
        live: row.live,
        free: row.free,
    }
}

/// Counts that are younger are of this moment.
pub const FRESH_NS: u64 = 50_000_000;

/// How long before the program's end its statistics were taken, in seconds; none: it runs, or its end is not known, or that
/// is no time.
pub fn before_the_end(snapshot: &Snapshot) -> Option<f64> {
    let of_the_end =
        !snapshot.is_alive() && snapshot.end_is_known() && snapshot.moment_ns.is_none();
    let age = snapshot.statistics_age_ns().filter(|_| of_the_end)?;
    (age >= FRESH_NS).then_some(age as f64 / 1e9)
}

/// It was told to take none.
pub fn was_not_sampled(snapshot: &Snapshot) -> bool {
    snapshot.interval() == 0 && snapshot.sites.is_empty()
}

/// The most that was live, and what was live at last, as far as the allocator counted.
fn most_and_last(snapshot: &Snapshot) -> Option<(u64, u64)> {
    let profile = &snapshot.profile;
    let statistics = profile.statistics.as_ref()?;
    let last = statistics.live_bytes.saturating_add(statistics.huge_bytes);
    let points = profile.timeline.iter();
    let most = points.map(|point| point.live_bytes.saturating_add(point.huge_bytes));
    Some((most.max().unwrap_or(0).max(last), last))
}

/// The same of a program that was not sampled: nothing else is known of it.
pub fn without_samples(snapshot: &Snapshot) -> Option<(u64, u64)> {
    most_and_last(snapshot).filter(|_| was_not_sampled(snapshot))
}

/// What the allocator counted, where the samples are not whole.
fn instead_of_samples(snapshot: &Snapshot) -> Option<(u64, u64)> {
    let short = snapshot.profile.control.lost_samples != 0;
    most_and_last(snapshot).filter(|_| short || was_not_sampled(snapshot))
}

/// By the samples, with their error, or more if the allocator counted more than samples that are not whole.
fn more(sampled: Amount, counted: Option<u64>) -> (u64, u64) {
    let bytes = sampled.bytes.round() as u64;
    match counted.filter(|counted| *counted > bytes) {
        Some(counted) => (counted, 0),
        None => (bytes, sampled.error().round() as u64),
    }
}

/// The most that was live, and its error.
pub fn most_live(snapshot: &Snapshot) -> (u64, u64) {
    let counted = instead_of_samples(snapshot).map(|(most, _)| most);
    more(snapshot.total(View::Peak), counted)
}

/// What was live at last: as `profile` says it, and like the most that was live.
pub fn last_live(snapshot: &Snapshot) -> (u64, u64) {
    let counted = instead_of_samples(snapshot).map(|(_, last)| last);
    more(snapshot.total(View::Live), counted)
}
