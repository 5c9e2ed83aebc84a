//! The families that come out of samples. The library does not have them, so they are not in its contract.

use profile_file::statistics::Statistic;
use profile_file::{Snapshot, View};

const fn gauge(
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    value: fn(&Snapshot) -> u64,
) -> Statistic<Snapshot> {
    Statistic {
        name,
        unit,
        counter: false,
        help,
        value,
    }
}

const fn counter(
    name: &'static str,
    help: &'static str,
    value: fn(&Snapshot) -> u64,
) -> Statistic<Snapshot> {
    Statistic {
        name,
        unit: None,
        counter: true,
        help,
        value,
    }
}

/// What only the profile file knows.
pub const SAMPLES: &[Statistic<Snapshot>] = &[
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
        |s| s.profile.control.peak_bytes,
    ),
    gauge("sites", None, "Call sites that have been sampled.", |s| {
        s.sites.len() as u64
    }),
    counter("samples", "Samples taken.", |s| s.profile.control.taken),
    counter("samples_lost", "Samples that there was no room for.", |s| {
        s.profile.control.lost_samples
    }),
];
