//! Splits what Freehold has in memory into what it is good for.
//!
//! Each part is measured by itself: live and free blocks are counted by the allocator, what was asked for of them and how
//! much of it was touched is known from samples, and of room without blocks the kernel says what is in memory. The kernel
//! also says how much there is in all. What that is beyond the parts, or short of them, is a part by its own name. Nothing
//! is made to fit.

use super::heap::{Counted, Sample, class_size};
use super::lost;

/// How a number is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Certainty {
    /// The kernel said it.
    Exact,
    /// Counted or estimated; it may be off by about this many bytes.
    About(u64),
}

/// A part of the resident memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub key: &'static str,
    pub label: &'static str,
    /// Below zero only of what is unexplained: less is there than was counted.
    pub bytes: i64,
    pub certainty: Certainty,
}

/// The window without live blocks above 2 MiB, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    pub parts: Vec<Part>,
    /// What is resident less all other parts.
    pub unexplained: i64,
    /// Bytes of live blocks that were never touched, and so are not in memory.
    pub untouched: u64,
}

const PAGE: u64 = 4096;

/// Of the bytes between a request and its class, those that are in memory. Where the kernel was not asked: whole pages
/// behind the last byte asked for are not touched.
fn rounding(sample: &Sample, class: u64) -> u64 {
    let all = class.saturating_sub(sample.size);
    match sample.beyond {
        Some(there) => there.min(all),
        None if all >= PAGE => sample.size.next_multiple_of(PAGE) - sample.size,
        None => all,
    }
}

/// Bytes of a sampled block that were never touched.
fn missing(sample: &Sample) -> u64 {
    sample
        .resident
        .filter(|_| sample.size >= PAGE)
        .map_or(0, |resident| sample.size.saturating_sub(resident))
}

/// Sums over the samples, as shares of the live bytes at class size, with the error of each.
struct Shares {
    requested: f64,
    rounding: f64,
    untouched: f64,
    error: f64,
}

/// What is shared out is known (the allocator counts it), so that only the ratio has to be estimated: that is much more
/// certain than the sum, as the error of the amount cancels. Samples with slots of their own stand for the others here.
fn shares(samples: &[Sample], counted: &Counted) -> Option<Shares> {
    let mut total = 0.0;
    let (mut requested, mut slack, mut untouched) = (0.0, 0.0, 0.0);
    let mut terms = Vec::with_capacity(samples.len());
    for sample in samples {
        let class = class_size(sample.size, &counted.classes);
        let missing = missing(sample);
        let blocks = match counted.slot_of(sample) {
            Some(_) => (sample.blocks - 1.0).max(0.0),
            None => sample.blocks,
        };
        total += blocks * class as f64;
        requested += blocks * (sample.size - missing) as f64;
        slack += blocks * rounding(sample, class) as f64;
        untouched += blocks * missing as f64;
        terms.push((
            blocks * (sample.size - missing) as f64,
            blocks * class as f64,
        ));
    }
    if total <= 0.0 {
        return None;
    }
    let ratio = requested / total;
    let variance: f64 = terms.iter().map(|(a, b)| (a - ratio * b).powi(2)).sum();
    Some(Shares {
        requested: ratio,
        rounding: slack / total,
        untouched: untouched / total,
        error: variance.sqrt() / total,
    })
}

/// Splits `resident` bytes of the window.
pub fn split(resident: u64, counted: &Counted, samples: &[Sample]) -> Split {
    if *counted == Counted::default() {
        return Split {
            parts: vec![Part {
                key: "unknown",
                label: "blocks, of which nothing was counted yet",
                bytes: resident as i64,
                certainty: Certainty::Exact,
            }],
            unexplained: 0,
            untouched: 0,
        };
    }
    let mut parts = Vec::new();
    let untouched = live_parts(&mut parts, counted, samples);
    let mut part = |key, label, bytes: u64, error: u64| {
        parts.push(Part {
            key,
            label,
            bytes: bytes as i64,
            certainty: Certainty::About(error),
        });
    };
    let free = counted.free.saturating_sub(counted.free_given_back);
    let (dirty, fresh) = match counted.measured {
        Some(measured) => (measured.free_slots, measured.fresh),
        None => (counted.dirty, 0),
    };
    part(
        "free_in_slabs",
        "free space in partly used slabs",
        free,
        counted.live_error,
    );
    part(
        "cached",
        "caches of threads and the depot",
        counted.cached,
        0,
    );
    part("dirty", "free, waiting to be returned to the OS", dirty, 0);
    part(
        "freed_since",
        "freed since the count: perhaps still resident",
        counted.freed_since,
        counted.live_error,
    );
    part("own", "magazines and thread caches", counted.own, 0);
    part("fresh", "room in slabs not yet used", fresh, 0);
    let sum: i64 = parts.iter().map(|part| part.bytes).sum();
    let unexplained = resident as i64 - sum;
    parts.push(Part {
        key: "unexplained",
        label: "unexplained",
        bytes: unexplained,
        certainty: Certainty::About(counted.live_error),
    });
    Split {
        parts,
        unexplained,
        untouched,
    }
}

/// Sampled blocks in slots of their own, of powers of two. What a slot has beyond the size class comes from observing.
#[derive(Default)]
struct InSlots {
    asked: f64,
    rounding: f64,
    room: f64,
    untouched: u64,
    error: f64,
}

fn in_slots(counted: &Counted, samples: &[Sample]) -> InSlots {
    let there = counted.slots.live().saturating_sub(counted.slots.absent) as f64;
    let lost = lost::in_slots(counted, samples);
    let (mut asked, mut rounded, mut untouched) = (lost.asked, lost.at_class - lost.asked, 0);
    // The others are known one by one.
    for sample in samples.iter().filter(|s| counted.slot_of(s).is_some()) {
        let missing = missing(sample);
        asked += (sample.size - missing) as f64;
        rounded += rounding(sample, class_size(sample.size, &counted.classes)) as f64;
        untouched += missing;
    }
    let asked = asked.min(there);
    let rounding = rounded.min(there - asked);
    InSlots {
        asked,
        rounding,
        room: there - asked - rounding,
        untouched,
        error: lost.error,
    }
}

/// What the program asked for, the rounding, and what sampled blocks have beyond it. Returns what was never touched.
fn live_parts(parts: &mut Vec<Part>, counted: &Counted, samples: &[Sample]) -> u64 {
    let slots = in_slots(counted, samples);
    let live = counted.live.saturating_sub(counted.slots.live()) as f64;
    let live_error = counted.live_error as f64;
    let mut part = |key, label, bytes: f64, error: f64| {
        parts.push(Part {
            key,
            label,
            bytes: bytes.round() as i64,
            certainty: Certainty::About(error.round() as u64),
        });
    };
    let (others, unsure) = lost::others(counted, samples);
    let shares = match shares(&others, counted) {
        Some(shares) => shares,
        // Each block was sampled.
        None if !counted.slots.blocks.is_empty() => Shares {
            requested: 1.0,
            rounding: 0.0,
            untouched: 0.0,
            error: 0.1,
        },
        None => {
            let absent = live.min(counted.absent.unwrap_or(0) as f64);
            let there = live - absent;
            part("live", "live blocks, with rounding", there, there / 9.0);
            return absent as u64;
        }
    };
    let error = live * shares.error + unsure;
    let label = "live: what the program asked for";
    // Where the kernel was asked of each block, samples need only tell the rounding.
    let absent = match counted.absent {
        Some(absent) => live.min(absent as f64),
        None => live * shares.untouched,
    };
    let rounding = (live * shares.rounding).min(live - absent);
    let requested = match counted.absent {
        Some(_) => live - absent - rounding,
        None => live * shares.requested,
    };
    let all = error + slots.error;
    part("live", label, requested + slots.asked, all + live_error);
    let label = "rounding up to size classes";
    part("rounding", label, rounding + slots.rounding, all);
    let label = "room of sampled blocks: each has a power of two";
    part("sample_room", label, slots.room, slots.error);
    absent.round() as u64 + slots.untouched
}

#[cfg(test)]
mod tests {
    use super::super::heap::testing::{classes, sample};
    use super::super::heap::{Measured, Slots};
    use super::*;

    fn bytes(split: &Split, key: &str) -> i64 {
        let part = split.parts.iter().find(|part| part.key == key);
        part.map_or(0, |part| part.bytes)
    }

    fn sum(split: &Split) -> i64 {
        split.parts.iter().map(|part| part.bytes).sum()
    }

    #[test]
    fn each_part_is_as_it_was_measured_and_the_rest_has_a_name() {
        let counted = Counted {
            live: 48_000,
            cached: 4_800,
            free: 20_000,
            free_given_back: 4_096,
            fresh: 100_000,
            dirty: 65_536,
            own: 8_192,
            measured: Some(Measured {
                free_slots: 61_440,
                fresh: 12_288,
            }),
            classes: classes(),
            ..Counted::default()
        };
        // Each block of 48 was asked for with 40.
        for (resident, unexplained) in [(160_000, 9376), (100_000, -50_624)] {
            let split = split(resident, &counted, &[sample(40, 1000.0)]);
            assert_eq!(sum(&split), resident as i64);
            assert_eq!(bytes(&split, "live"), 40_000);
            assert_eq!(bytes(&split, "rounding"), 8_000);
            assert_eq!(bytes(&split, "free_in_slabs"), 15_904);
            assert_eq!(bytes(&split, "dirty"), 61_440);
            assert_eq!(bytes(&split, "fresh"), 12_288);
            assert_eq!(bytes(&split, "unexplained"), unexplained);
            assert_eq!(split.unexplained, unexplained);
        }
    }

    #[test]
    fn what_the_kernel_was_not_asked_about_is_not_guessed() {
        let counted = Counted {
            live: 1000,
            fresh: 5000,
            dirty: 300,
            classes: classes(),
            ..Counted::default()
        };
        let split = split(3000, &counted, &[sample(16, 3.0)]);
        assert_eq!((bytes(&split, "dirty"), bytes(&split, "fresh")), (300, 0));
        assert_eq!(split.unexplained, 1700);
    }

    #[test]
    fn rounding_counts_only_pages_that_somebody_touches() {
        assert_eq!(rounding(&sample(40, 1.0), 48), 8);
        assert_eq!(rounding(&sample(65_537, 1.0), 131_072), 4095);
        assert_eq!(rounding(&sample(69_632, 1.0), 131_072), 0);
        // On a huge page they are there all the same.
        let huge = Sample {
            beyond: Some(65_535),
            ..sample(65_537, 1.0)
        };
        assert_eq!(rounding(&huge, 131_072), 65_535);
    }

    #[test]
    fn blocks_that_were_never_touched_are_not_in_memory() {
        let counted = Counted {
            live: 200 * 131_072,
            classes: classes(),
            ..Counted::default()
        };
        let half = Sample {
            resident: Some(65_536),
            ..sample(131_072, 200.0)
        };
        let split = split(200 * 65_536, &counted, &[half]);
        assert_eq!(split.untouched, 200 * 65_536);
        assert_eq!(bytes(&split, "live"), 200 * 65_536);
        assert_eq!(split.unexplained, 0);
    }

    /// What no sample shows, the kernel does, where it was asked of each block.
    #[test]
    fn absence_that_was_measured_comes_before_that_of_samples() {
        let counted = Counted {
            live: 48_000,
            absent: Some(12_288),
            classes: classes(),
            ..Counted::default()
        };
        let with = split(35_712, &counted, &[sample(40, 1000.0)]);
        assert_eq!(bytes(&with, "live"), 48_000 - 12_288 - 8_000);
        assert_eq!(bytes(&with, "rounding"), 8_000);
        assert_eq!((with.unexplained, with.untouched), (0, 12_288));
        let without = split(35_712, &counted, &[]);
        assert_eq!(bytes(&without, "live"), 35_712);
        assert_eq!(without.untouched, 12_288);
    }

    #[test]
    fn samples_in_slots_of_their_own_are_known_one_by_one() {
        // Ten blocks of 3000, of which two are sampled, in slots of 4 KiB. Of these 1 KiB is not in memory.
        let counted = Counted {
            live: 8 * 4096 + 2 * 4096,
            slots: Slots {
                blocks: [(4096, 2)].into(),
                absent: 1024,
            },
            classes: classes(),
            ..Counted::default()
        };
        let split = split(9 * 4096, &counted, &[sample(3000, 5.0), sample(3000, 5.0)]);
        assert_eq!(bytes(&split, "live"), 10 * 3000);
        assert_eq!(bytes(&split, "rounding"), 10 * 1096 - 1024);
        assert_eq!(split.unexplained, 1024 - 4096);
    }

    /// Rounding is what it would be without observing.
    #[test]
    fn what_slots_of_samples_have_beyond_the_class_is_no_rounding() {
        // Ten blocks of 40 in blocks of 48, of which two are sampled, in slots of 64.
        let counted = Counted {
            live: 8 * 48 + 2 * 64,
            slots: Slots {
                blocks: [(64, 2)].into(),
                absent: 0,
            },
            classes: classes(),
            ..Counted::default()
        };
        let split = split(
            8 * 48 + 2 * 64,
            &counted,
            &[sample(40, 5.0), sample(40, 5.0)],
        );
        let found = ["live", "rounding", "sample_room"].map(|key| bytes(&split, key));
        assert_eq!(found, [400, 80, 32]);
        assert_eq!(split.unexplained, 0);
    }

    #[test]
    fn without_samples_live_and_rounding_are_one() {
        let counted = Counted {
            live: 900,
            classes: classes(),
            ..Counted::default()
        };
        let split = split(900, &counted, &[]);
        assert_eq!(split.parts[0].label, "live blocks, with rounding");
        assert_eq!(split.parts[0].certainty, Certainty::About(100));
        assert_eq!(sum(&split), 900);
    }

    #[test]
    fn without_figures_nothing_is_claimed() {
        let split = split(12_345, &Counted::default(), &[]);
        assert_eq!(split.parts.len(), 1);
        assert_eq!(
            (split.parts[0].key, split.parts[0].bytes),
            ("unknown", 12_345)
        );
    }

    #[test]
    fn the_error_is_that_of_the_ratio() {
        let counted = Counted {
            live: 96_000,
            classes: classes(),
            ..Counted::default()
        };
        // All of one size: however few samples, the ratio is certain.
        let sure = split(96_000, &counted, &[sample(40, 7.0), sample(40, 900.0)]);
        assert_eq!(sure.parts[0].certainty, Certainty::About(0));
        let unsure = split(96_000, &counted, &[sample(17, 10.0), sample(48, 10.0)]);
        assert!(matches!(unsure.parts[0].certainty, Certainty::About(error) if error > 1000));
    }
}
