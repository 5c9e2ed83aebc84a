//! The families of figures: their names, units and help, and where each is found.

use profile_file::layout::{Figures, Row};
use profile_file::{Snapshot, View};

/// A family of one figure.
pub struct Field<T> {
    /// Without the prefix and, of a counter, without `_total`.
    pub name: &'static str,
    pub unit: Option<&'static str>,
    pub counter: bool,
    pub help: &'static str,
    pub value: fn(&T) -> u64,
}

const fn gauge<T>(
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    value: fn(&T) -> u64,
) -> Field<T> {
    Field {
        name,
        unit,
        counter: false,
        help,
        value,
    }
}

const fn counter<T>(
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    value: fn(&T) -> u64,
) -> Field<T> {
    Field {
        name,
        unit,
        counter: true,
        help,
        value,
    }
}

pub const FIELDS: &[Field<Figures>] = &[
    gauge(
        "live_bytes",
        Some("bytes"),
        "Blocks of up to 2 MiB that the program holds.",
        |f| f.live_bytes,
    ),
    gauge(
        "live_blocks",
        None,
        "Blocks of up to 2 MiB that the program holds.",
        |f| f.live_blocks,
    ),
    gauge(
        "cached_bytes",
        Some("bytes"),
        "Free blocks at hand for threads: in magazines and depots.",
        |f| f.cached_bytes,
    ),
    gauge(
        "thread_cached_bytes",
        Some("bytes"),
        "Of the cached bytes, those in threads' own magazines.",
        |f| f.thread_cached_bytes,
    ),
    gauge(
        "free_bytes",
        Some("bytes"),
        "Free blocks in slabs that are in use.",
        |f| f.free_bytes,
    ),
    gauge(
        "purged_in_slabs_bytes",
        Some("bytes"),
        "Of the free bytes, whole pages that were given back to the system.",
        |f| f.purged_in_slabs_bytes,
    ),
    gauge(
        "fresh_bytes",
        Some("bytes"),
        "Parts of slabs that were never handed out; mostly not resident.",
        |f| f.fresh_bytes,
    ),
    gauge(
        "dirty_bytes",
        Some("bytes"),
        "Free slots that still have memory behind them.",
        |f| f.dirty_bytes,
    ),
    gauge(
        "unbacked_bytes",
        Some("bytes"),
        "Free slots without memory: given back, or never used.",
        |f| f.purged_bytes,
    ),
    gauge(
        "huge_bytes",
        Some("bytes"),
        "Live blocks above 2 MiB, each with a mapping of its own.",
        |f| f.huge_bytes,
    ),
    gauge("huge_blocks", None, "Live blocks above 2 MiB.", |f| {
        f.huge_blocks
    }),
    gauge(
        "huge_cached_bytes",
        Some("bytes"),
        "Freed mappings kept for the next request.",
        |f| f.huge_cached_bytes,
    ),
    gauge(
        "metadata_bytes",
        Some("bytes"),
        "Records about the heap, magazines and thread caches.",
        |f| f.metadata_bytes,
    ),
    gauge(
        "observer_bytes",
        Some("bytes"),
        "Private memory of the observer.",
        |f| f.observer_bytes,
    ),
    gauge(
        "mapped_bytes",
        Some("bytes"),
        "Address space in use by chunks and huge blocks.",
        |f| f.mapped_bytes,
    ),
    gauge(
        "process_resident_bytes",
        Some("bytes"),
        "Memory of the whole process, as the system says.",
        |f| f.resident_bytes,
    ),
    gauge(
        "chunks",
        None,
        "Chunks of 4 MiB taken from the system.",
        |f| f.chunks,
    ),
    gauge(
        "free_chunks",
        None,
        "Of the chunks, those in which nothing is in use.",
        |f| f.free_chunks,
    ),
    gauge(
        "huge_page_chunks",
        None,
        "Chunks for which huge pages were asked for.",
        |f| f.huge_page_chunks,
    ),
    gauge("threads", None, "Threads that have a cache.", |f| f.threads),
    gauge(
        "limit_soft_bytes",
        Some("bytes"),
        "The program's own soft limit; 0 is none.",
        |f| f.limit_soft,
    ),
    gauge(
        "limit_hard_bytes",
        Some("bytes"),
        "The program's own hard limit; 0 is none.",
        |f| f.limit_hard,
    ),
    gauge(
        "limit_in_use_bytes",
        Some("bytes"),
        "What counts against the limits: in use, or free with memory.",
        |f| f.limit_in_use,
    ),
    gauge(
        "group_limit_bytes",
        Some("bytes"),
        "The control group's limit that is nearest; 0 is none.",
        |f| f.group_limit,
    ),
    gauge(
        "group_used_bytes",
        Some("bytes"),
        "What that control group uses, without what can be dropped.",
        |f| f.group_used,
    ),
    counter(
        "limit_refusals",
        None,
        "Claims that the hard limit refused.",
        |f| f.limit_refusals,
    ),
    counter("refills", None, "Magazines filled for threads.", |f| {
        f.refills
    }),
    counter("flushes", None, "Magazines of threads emptied.", |f| {
        f.flushes
    }),
    counter(
        "from_depot",
        None,
        "Of the refills, those by a whole magazine of the depot.",
        |f| f.from_depot,
    ),
    counter(
        "to_depot",
        None,
        "Of the flushes, those of a whole magazine to the depot.",
        |f| f.to_depot,
    ),
    counter(
        "purge_calls",
        None,
        "Calls of the system that gave memory back.",
        |f| f.purge_calls,
    ),
    counter(
        "given_back_bytes",
        Some("bytes"),
        "Bytes of the ranges given back by these calls.",
        |f| f.purged_total_bytes,
    ),
    counter(
        "system_maps",
        None,
        "Calls of the system that made or changed a mapping.",
        |f| f.system_maps,
    ),
    counter(
        "system_unmaps",
        None,
        "Calls of the system that ended a mapping.",
        |f| f.system_unmaps,
    ),
];

pub const ROWS: &[Field<Row>] = &[
    gauge(
        "class_slabs",
        None,
        "Slabs of the size class in use, or runs of that length.",
        |r| r.slabs,
    ),
    gauge(
        "class_slots",
        None,
        "Slots of 64 KiB that they take.",
        |r| r.slots,
    ),
    gauge("class_room", None, "Blocks that fit into them.", |r| r.room),
    gauge(
        "class_made",
        None,
        "Blocks of them handed out at least once.",
        |r| r.made,
    ),
    gauge("class_free", None, "Free blocks in them.", |r| r.free),
    gauge(
        "class_cached",
        None,
        "Free blocks at hand for threads.",
        |r| r.cached,
    ),
    gauge("class_live", None, "Blocks that the program holds.", |r| {
        r.live
    }),
    gauge(
        "class_sampled",
        None,
        "Of the live blocks, those that are sampled.",
        |r| r.sampled,
    ),
];

/// What only the page knows.
pub const SAMPLES: &[Field<Snapshot>] = &[
    gauge(
        "sample_interval_bytes",
        Some("bytes"),
        "Mean bytes between two samples; 0 is none.",
        Snapshot::interval,
    ),
    gauge(
        "sampled_live_bytes",
        Some("bytes"),
        "Bytes that the program holds as it asked for them, by the samples.",
        |s| s.total(View::Live).bytes.round() as u64,
    ),
    gauge(
        "sampled_peak_bytes",
        Some("bytes"),
        "The highest value of the sampled live bytes.",
        |s| s.page.control.peak_bytes,
    ),
    gauge("sites", None, "Call sites that have been sampled.", |s| {
        s.sites.len() as u64
    }),
    counter("samples", None, "Samples taken.", |s| s.page.control.taken),
    counter(
        "samples_lost",
        None,
        "Samples that there was no room for.",
        |s| s.page.control.lost_samples,
    ),
];
