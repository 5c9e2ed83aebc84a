//! What the library has counted of its heap, as the split and the trend want it.

use profile_file::Snapshot;
use profile_file::layout::{self, ClassUse};

use super::heap::{Class, Counted};
use super::trend;

/// All that the counted parts would be, were all of it resident.
pub fn everything(counted: &Counted) -> u64 {
    counted.live
        + counted.cached
        + counted.free.saturating_sub(counted.free_given_back)
        + counted.dirty
        + counted.own
}

pub fn counted(snapshot: &Snapshot) -> Counted {
    let Some(statistics) = &snapshot.profile.statistics else {
        return Counted::default();
    };
    let rows = snapshot.rows();
    let used = |class_use: ClassUse| {
        let rows = rows.iter().skip(1);
        rows.filter(move |row| row.class_use() == Some(class_use))
    };
    Counted {
        live: statistics.live_bytes,
        live_error: 0,
        cached: statistics.cached_bytes,
        free: statistics.free_bytes,
        free_given_back: statistics.purged_in_slabs_bytes,
        fresh: statistics.fresh_bytes,
        dirty: statistics.dirty_bytes,
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

pub fn points(snapshot: &Snapshot) -> Vec<trend::Point> {
    snapshot
        .profile
        .timeline
        .iter()
        .map(|point| trend::Point {
            ns: point.ns,
            live: point.live_bytes + point.huge_bytes,
            resident: point.resident_bytes,
        })
        .collect()
}
