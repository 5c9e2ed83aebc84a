//! What is known of Freehold's heap: what the allocator counted, some time ago, its blocks by state; and samples, which say,
//! with an error, what the program had asked for and which call sites hold on to what.

use std::collections::BTreeMap;

use profile_file::layout::SLOT_BYTES;

/// The smallest slot of a sampled block.
pub const LEAST_SLOT: u64 = 64;

/// What is in memory of that which no block accounts for, by the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    pub free_slots: u64,
    pub fresh: u64,
}

/// Live blocks that are sampled, in slots of their own: powers of two.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slots {
    /// How many there are of each size of slot.
    pub blocks: BTreeMap<u64, u64>,
    /// What of them is not in memory, by the kernel.
    pub absent: u64,
}

impl Slots {
    pub fn live(&self) -> u64 {
        self.blocks.iter().fold(0, |sum, (size, blocks)| {
            u64::saturating_add(sum, size.saturating_mul(*blocks))
        })
    }
}

/// What the allocator counted, in bytes, of memory that it has from the OS.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Blocks of up to 2 MiB that the program holds, at the size of their class.
    pub live: u64,
    /// How far that may be off: nothing where it was counted.
    pub live_error: u64,
    /// Part of `live`.
    pub slots: Slots,
    /// There was no room for some samples: those that there are do not stand for all blocks.
    pub short: bool,
    /// Mean bytes between samples.
    pub interval: u64,
    /// What of the others is not in memory, by the kernel; none: they were not looked at one by one.
    pub absent: Option<u64>,
    pub cached: u64,
    /// Free blocks in slabs in use, and how much of them has been returned to the OS.
    pub free: u64,
    pub free_given_back: u64,
    /// Parts of slabs that were never handed out.
    pub fresh: u64,
    pub dirty: u64,
    /// What the kernel had in memory then of free slots, and of parts that were never handed out; none: it was not asked.
    pub measured: Option<Measured>,
    /// Magazines and thread caches: the allocator's own blocks.
    pub own: u64,
    /// Freed after the count, in a program that is gone: whether its memory was still there then nobody knows.
    pub freed_since: u64,
    pub classes: Vec<Class>,
}

impl Counted {
    /// The size of a sample's own slot, if it has one: others of its kind are in blocks of their class.
    pub fn slot_of(&self, sample: &Sample) -> Option<u64> {
        let slot = sample.size.max(LEAST_SLOT).next_power_of_two();
        (!self.slots.blocks.is_empty() && slot <= SLOT_BYTES).then_some(slot)
    }

    /// Brings statistics that were counted some time ago up to date with the samples, which are of this moment: what
    /// the program frees or takes in between is free space or not any more. Within four standard deviations the
    /// samples may differ by chance, and then nothing is changed. Returns what the live bytes changed by.
    ///
    /// In a program that is gone, what was freed since is a part of its own, and the classes stay as they were counted.
    pub fn catch_up(&mut self, samples: &[Sample], interval: u64, gone: bool) -> i64 {
        let mut now = 0.0;
        let mut variance = 0.0;
        let mut slots = Slots::default();
        let mut blocks: BTreeMap<u64, f64> = BTreeMap::new();
        for sample in samples {
            let size = class_size(sample.size, &self.classes);
            *blocks.entry(size).or_default() += sample.blocks;
            let class = size as f64;
            let slot = self.slot_of(sample);
            now += match slot {
                Some(slot) => (sample.blocks - 1.0) * class + slot as f64,
                None => sample.blocks * class,
            };
            if let Some(slot) = slot {
                *slots.blocks.entry(slot).or_default() += 1;
            }
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
        let apart = gone && change < 0.0;
        for class in self.classes.iter_mut().filter(|_| !apart) {
            let live = blocks
                .get(&class.size)
                .map_or(0, |blocks| blocks.round() as u64);
            class.free = (class.free + class.live).saturating_sub(live);
            class.live = live.min(class.room);
        }
        self.live = now.round() as u64;
        slots.absent = self.slots.absent.min(slots.live());
        self.slots = slots;
        self.live_error = variance.sqrt().round() as u64;
        if apart {
            self.freed_since = (-change).round() as u64;
        } else if change < 0.0 {
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
    /// Bytes in memory behind it, up to the end of its class: with huge pages that is all of them.
    pub beyond: Option<u64>,
    /// Blocks that it stands for.
    pub blocks: f64,
    pub site: u32,
}

/// The size that a request is rounded up to: the smallest class that fits, or whole slots.
pub fn class_size(size: u64, classes: &[Class]) -> u64 {
    let fitting = classes.partition_point(|class| class.size < size.max(1));
    match classes.get(fitting) {
        Some(class) => class.size,
        // Blocks above all classes take whole slots.
        None => size.max(1).next_multiple_of(SLOT_BYTES),
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

/// Made up for tests.
#[cfg(test)]
pub mod testing {
    use super::*;

    pub fn classes() -> Vec<Class> {
        [16u64, 32, 48, 64, 4096, 5120, 65_536, 131_072]
            .map(|size| Class {
                size,
                ..Class::default()
            })
            .to_vec()
    }

    pub fn sample(size: u64, blocks: f64) -> Sample {
        Sample {
            size,
            resident: None,
            beyond: None,
            blocks,
            site: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{classes, sample};
    use super::*;

    #[test]
    fn requests_fall_into_the_classes_that_fit() {
        let classes = classes();
        assert_eq!(class_size(0, &classes), 16);
        assert_eq!(class_size(16, &classes), 16);
        assert_eq!(class_size(17, &classes), 32);
        assert_eq!(class_size(131_073, &classes), 3 * SLOT_BYTES);
    }

    #[test]
    fn no_sample_of_a_small_heap_is_no_sign_that_it_is_gone() {
        let counted = Counted {
            live: 1_400_000,
            classes: classes(),
            ..Counted::default()
        };
        let mut small = counted.clone();
        assert_eq!(small.catch_up(&[], 512 << 10, false), 0);
        assert_eq!(small.live, counted.live);
        // With every block sampled there is no chance.
        let mut all = counted.clone();
        assert_eq!(all.catch_up(&[], 1, false), -1_400_000);
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
        assert_eq!(counted.catch_up(&many, 48_000, false), 0);
        assert_eq!(counted, old);
        // Ten of them: most has been freed since.
        assert_eq!(counted.catch_up(&many[..10], 48_000, false), -4_320_000);
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
        assert_eq!(counted.catch_up(&many, 48_000, false), 4_320_000);
        assert_eq!((counted.live, counted.free), (4_800_000, 1000));
        assert_eq!(
            (counted.classes[2].live, counted.classes[2].free),
            (100_000, 10)
        );
    }

    #[test]
    fn what_a_program_that_is_gone_freed_last_is_no_free_space() {
        let mut counted = Counted {
            live: 4_800_000,
            free: 1000,
            classes: classes(),
            ..Counted::default()
        };
        counted.classes[2].free = 10;
        let before = counted.classes.clone();
        assert_eq!(counted.catch_up(&[], 48_000, true), -4_800_000);
        assert_eq!(
            (counted.live, counted.free, counted.freed_since),
            (0, 1000, 4_800_000)
        );
        assert_eq!(counted.classes, before);
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
