//! What the library has counted of its heap, as the split wants it.

use profile_file::layout::{self, ClassUse};
use profile_file::{Snapshot, View};

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
}

pub fn counted(snapshot: &Snapshot) -> Counted {
    let Some(statistics) = &snapshot.profile.statistics else {
        return Counted::default();
    };
    let rows = snapshot.rows();
    let absent = snapshot.profile.absent;
    let measured = statistics.measured == 1;
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

/// The most that was live: by the samples, and where some of them were lost also by what the allocator counted.
pub fn most_live(snapshot: &Snapshot) -> u64 {
    let profile = &snapshot.profile;
    let sampled = profile.control.peak_bytes;
    if profile.control.lost_samples == 0 {
        return sampled;
    }
    let points = profile.timeline.iter();
    let points = points.map(|point| point.live_bytes.saturating_add(point.huge_bytes));
    let last = profile.statistics.as_ref();
    let last = last.map(|it| it.live_bytes.saturating_add(it.huge_bytes));
    points.chain(last).max().unwrap_or(0).max(sampled)
}

/// What was live at last: as `profile` says it, and like the most that was live.
pub fn last_live(snapshot: &Snapshot) -> u64 {
    let sampled = snapshot.total(View::Live).bytes.round() as u64;
    let counted = snapshot.profile.statistics.as_ref();
    match counted.filter(|_| snapshot.profile.control.lost_samples != 0) {
        Some(it) => it.live_bytes.saturating_add(it.huge_bytes),
        None => sampled,
    }
}
