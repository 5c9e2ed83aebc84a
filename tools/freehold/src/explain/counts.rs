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
    let Some(figures) = &snapshot.page.figures else {
        return Counted::default();
    };
    let rows = snapshot.rows();
    let used = |class_use: ClassUse| {
        let rows = rows.iter().skip(1);
        rows.filter(move |row| row.class_use() == Some(class_use))
    };
    Counted {
        live: figures.live_bytes,
        live_error: 0,
        cached: figures.cached_bytes,
        free: figures.free_bytes,
        free_given_back: figures.purged_in_slabs_bytes,
        fresh: figures.fresh_bytes,
        dirty: figures.dirty_bytes,
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

pub fn moments(snapshot: &Snapshot) -> Vec<trend::Moment> {
    snapshot
        .page
        .timeline
        .iter()
        .map(|moment| trend::Moment {
            ns: moment.ns,
            live: moment.live_bytes + moment.huge_bytes,
            resident: moment.resident_bytes,
        })
        .collect()
}
