//! The samples and the allocator's own counts, side by side: two answers to one question, made in different ways.
//!
//! The allocator counts its live blocks, each at the size of its class. The samples make the same sum, with a standard
//! deviation. Where the two are further apart than chance explains, one of them is wrong, and that is said.

use crate::amount::Amount;
use crate::human;
use crate::layout::{self, ClassUse, Statistics};
use crate::snapshot::Snapshot;
use crate::warning::Warning;

/// Standard deviations that chance may have.
const SIGMAS: f64 = 4.0;
/// What blocks of the first moments and of the counting itself may make.
const ALWAYS: f64 = 1048576.0;
/// Of the timeline: a program counts as steady by its points of so long before the statistics.
const STEADY_NS: u64 = 3_000_000_000;
/// Points that show that.
const STEADY_POINTS: usize = 3;
/// Above this sampled blocks are among the others, below in slabs of their own, of powers of two.
const SLAB_MOST: u64 = 64 << 10;

/// The smallest slot of a sampled block.
const SLOT_LEAST: u64 = 64;

/// Sampled blocks, each at the size of its class.
fn at_class_size(snapshot: &Snapshot, born_until: u64) -> (Amount, u64) {
    let mut sizes: Vec<u64> = snapshot
        .rows()
        .iter()
        .filter(|row| row.class_use() == Some(ClassUse::Program) && row.size > 0)
        .map(|row| row.size)
        .collect();
    sizes.sort_unstable();
    let mut sum = Amount::default();
    let mut in_slabs = 0u64;
    for sample in &snapshot.profile.samples {
        if sample.born_ns > born_until {
            continue;
        }
        let drawn = sample.drawn_size();
        let class = sizes.partition_point(|&size| size < drawn);
        let usable = sizes.get(class).copied().unwrap_or(drawn).max(drawn);
        sum += Amount::of_resized_sample(usable, drawn, sample.drawn_interval());
        if drawn <= SLAB_MOST {
            in_slabs = in_slabs.saturating_add(usable);
        }
    }
    (sum, in_slabs)
}

/// Blocks in slabs of samples, at the size of their slots.
fn in_slots(snapshot: &Snapshot) -> u64 {
    snapshot
        .rows()
        .iter()
        .filter(|row| row.class_use() == Some(ClassUse::Samples))
        .fold(0u64, |sum, row| {
            sum.saturating_add(row.live.saturating_mul(row.size))
        })
}

/// What sampled blocks have more than the program asked for: their slabs are of powers of two.
fn rounding_of_samples(snapshot: &Snapshot, in_slabs: u64) -> u64 {
    in_slots(snapshot).saturating_sub(in_slabs)
}

/// By how much the heap went up and down in the last moments before the statistics; none: that is not known, so a sum of
/// another moment cannot be compared with them.
fn swing(snapshot: &Snapshot, statistics: &Statistics) -> Option<f64> {
    if snapshot.moment_ns.is_some() {
        return None;
    }
    // Its last word has statistics of that moment. Who left by _exit has had no last word.
    if snapshot.profile.header.state == layout::STATE_ENDED {
        return Some(0.0);
    }
    if !snapshot.is_alive() || snapshot.statistics_age_ns()? > STEADY_NS {
        return None;
    }
    let live: Vec<u64> = snapshot
        .profile
        .timeline
        .iter()
        .filter(|point| point.ns + STEADY_NS >= statistics.taken_ns)
        .map(|point| point.live_bytes.saturating_add(point.huge_bytes))
        .collect();
    let (most, least) = (live.iter().max()?, live.iter().min()?);
    (live.len() >= STEADY_POINTS).then_some((most - least) as f64)
}

fn estimate(amount: &Amount) -> String {
    human::estimate(amount.bytes, amount.error())
}

/// Says it if samples and counts differ by more than chance explains.
pub fn compare(snapshot: &Snapshot) -> Option<Warning> {
    let statistics = snapshot.profile.statistics.as_deref()?;
    let samples = snapshot.profile.samples.iter();
    let interval = samples
        .map(|sample| sample.drawn_interval())
        .max()
        .unwrap_or(0)
        .max(snapshot.interval());
    let counted = statistics.live_bytes.saturating_add(statistics.huge_bytes) as f64;
    // Not sampled, or nothing counted yet.
    if interval == 0 || counted == 0.0 {
        return None;
    }
    // Of Σ s²(1 − P)/P no more than this: with few samples their own variance is not known well. Four samples more, as
    // their number is not normal then.
    let by_chance = |variance: f64| {
        let most = (counted * interval as f64).max(variance).sqrt();
        let few = if interval > 1 {
            SIGMAS * interval as f64
        } else {
            0.0
        };
        SIGMAS * most + few + ALWAYS + counted / 64.0
    };
    // What was born before the statistics and lives, was there when they were taken.
    let (before, _) = at_class_size(snapshot, statistics.taken_ns);
    if before.bytes > counted + by_chance(before.variance) {
        return Some(Warning::disagrees(format!(
            "the samples make {} of live blocks, but the allocator counts {}: more than {SIGMAS} standard deviations \
             apart. Believe the count: what the samples show is too much",
            estimate(&before),
            human::bytes(counted)
        )));
    }
    // Lost samples, and blocks of before a fork, have a word of their own.
    if snapshot.profile.control.lost_samples != 0 || snapshot.profile.header.inherited != 0 {
        return None;
    }
    let swing = swing(snapshot, statistics)?;
    let (all, in_slabs) = at_class_size(snapshot, u64::MAX);
    let counted = counted - rounding_of_samples(snapshot, in_slabs) as f64;
    // A block in a hole may be a quarter larger than its class, and an aligned one more.
    let most = 1.25 * (all.bytes + by_chance(all.variance)) + swing;
    (counted > most).then(|| {
        Warning::disagrees(format!(
            "the allocator counts {} of live blocks, but the samples make {}: more than {SIGMAS} standard deviations \
             apart. What was allocated before sampling began, or while it was off, is not in the samples",
            human::bytes(counted),
            estimate(&all)
        ))
    })
}

/// What is missing because there was no room for samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Missing {
    /// Bytes that the lost samples may have stood for, and those of blocks that live, are freed, or lived at the peak.
    pub allocated: f64,
    pub live: f64,
    pub freed: f64,
    pub peak: f64,
    /// Of the live blocks' samples, the part that was lost.
    pub share: f64,
}

/// What the lost samples stood for. There are two ways to tell.
///
/// *By their number.* Of the live blocks `l` samples were lost and `e` were entered, so a share `s = l / (l + e)`. Were the
/// lost ones like the others, each stood for as much as their mean `w`:
///
/// ```text
/// M = l · w,  which of a sum E = e · w is  M = E · s / (1 − s)
/// ```
///
/// *By the count.* The allocator counts what is live, `C`, with lost samples and without. The samples make `E ± σ` of it at
/// the same sizes, so `D = C − E` is missing. That is right also where the lost samples were not like the others: those of a
/// few large blocks, or all of the last ones. But `D` has the error of both sums: `D < 2 σ + C / 64 + 1 MiB` may be chance
/// and the first moments of the program, and then says no more than their number does.
///
/// A sampled block is counted at the size of its slot, a power of two, and not of its class. The slots of entered samples
/// are known one by one. A lost one's block has more than half of its slot: three quarters, give or take one.
pub fn missing(snapshot: &Snapshot) -> Missing {
    let control = &snapshot.profile.control;
    let lost = control.lost_samples.min(control.taken);
    let entered = control.taken - lost;
    if lost == 0 || entered == 0 {
        return Missing::default();
    }
    let sum = |of: fn(&crate::Site) -> Amount| -> Amount { snapshot.sites.iter().map(of).sum() };
    let live = sum(|site| site.live);
    let each = sum(|site| site.allocated).bytes / entered as f64;
    // Of those whose block was freed it is known by now, but in the child of a fork, which frees its parent's.
    let known = snapshot.moment_ns.is_none() && snapshot.profile.header.inherited == 0;
    let gone = if known {
        control.unknown_frees.min(lost)
    } else {
        0
    };
    let alive = (lost - gone) as f64;
    let beyond = beyond_samples(snapshot, live.bytes);
    let missing = (each * alive).max(beyond.unwrap_or(0.0));
    let allocated = (each * lost as f64).max(missing);
    let peak = sum(|site| site.peak);
    let by_number = peak.bytes * lost as f64 / entered as f64;
    let at_peak = beyond_peak(snapshot, &peak, live.bytes + missing).unwrap_or(by_number);
    // No less was there than now.
    let at_peak = at_peak.max(live.bytes + missing - peak.bytes);
    let there = snapshot.samples.len() as f64;
    Missing {
        allocated,
        live: missing,
        freed: each * gone as f64,
        peak: at_peak.min(allocated),
        share: alive / (alive + there).max(1.0),
    }
}

/// What two sums of `counted` bytes may differ by, of which one is of samples.
fn chance(counted: f64, variance: f64) -> f64 {
    2.0 * variance.sqrt() + counted / 64.0 + ALWAYS
}

fn counted_bytes(snapshot: &Snapshot) -> Option<f64> {
    let counted = snapshot.profile.statistics.as_deref()?;
    Some(counted.live_bytes.saturating_add(counted.huge_bytes) as f64)
}

/// `D` of [`missing`], as what was asked for; none: it may be chance, or nothing was counted.
fn beyond_samples(snapshot: &Snapshot, live: f64) -> Option<f64> {
    let (sampled, in_slabs) = at_class_size(snapshot, u64::MAX);
    let entered: u64 = snapshot
        .samples
        .iter()
        .filter(|sample| sample.size <= SLAB_MOST)
        .map(|sample| sample.size.max(SLOT_LEAST).next_power_of_two())
        .sum();
    // The rows of a moment before the end are not known.
    let slots = match snapshot.moment_ns {
        Some(_) => entered,
        None => in_slots(snapshot),
    };
    let of_lost = slots.saturating_sub(entered) as f64;
    let counted = counted_bytes(snapshot)? - slots as f64 + in_slabs as f64 + 0.75 * of_lost;
    let beyond = counted - sampled.bytes;
    let variance = sampled.variance + (0.25 * of_lost).powi(2);
    let asked = if sampled.bytes > 0.0 {
        live / sampled.bytes
    } else {
        1.0
    };
    (beyond > chance(counted, variance)).then_some(beyond * asked)
}

/// The same of the peak, whose count is that of the timeline: of it as much was asked for as of what is `live` now.
fn beyond_peak(snapshot: &Snapshot, peak: &Amount, live: f64) -> Option<f64> {
    let counted = counted_bytes(snapshot).filter(|counted| *counted > 0.0)?;
    let points = snapshot.profile.timeline.iter();
    let points = points.map(|point| point.live_bytes.saturating_add(point.huge_bytes) as f64);
    let most = points.fold(counted, f64::max) * (live / counted).min(1.0);
    let beyond = most - peak.bytes;
    (beyond > chance(most, peak.variance)).then_some(beyond)
}

/// The peak is the highest of all sums of samples, so chance has made it too high rather than too low: a heap that stays the same
/// for long has a highest sum of two or three standard deviations more. Where the allocator never counted as much, and the
/// difference may be chance, it is an error of the peak beside its own.
fn widen_peak(snapshot: &mut Snapshot) {
    let peak: Amount = snapshot.sites.iter().map(|site| site.peak).sum();
    let points = snapshot.profile.timeline.iter();
    let points = points.map(|point| point.live_bytes.saturating_add(point.huge_bytes) as f64);
    let most = counted_bytes(snapshot).into_iter().chain(points);
    let beyond = peak.bytes - most.fold(0.0, f64::max);
    if beyond <= 0.0 || beyond > SIGMAS * peak.error() {
        return;
    }
    for site in &mut snapshot.sites {
        site.peak.variance += beyond * beyond * site.peak.bytes / peak.bytes;
    }
}

/// Widens the error bars by what is known to be wrong with the sums: the peak's, and the samples that there was no room for. They
/// may have been of any site.
pub fn widen(snapshot: &mut Snapshot) {
    widen_peak(snapshot);
    let missing = missing(snapshot);
    if missing == Missing::default() {
        return;
    }
    let sum = |of: fn(&crate::Site) -> Amount| -> Amount { snapshot.sites.iter().map(of).sum() };
    let sums = (
        sum(|site| site.allocated),
        sum(|site| site.live),
        sum(|site| site.freed),
        sum(|site| site.peak),
    );
    for site in &mut snapshot.sites {
        spread(&mut site.allocated, missing.allocated, &sums.0);
        spread(&mut site.live, missing.live, &sums.1);
        spread(&mut site.freed, missing.freed, &sums.2);
        spread(&mut site.peak, missing.peak, &sums.3);
    }
}

/// The same for what a past moment's live samples were summed up to again.
pub fn widen_live(snapshot: &mut Snapshot) {
    let missing = missing(snapshot).live;
    let whole = snapshot.sites.iter().map(|site| site.live).sum();
    for site in &mut snapshot.sites {
        spread(&mut site.live, missing, &whole);
    }
}

/// A site's part of what `missing` bytes add to the variance of all sites together. What is missing is no chance that may
/// cancel another: a sum with the error `σ` is short of the truth by `M ± σ`, so that it is off by up to
///
/// ```text
/// σ + M,  whose square is  σ² + 2 σ M + M²
/// ```
fn spread(amount: &mut Amount, missing: f64, whole: &Amount) {
    if whole.bytes > 0.0 {
        let more = 2.0 * whole.error() * missing + missing * missing;
        amount.variance += more * amount.bytes / whole.bytes;
    }
}

/// A few words for where there is no room for a sentence; none: all is well.
pub fn alarm(snapshot: &Snapshot) -> Option<String> {
    let control = &snapshot.profile.control;
    if control.lost_samples != 0 {
        let share = 100.0 * control.lost_samples as f64 / control.taken.max(1) as f64;
        return Some(format!("{} % of the samples are lost", share.ceil()));
    }
    if control.lost_stacks != 0 {
        let share = 100.0 * control.lost_stacks as f64 / control.taken.max(1) as f64;
        return Some(format!("{} % of the samples have no stack", share.ceil()));
    }
    compare(snapshot).map(|_| "samples and counts disagree".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ProfileBuilder;

    const MIB: u64 = 1 << 20;

    /// Blocks of 1 KiB, of which the samples make `sampled` bytes; the allocator counts `counted`.
    fn heap(sampled: u64, counted: u64) -> ProfileBuilder {
        let mut profile = ProfileBuilder::new(512 << 10);
        let site = profile.site(&[0x1000]);
        let each = Amount::of_sample(1024, 512 << 10).bytes;
        for _ in 0..(sampled as f64 / each).round() as u64 {
            profile.allocate(site, 1024, 1);
        }
        profile.statistics(|statistics| {
            statistics.live_bytes = counted;
            statistics.rows = 2;
            statistics.row[1].size = 1024;
            statistics.row[1].slabs = 1;
        });
        profile.change(|profile| profile.header.state = layout::STATE_ENDED);
        profile
    }

    fn said(profile: &ProfileBuilder) -> Vec<String> {
        let snapshot = profile.snapshot();
        snapshot.warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_chance_explains_is_not_said() {
        for (sampled, counted) in [(90, 91), (110, 91), (70, 91), (0, 2), (5, 1), (2000, 1900)] {
            let said = said(&heap(sampled * MIB, counted * MIB));
            assert!(said.is_empty(), "{sampled} of {counted}: {said:?}");
        }
    }

    #[test]
    fn samples_that_show_too_much_are_said() {
        let said = said(&heap(720 * MIB, 91 * MIB)).join("\n");
        let begin = "the samples make 720 ± 19 MiB";
        let end = " of live blocks, but the allocator counts 91.0 MiB: more than 4 standard deviations \
                   apart. Believe the count: what the samples show is too much";
        assert!(said.starts_with(begin) && said.ends_with(end), "{said}");
        assert_eq!(
            alarm(&heap(720 * MIB, 91 * MIB).snapshot()).as_deref(),
            Some("samples and counts disagree")
        );
    }

    #[test]
    fn samples_that_show_too_little_are_said() {
        assert_eq!(
            said(&heap(20 * MIB, 400 * MIB)).join("\n"),
            "the allocator counts 400.0 MiB of live blocks, but the samples make 20.0 ± 3.2 MiB: more than 4 standard \
             deviations apart. What was allocated before sampling began, or while it was off, is not in the samples"
        );
        // Not of a program that was killed: its statistics may be of another moment than its samples.
        let mut killed = heap(20 * MIB, 400 * MIB);
        killed.change(|profile| profile.header.state = layout::STATE_LIVE);
        assert!(said(&killed).is_empty());
        // Nor of one that left by _exit, as who waited for it knows.
        let reading = crate::Reading {
            exited: Some(true),
            ..crate::testing::reading()
        };
        let left = Snapshot::read(&killed.bytes(), reading).unwrap();
        assert!(left.ended_by_itself() && left.warnings.is_empty());
        assert_eq!(alarm(&left), None);
    }

    #[test]
    fn what_is_counted_beyond_the_samples_is_missing_too() {
        // One sample in a hundred was lost, but that of large blocks.
        let mut short = heap(100 * MIB, 400 * MIB);
        short.change(|profile| {
            profile.control.lost_samples = profile.control.taken / 100;
            profile.control.taken += profile.control.lost_samples;
        });
        let short = short.snapshot();
        let error = short.total(crate::View::Live).error();
        assert!((error / (300 * MIB) as f64 - 1.0).abs() < 0.05, "{error}");
        let missing = short.missing();
        assert!((missing.share - 0.01).abs() < 0.005, "{missing:?}");
        assert!(
            said(&heap(1, 1)).is_empty() && heap(1, 1).snapshot().missing() == Missing::default()
        );
    }

    /// A loss of a share s makes an error of s / (1 − s) of the sum, however much larger the slots of samples are.
    #[test]
    fn a_small_loss_is_a_small_error() {
        // Blocks of 1,100 bytes. Their class has 1,152, and the slot of a sampled one 2,048. One sample in 400 was lost.
        let mut short = ProfileBuilder::new(4096);
        let site = short.site(&[0x1000]);
        for _ in 0..3990 {
            short.allocate(site, 1100, 1);
        }
        let whole = short.snapshot().total(crate::View::Live);
        short.statistics(|statistics| {
            let others = (4000.0 * (whole.blocks / 3990.0 - 1.0)) as u64;
            statistics.rows = 3;
            statistics.live_bytes = others * 1152 + 4000 * 2048;
            statistics.row[1].size = 1152;
            statistics.row[1].slabs = 1;
            statistics.row[2].size = 2048;
            statistics.row[2].class_use = layout::ClassUse::Samples as u64;
            statistics.row[2].live = 4000;
        });
        short.change(|profile| {
            profile.header.state = layout::STATE_ENDED;
            profile.control.lost_samples = 10;
            profile.control.taken += 10;
        });
        let total = short.snapshot().total(crate::View::Live);
        let added = total.error() - whole.error();
        assert!(
            (added / (whole.bytes / 399.0) - 1.0).abs() < 0.01,
            "{added} to {} of {}",
            whole.error(),
            whole.bytes
        );
    }

    /// A cache of a steady size, whose sums of samples go up and down by chance.
    #[test]
    fn the_highest_of_many_sums_is_not_too_sure_of_itself() {
        let error = |counted: u64| {
            let mut profile = heap(17 * MIB, counted);
            for second in 0..20 {
                profile.point(second * 1_000_000_000, 12 * MIB, counted);
            }
            profile.snapshot().total(crate::View::Peak).error() / MIB as f64
        };
        let own = error(17 * MIB);
        let widened = error(19 * MIB / 2);
        assert!((2.5..3.5).contains(&own), "{own}");
        assert!((widened - own.hypot(7.5)).abs() < 0.2, "{widened}");
        // What nobody looked at may have been a true peak.
        assert!((error(MIB) - own).abs() < 0.01, "{}", error(MIB));
    }

    #[test]
    fn samples_without_stacks_are_alarming() {
        let mut lost = heap(100 * MIB, 100 * MIB);
        lost.change(|profile| profile.control.lost_stacks = profile.control.taken / 2);
        assert_eq!(
            alarm(&lost.snapshot()).as_deref(),
            Some("50 % of the samples have no stack")
        );
    }

    #[test]
    fn lost_samples_widen_the_error_bars() {
        let whole = heap(3 * MIB, 3 * MIB).snapshot();
        let mut short = heap(3 * MIB, 150 * MIB);
        short.change(|profile| {
            profile.control.lost_samples = profile.control.taken * 49;
            profile.control.taken *= 50;
        });
        let short = short.snapshot();
        let error = short.total(crate::View::Live).error();
        assert_eq!(
            whole.total(crate::View::Live).bytes,
            short.total(crate::View::Live).bytes
        );
        assert!((error / (147 * MIB) as f64 - 1.0).abs() < 0.05, "{error}");
        // At the peak no less was live than now.
        let peak = short.total(crate::View::Peak).error();
        assert!((peak / error - 1.0).abs() < 0.01, "{peak} {error}");
        assert_eq!(
            alarm(&short).as_deref(),
            Some("98 % of the samples are lost")
        );
    }
}
