//! What blocks had been asked for whose samples there was no room for.
//!
//! A profile file that is full enters no more samples. Those that it has are of the program's first blocks, and do not stand
//! for the later ones. But the allocator counts on: how many blocks each size class has, and how many sampled ones are in
//! slots of each size. So only the size within a class, or within a slot, is unknown.

use profile_file::amount::chance;

use super::heap::{Class, Counted, LEAST_SLOT, Sample};

/// Sampled blocks in slots of their own that have no sample.
#[derive(Debug, Default, PartialEq)]
pub struct Lost {
    pub asked: f64,
    /// The same blocks at the size of their class.
    pub at_class: f64,
    pub error: f64,
}

/// A size class, with what its samples say.
struct Known<'a> {
    class: &'a Class,
    /// Samples in slots of their own.
    in_slots: f64,
    /// Blocks that its samples stand for, beside those in slots.
    blocks: f64,
    /// The size that was asked for, and how far it may be off.
    size: f64,
    error: f64,
}

/// By class; samples above all classes are left out.
fn known<'a>(counted: &'a Counted, samples: &[Sample]) -> Vec<Known<'a>> {
    let mut before = 0;
    let mut classes: Vec<Known> = counted
        .classes
        .iter()
        .map(|class| {
            // Without a sample the size is anywhere between two classes.
            let gap = (class.size - before) as f64;
            before = class.size;
            Known {
                class,
                in_slots: 0.0,
                blocks: 0.0,
                size: class.size as f64 - gap / 2.0,
                error: gap / 2.0,
            }
        })
        .collect();
    let mut sums = vec![(0.0, 0.0); classes.len()];
    for sample in samples {
        let place = place_of(sample, counted);
        let (Some(class), Some(sum)) = (classes.get_mut(place), sums.get_mut(place)) else {
            continue;
        };
        class.in_slots += f64::from(counted.slot_of(sample).is_some());
        class.blocks += beside(sample, counted);
        sum.0 += sample.blocks;
        sum.1 += sample.blocks * sample.size as f64;
    }
    for (class, (blocks, asked)) in classes.iter_mut().zip(sums) {
        if blocks > 0.0 {
            (class.size, class.error) = (asked / blocks, 0.0);
        }
    }
    classes
}

/// The class of a sample, by its place.
fn place_of(sample: &Sample, counted: &Counted) -> usize {
    let size = sample.size.max(1);
    counted.classes.partition_point(|class| class.size < size)
}

/// Blocks that a sample stands for beside its own, if that is in a slot of its own.
fn beside(sample: &Sample, counted: &Counted) -> f64 {
    match counted.slot_of(sample) {
        Some(_) => (sample.blocks - 1.0).max(0.0),
        None => sample.blocks,
    }
}

/// The sampled blocks that have no sample.
///
/// Of the `n` live blocks of a class that are not sampled, each was passed over with the chance `1 − p`. So about
/// `n p / (1 − p)` others were sampled. Those of them that have a sample are known; the rest is how the lost ones of a slot's
/// size are distributed over its classes. The variance of a class is that number of blocks. Of a slot nothing may be known;
/// then its blocks have three quarters of it, give or take one, because a block below the half has a smaller slot.
pub fn in_slots(counted: &Counted, samples: &[Sample]) -> Lost {
    let mut sum = Lost::default();
    if !counted.short {
        return sum;
    }
    let known = known(counted, samples);
    for (&slot, &blocks) in &counted.slots.blocks {
        let entered = samples
            .iter()
            .filter(|sample| counted.slot_of(sample) == Some(slot));
        let lost = blocks as f64 - entered.count() as f64;
        if lost <= 0.0 {
            continue;
        }
        let least = if slot > LEAST_SLOT { slot / 2 } else { 0 };
        let one = OfSlot::new(counted, &known, least..slot).unwrap_or(OfSlot {
            asked: 0.75 * slot as f64,
            at_class: 0.75 * slot as f64,
            error: f64::INFINITY,
            spread: 0.0,
        });
        sum.asked += lost * one.asked;
        sum.at_class += lost * one.at_class;
        sum.error += (lost * one.error + one.spread).min(lost * slot as f64 / 4.0);
    }
    sum
}

/// What a lost sample of a slot's size stands for, in the mean.
struct OfSlot {
    asked: f64,
    at_class: f64,
    /// Of the size within a class.
    error: f64,
    /// Of all of them, by chance.
    spread: f64,
}

impl OfSlot {
    /// By the classes above one size and up to another; none: these have no blocks that would say anything.
    fn new(counted: &Counted, known: &[Known], sizes: std::ops::Range<u64>) -> Option<Self> {
        let of = known
            .iter()
            .filter(|it| it.class.size > sizes.start && it.class.size <= sizes.end);
        let of: Vec<(&Known, f64, f64)> = of
            .filter(|it| it.class.live > 0)
            .map(|it| {
                let chance = chance(it.class.size, counted.interval).min(0.999);
                let sampled = it.class.live as f64 * chance / (1.0 - chance);
                (it, sampled, (sampled - it.in_slots).max(0.0))
            })
            .collect();
        let all: f64 = of.iter().map(|(_, _, lost)| lost).sum();
        if all <= 0.0 {
            return None;
        }
        let mean = |of_one: fn(&Known) -> f64| -> f64 {
            of.iter().map(|(it, _, lost)| of_one(it) * lost / all).sum()
        };
        let asked = mean(|it| it.size);
        let variance: f64 = of
            .iter()
            .map(|(it, sampled, _)| sampled * (it.size - asked).powi(2))
            .sum();
        Some(Self {
            asked,
            at_class: mean(|it| it.class.size as f64),
            error: mean(|it| it.error),
            spread: variance.sqrt(),
        })
    }
}

/// Samples that stand for all blocks that are not sampled: where samples were lost, each class's for as many as it has, and one
/// that is made up for a class that has none. The second is how far what these were asked for may be off.
pub fn others(counted: &Counted, samples: &[Sample]) -> (Vec<Sample>, f64) {
    let mut all = samples.to_vec();
    let mut error = 0.0;
    if !counted.short {
        return (all, error);
    }
    let known = known(counted, samples);
    for sample in &mut all {
        let of = known.get(place_of(sample, counted));
        if let Some(of) = of.filter(|of| of.blocks > 0.0) {
            let beside = beside(sample, counted);
            sample.blocks += beside * (of.class.live as f64 / of.blocks - 1.0);
        }
    }
    for of in known
        .iter()
        .filter(|of| of.blocks == 0.0 && of.class.live > 0)
    {
        let live = of.class.live as f64;
        error += live * of.error;
        let mut sample = Sample {
            size: of.size.round() as u64,
            resident: None,
            beyond: None,
            blocks: live,
            site: 0,
        };
        if counted.slot_of(&sample).is_some() {
            sample.blocks += 1.0;
        }
        all.push(sample);
    }
    (all, error)
}

#[cfg(test)]
mod tests {
    use super::super::heap::Slots;
    use super::super::heap::testing::{classes, sample};
    use super::*;

    /// Blocks of 30 came first and have samples; those of 60, later, have none.
    fn full() -> Counted {
        let mut counted = Counted {
            slots: Slots {
                blocks: [(64, 300)].into(),
                absent: 0,
            },
            short: true,
            interval: 480,
            classes: classes(),
            ..Counted::default()
        };
        // Of the first about 62 were sampled too, of the others 200.
        (counted.classes[1].live, counted.classes[3].live) = (900, 1400);
        counted
    }

    #[test]
    fn what_lost_samples_were_of_is_what_the_classes_have() {
        let counted = full();
        let samples = vec![sample(30, 10.0); 62];
        let lost = in_slots(&counted, &samples);
        // About all samples of the smaller class are there, so that the 238 lost ones are of 49 to 64.
        assert!((lost.at_class - 238.0 * 64.0).abs() < 10.0, "{lost:?}");
        assert!((lost.asked - 238.0 * 56.0).abs() < 10.0, "{lost:?}");
        assert!(lost.error >= 238.0 * 8.0, "{lost:?}");
        // Entered or not is no question where none was lost.
        let whole = Counted {
            short: false,
            ..counted
        };
        assert_eq!(in_slots(&whole, &samples), Lost::default());
    }

    #[test]
    fn a_slot_of_which_nothing_is_known_has_three_quarters() {
        let mut counted = full();
        counted.slots.blocks = [(4096, 10)].into();
        let lost = in_slots(&counted, &[]);
        let expected = Lost {
            asked: 30_720.0,
            at_class: 30_720.0,
            error: 10_240.0,
        };
        assert_eq!(lost, expected);
    }

    #[test]
    fn samples_stand_for_as_many_blocks_as_their_class_has() {
        let counted = full();
        let (all, error) = others(&counted, &vec![sample(30, 10.0); 62]);
        let blocks: f64 = all.iter().map(|sample| sample.blocks - 1.0).sum();
        assert!((blocks - 2300.0).abs() < 1e-6, "{blocks}");
        assert!((error - 1400.0 * 8.0).abs() < 1e-6, "{error}");
    }
}
