//! Splits what Freehold has in memory into what it is good for.
//!
//! Three sources, of different age and certainty: the kernel says, now and exactly, how much of Freehold's address range
//! is resident; the allocator counted, some time ago, its blocks by state; samples say, with an error, what the program
//! had asked for and which call sites hold on to what. The parts add up to what the kernel says: what is there beyond all
//! that was counted is a part of its own, and where less is there, parts are made smaller and it is told how far.

use std::collections::BTreeMap;

use profile_file::layout::SLOT_BYTES;

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
    pub bytes: u64,
    pub certainty: Certainty,
}

/// What the allocator counted, in bytes, of memory that it has from the OS.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Blocks of up to 2 MiB that the program holds, at the size of their class.
    pub live: u64,
    /// How far that may be off: nothing where it was counted.
    pub live_error: u64,
    pub cached: u64,
    /// Free blocks in slabs in use, and how much of them has been returned to the OS.
    pub free: u64,
    pub free_given_back: u64,
    /// Parts of slabs that were never handed out.
    pub fresh: u64,
    pub dirty: u64,
    /// Magazines and thread caches: the allocator's own blocks.
    pub own: u64,
    pub classes: Vec<Class>,
}

impl Counted {
    /// Brings statistics that were counted some time ago up to date with the samples, which are of this moment: what
    /// the program frees or takes in between is free space or not any more. Within four standard deviations the
    /// samples may differ by chance, and then nothing is changed. Returns what the live bytes changed by.
    pub fn catch_up(&mut self, samples: &[Sample], interval: u64) -> i64 {
        let mut now = 0.0;
        let mut variance = 0.0;
        let mut blocks: BTreeMap<u64, f64> = BTreeMap::new();
        for sample in samples {
            let size = class_size(sample.size, &self.classes);
            *blocks.entry(size).or_default() += sample.blocks;
            let class = size as f64;
            now += sample.blocks * class;
            // A sample stands for 1/P blocks, so (1 − P)/P² is blocks · (blocks − 1).
            variance += class * class * sample.blocks * (sample.blocks - 1.0).max(0.0);
        }
        // No samples have no variance, and yet may be chance: what was counted would be off by this much at most, if it
        // were still there.
        let by_chance = variance.max(self.live as f64 * interval as f64).sqrt();
        let change = now - self.live as f64;
        if change.abs() <= 4.0 * by_chance || change.abs() < self.live as f64 / 50.0 {
            // They agree; how far they are apart is what either may be off by.
            self.live_error = change.abs().round() as u64;
            return 0;
        }
        for class in &mut self.classes {
            let live = blocks
                .get(&class.size)
                .map_or(0, |blocks| blocks.round() as u64);
            class.free = (class.free + class.live).saturating_sub(live);
            class.live = live.min(class.room);
        }
        self.live = now.round() as u64;
        self.live_error = variance.sqrt().round() as u64;
        if change < 0.0 {
            self.free += (-change).round() as u64;
        } else {
            self.free -= self.free.min(change.round() as u64);
        }
        change.round() as i64
    }
}

/// A size class with free space in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    pub size: u64,
    pub slabs: u64,
    pub room: u64,
    pub live: u64,
    pub free: u64,
}

/// A block that lives and was sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// As requested.
    pub size: u64,
    /// Bytes of it that are in memory, as far as the kernel would say.
    pub resident: Option<u64>,
    /// Blocks that it stands for.
    pub blocks: f64,
    pub site: u32,
}

/// The window without live blocks above 2 MiB, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    pub parts: Vec<Part>,
    /// What the live parts were multiplied with to add up to what is resident, and what the free and cached ones.
    pub scale: f64,
    pub scale_of_free: f64,
    /// What was counted, before it was made to fit.
    pub counted: u64,
    /// Bytes of live blocks that were never touched, and so are not in memory.
    pub untouched: u64,
}

const PAGE: u64 = 4096;

/// The size that a request is rounded up to: the smallest class that fits, or whole slots.
fn class_size(size: u64, classes: &[Class]) -> u64 {
    let fitting = classes.partition_point(|class| class.size < size.max(1));
    match classes.get(fitting) {
        Some(class) => class.size,
        // Blocks above all classes take whole slots.
        None => size.max(1).next_multiple_of(SLOT_BYTES),
    }
}

/// Of the bytes between a request and its class, those that are likely to be in memory: where whole pages lie behind
/// the last byte asked for, they are not touched.
fn rounding(size: u64, class: u64) -> u64 {
    let all = class.saturating_sub(size);
    if all >= PAGE {
        size.next_multiple_of(PAGE) - size
    } else {
        all
    }
}

/// Sums over the samples, as shares of the live bytes at class size, with the error of each.
struct Shares {
    requested: f64,
    rounding: f64,
    untouched: f64,
    error: f64,
}

/// What is shared out is known (the allocator counts it), so that only the ratio has to be estimated: that is much more
/// certain than the sum, as the error of the amount cancels.
fn shares(samples: &[Sample], classes: &[Class]) -> Option<Shares> {
    let mut total = 0.0;
    let (mut requested, mut slack, mut untouched) = (0.0, 0.0, 0.0);
    let mut terms = Vec::with_capacity(samples.len());
    for sample in samples {
        let class = class_size(sample.size, classes);
        let missing = sample
            .resident
            .filter(|_| sample.size >= PAGE)
            .map_or(0, |resident| sample.size.saturating_sub(resident));
        total += sample.blocks * class as f64;
        requested += sample.blocks * (sample.size - missing) as f64;
        slack += sample.blocks * rounding(sample.size, class) as f64;
        untouched += sample.blocks * missing as f64;
        terms.push((
            sample.blocks * (sample.size - missing) as f64,
            sample.blocks * class as f64,
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

/// What live blocks (`firm`), and what is free or cached (`loose`), are multiplied with to be no more than `whole`. If less is
/// there than was counted, memory was purged since, and that was free; the live blocks are what the samples say now.
/// Nothing is ever made more: what is there beyond all that was counted is a part of its own.
fn scales(whole: f64, firm: f64, loose: f64) -> (f64, f64) {
    if whole >= firm + loose {
        (1.0, 1.0)
    } else if whole >= firm {
        (1.0, (whole - firm) / loose)
    } else {
        (whole / (firm + loose), whole / (firm + loose))
    }
}

/// Splits `resident` bytes of the window.
pub fn split(resident: u64, counted: &Counted, samples: &[Sample]) -> Split {
    let live = counted.live as f64;
    let live_error = counted.live_error as f64;
    let shares = shares(samples, &counted.classes);
    let (requested, slack, untouched, error) = match &shares {
        Some(s) => (
            live * s.requested,
            live * s.rounding,
            live * s.untouched,
            live * s.error,
        ),
        None => (live, 0.0, 0.0, 0.0),
    };
    let free = counted.free.saturating_sub(counted.free_given_back) as f64;
    let firm = requested + slack;
    let loose = counted.cached as f64 + free + counted.dirty as f64 + counted.own as f64;
    // What is there beyond the blocks that were ever used are usually pages that used and unused blocks share.
    let fresh = (resident as f64 - firm - loose).clamp(0.0, counted.fresh as f64);
    let whole = resident as f64 - fresh;
    let (scale, scale_of_free) = scales(whole, firm, loose);
    // Statistics that are older than what is there, or free slots on a huge page with others. Where nothing at all was counted
    // everything is of unknown use, see `settle`.
    let uncounted = if firm + loose > 0.0 {
        (whole - firm - loose).max(0.0)
    } else {
        0.0
    };

    let part = |key, label, bytes: f64, error: f64| {
        let factor = if matches!(key, "live" | "rounding") {
            scale
        } else {
            scale_of_free
        };
        Part {
            key,
            label,
            bytes: (bytes * factor).round() as u64,
            certainty: Certainty::About((error + (bytes * factor - bytes).abs()).round() as u64),
        }
    };
    let mut parts = Vec::new();
    if shares.is_some() {
        parts.push(part(
            "live",
            "live: what the program asked for",
            requested,
            error + live_error,
        ));
        parts.push(part(
            "rounding",
            "rounding up to size classes",
            slack,
            error,
        ));
    } else {
        parts.push(part(
            "live",
            "live blocks, with rounding",
            requested,
            live / 9.0,
        ));
    }
    parts.push(part(
        "free_in_slabs",
        "free space in partly used slabs",
        free,
        live_error,
    ));
    parts.push(part(
        "cached",
        "caches of threads and the depot",
        counted.cached as f64,
        0.0,
    ));
    parts.push(part(
        "dirty",
        "free, waiting to be returned to the OS",
        counted.dirty as f64,
        0.0,
    ));
    parts.push(part(
        "own",
        "magazines and thread caches",
        counted.own as f64,
        0.0,
    ));
    parts.push(Part {
        key: "fresh",
        label: "beginnings of slabs not yet used",
        bytes: fresh.round() as u64,
        certainty: Certainty::About((fresh / 2.0).round() as u64),
    });
    if uncounted > 0.0 {
        parts.push(Part {
            key: "uncounted",
            label: "beyond what the allocator counted",
            bytes: uncounted.round() as u64,
            certainty: Certainty::About(live_error.round() as u64),
        });
    }
    settle(&mut parts, resident);
    Split {
        parts,
        scale,
        scale_of_free,
        counted: (firm + loose + fresh).round() as u64,
        untouched: untouched.round() as u64,
    }
}

/// Rounding to whole bytes must not break the sum; the largest part bears it. Where nothing was counted, everything is
/// of unknown use.
fn settle(parts: &mut Vec<Part>, resident: u64) {
    let sum: u64 = parts.iter().map(|part| part.bytes).sum();
    let Some(largest) = parts.iter_mut().max_by_key(|part| part.bytes) else {
        return;
    };
    if largest.bytes > 0 && sum.abs_diff(resident) <= 16 {
        largest.bytes = (largest.bytes + resident).saturating_sub(sum);
    } else if sum != resident {
        parts.clear();
        parts.push(Part {
            key: "unknown",
            label: "blocks, of which nothing was counted yet",
            bytes: resident,
            certainty: Certainty::Exact,
        });
    }
}

/// A size class whose slabs hold much free space, and the call sites whose live blocks keep these slabs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pinned {
    pub size: u64,
    pub slabs: u64,
    pub free_bytes: u64,
    /// Of the blocks that fit: those that the program holds.
    pub live_share: f64,
    /// Call sites with the bytes that they have live in this class (estimated), most first.
    pub sites: Vec<(u32, u64)>,
}

/// The classes with the most free space, at most `most` of them, and none with less than a hundredth of all.
pub fn pinned(counted: &Counted, samples: &[Sample], most: usize) -> Vec<Pinned> {
    let mut classes: Vec<&Class> = counted
        .classes
        .iter()
        .filter(|class| class.free > 0)
        .collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.free * class.size));
    classes.retain(|class| class.free * class.size >= counted.free / 100);
    classes.truncate(most);
    classes
        .into_iter()
        .map(|class| {
            let mut sites: BTreeMap<u32, f64> = BTreeMap::new();
            for sample in samples {
                if class_size(sample.size, &counted.classes) == class.size {
                    *sites.entry(sample.site).or_default() += sample.blocks * sample.size as f64;
                }
            }
            let mut sites: Vec<(u32, u64)> = sites
                .into_iter()
                .map(|(site, bytes)| (site, bytes.round() as u64))
                .collect();
            sites.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
            sites.truncate(3);
            Pinned {
                size: class.size,
                slabs: class.slabs,
                free_bytes: class.free * class.size,
                live_share: class.live as f64 / class.room.max(1) as f64,
                sites,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes() -> Vec<Class> {
        [16u64, 32, 48, 64, 4096, 5120, 65_536, 131_072]
            .map(|size| Class {
                size,
                ..Class::default()
            })
            .to_vec()
    }

    fn sample(size: u64, blocks: f64) -> Sample {
        Sample {
            size,
            resident: None,
            blocks,
            site: 1,
        }
    }

    fn bytes(split: &Split, key: &str) -> u64 {
        split
            .parts
            .iter()
            .find(|part| part.key == key)
            .map_or(0, |part| part.bytes)
    }

    fn sum(split: &Split) -> u64 {
        split.parts.iter().map(|part| part.bytes).sum()
    }

    #[test]
    fn requests_fall_into_the_classes_that_fit() {
        let classes = classes();
        assert_eq!(class_size(0, &classes), 16);
        assert_eq!(class_size(16, &classes), 16);
        assert_eq!(class_size(17, &classes), 32);
        assert_eq!(class_size(131_073, &classes), 3 * SLOT_BYTES);
    }

    #[test]
    fn rounding_counts_only_pages_that_somebody_touches() {
        assert_eq!(rounding(40, 48), 8);
        assert_eq!(rounding(65_537, 131_072), 4095);
        assert_eq!(rounding(69_632, 131_072), 0);
    }

    #[test]
    fn parts_add_up_to_what_is_resident() {
        let counted = Counted {
            live: 48_000,
            live_error: 0,
            cached: 4_800,
            free: 20_000,
            free_given_back: 4_096,
            fresh: 100_000,
            dirty: 65_536,
            own: 8_192,
            classes: classes(),
        };
        // Each block of 48 was asked for with 40.
        let split = split(150_000, &counted, &[sample(40, 1000.0)]);
        assert_eq!(sum(&split), 150_000);
        assert_eq!(bytes(&split, "live"), 40_000);
        assert_eq!(bytes(&split, "rounding"), 8_000);
        assert_eq!(bytes(&split, "free_in_slabs"), 15_904);
        assert_eq!(bytes(&split, "dirty"), 65_536);
        assert_eq!(bytes(&split, "fresh"), 150_000 - 142_432);
        assert!((split.scale - 1.0).abs() < 1e-9);
    }

    #[test]
    fn old_figures_are_bent_and_it_is_told() {
        let counted = Counted {
            live: 1000,
            cached: 1000,
            classes: classes(),
            ..Counted::default()
        };
        // Less than was counted: what was free has been returned to the OS.
        let less = split(1500, &counted, &[sample(16, 3.0)]);
        assert_eq!(sum(&less), 1500);
        assert_eq!((bytes(&less, "live"), bytes(&less, "cached")), (1000, 500));
        assert_eq!((less.scale, less.scale_of_free), (1.0, 0.5));
        let cached = less.parts.iter().find(|part| part.key == "cached").unwrap();
        assert_eq!(cached.certainty, Certainty::About(500));
        // Less than is live: everything is bent alike.
        let least = split(500, &counted, &[sample(16, 3.0)]);
        assert_eq!((bytes(&least, "live"), bytes(&least, "cached")), (250, 250));
        // More than all: nothing is bent, and the rest stands alone.
        let more = split(3000, &counted, &[sample(16, 3.0)]);
        assert_eq!((bytes(&more, "live"), bytes(&more, "cached")), (1000, 1000));
        assert_eq!((bytes(&more, "uncounted"), sum(&more)), (1000, 3000));
        for (split, counted) in [(less, 2000), (least, 2000), (more, 2000)] {
            assert_eq!(split.counted, counted);
        }
    }

    #[test]
    fn figures_from_before_most_was_taken_explain_nothing() {
        let counted = Counted {
            live: 60_000,
            live_error: 20_000,
            own: 8192,
            classes: classes(),
            ..Counted::default()
        };
        let split = split(10_000_000, &counted, &[sample(16, 4_000.0)]);
        assert_eq!(sum(&split), 10_000_000);
        assert_eq!(
            (bytes(&split, "live"), bytes(&split, "own")),
            (60_000, 8192)
        );
        assert_eq!(bytes(&split, "uncounted"), 9_931_808);
    }

    #[test]
    fn what_samples_say_of_live_blocks_is_not_bent_by_what_old_figures_do_not_know() {
        let counted = Counted {
            live: 600_000,
            live_error: 20_000,
            cached: 10_000,
            own: 1000,
            classes: classes(),
            ..Counted::default()
        };
        let split = split(761_000, &counted, &[sample(16, 40_000.0)]);
        assert_eq!(sum(&split), 761_000);
        assert_eq!(bytes(&split, "live"), 600_000);
        assert_eq!(bytes(&split, "cached") + bytes(&split, "own"), 11_000);
        assert_eq!(bytes(&split, "uncounted"), 150_000);
    }

    #[test]
    fn no_sample_of_a_small_heap_is_no_sign_that_it_is_gone() {
        let counted = Counted {
            live: 1_400_000,
            classes: classes(),
            ..Counted::default()
        };
        let mut small = counted.clone();
        assert_eq!(small.catch_up(&[], 512 << 10), 0);
        assert_eq!(small.live, counted.live);
        // With every block sampled there is no chance.
        let mut all = counted.clone();
        assert_eq!(all.catch_up(&[], 1), -1_400_000);
    }

    #[test]
    fn figures_catch_up_with_the_samples() {
        let mut old = Counted {
            live: 4_800_000,
            free: 1000,
            classes: classes(),
            ..Counted::default()
        };
        old.classes[2] = Class {
            size: 48,
            slabs: 80,
            room: 110_000,
            live: 100_000,
            free: 10,
        };
        let mut counted = old.clone();
        // A hundred samples of a thousand blocks each: 4.8 MB, give or take a tenth.
        let many = vec![sample(48, 1000.0); 100];
        assert_eq!(counted.catch_up(&many, 48_000), 0);
        assert_eq!(counted, old);
        // Ten of them: most has been freed since.
        assert_eq!(counted.catch_up(&many[..10], 48_000), -4_320_000);
        assert_eq!((counted.live, counted.free), (480_000, 4_321_000));
        // Ten samples are off by about a third.
        assert!(
            (130_000..170_000).contains(&counted.live_error),
            "{counted:?}"
        );
        assert_eq!(
            (counted.classes[2].live, counted.classes[2].free),
            (10_000, 90_010)
        );
        // And taken again.
        assert_eq!(counted.catch_up(&many, 48_000), 4_320_000);
        assert_eq!((counted.live, counted.free), (4_800_000, 1000));
        assert_eq!(
            (counted.classes[2].live, counted.classes[2].free),
            (100_000, 10)
        );
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
        assert!((split.scale - 1.0).abs() < 1e-9);
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

    #[test]
    fn the_sites_that_pin_a_class_are_named() {
        let counted = Counted {
            free: 1_000_000,
            classes: vec![
                Class {
                    size: 48,
                    slabs: 9,
                    room: 9000,
                    live: 900,
                    free: 7000,
                },
                Class {
                    size: 64,
                    slabs: 2,
                    room: 2000,
                    live: 1999,
                    free: 1,
                },
            ],
            ..Counted::default()
        };
        let samples = [
            Sample {
                site: 7,
                ..sample(40, 100.0)
            },
            Sample {
                site: 8,
                ..sample(48, 500.0)
            },
            Sample {
                site: 9,
                ..sample(60, 900.0)
            },
        ];
        let found = pinned(&counted, &samples, 3);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].size, found[0].free_bytes), (48, 336_000));
        assert_eq!(found[0].sites, [(8, 24_000), (7, 4_000)]);
        assert!((found[0].live_share - 0.1).abs() < 1e-9);
    }
}
