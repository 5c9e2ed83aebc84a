//! What a program held before it freed everything.
//!
//! A program that frees its blocks at exit, or at the end of its work, leaves nothing to judge. But a slot of the table
//! of samples keeps what its last block was, and when it was freed, until it is used again. So the state of a moment
//! shortly before the end can be put together: what was born before it and was freed after it, or never.
//!
//! That takes a known end. A program that freed its blocks, stood still for an hour and was killed then has not cleared up at
//! its end, but its profile file looks the same.
//!
//! What is missing are blocks whose slots were used again since, which are few where nothing but freeing goes on. So
//! the sums are too small rather than too large.

use std::collections::HashMap;

use crate::amount::Amount;
use crate::counted;
use crate::human;
use crate::layout::{self, AGES};
use crate::snapshot::{LiveSample, Snapshot, live_sample};
use crate::warning::{Concern, Warning};

/// What was freed at the end of a program.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Clearing {
    /// An estimate, and its error of one standard deviation.
    pub bytes: f64,
    pub error: f64,
    /// From the moment before the first of these frees to the program's end.
    pub seconds: f64,
}

impl Clearing {
    /// 51.7 ± 5.0 MiB were freed only in the last 9 ms before its end
    pub fn sentence(&self) -> String {
        format!(
            "{} were freed only in the last {} before its end",
            human::estimate(self.bytes, self.error),
            human::duration((self.seconds * 1e9) as u64)
        )
    }
}

/// The clearing-up begins in the last part of the program's life: one in so many.
const LAST_PART: u64 = 4;
/// Standard deviations that the fall is beyond, by which a program's ups and downs are none.
const SIGMA: f64 = 4.0;
/// A few large blocks make the deviation as large as the fall. Then it is enough that nearly all went, and nothing took its place.
const NEARLY_ALL: f64 = 0.9;
/// But one block or two that go are no clearing-up.
const LEAST_BLOCKS: usize = 16;

/// A block that lived at some time, with the time of its end: none if it lives.
struct Block {
    sample: layout::Sample,
    bytes: f64,
    freed_ns: Option<u64>,
}

impl Block {
    fn lives_at(&self, moment: u64) -> bool {
        self.sample.born_ns <= moment && self.freed_ns.is_none_or(|freed| freed > moment)
    }
}

fn weight(sample: &layout::Sample) -> Amount {
    live_sample(sample, 0, &bytemuck::Zeroable::zeroed()).weight
}

/// All samples that lived in the time since `from`, as far as they can be known.
fn blocks(snapshot: &Snapshot, from: u64) -> Vec<Block> {
    let profile = &snapshot.profile;
    let live = profile.samples.iter().map(|sample| (*sample, None));
    let end = snapshot.now_ns();
    let gone = profile
        .traces
        .iter()
        .map(|trace| (*trace, Some(trace.reached)))
        .filter(|(_, freed)| freed.is_some_and(|freed| freed > from && freed <= end));
    live.chain(gone)
        .map(|(sample, freed_ns)| Block {
            bytes: weight(&sample).bytes,
            sample,
            freed_ns,
        })
        .collect()
}

/// The moment since `from` at which most was live, just before the next free.
fn fullest(blocks: &[Block], from: u64) -> u64 {
    let mut events: Vec<(u64, f64)> = Vec::new();
    for block in blocks {
        events.push((block.sample.born_ns.max(from), block.bytes));
        if let Some(freed) = block.freed_ns {
            events.push((freed, -block.bytes));
        }
    }
    // Of those at one time, frees come first: nothing was live between.
    events.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut live, mut best, mut moment) = (0.0, 0.0, from);
    let mut last_birth = from;
    for (at, bytes) in events {
        if bytes > 0.0 {
            last_birth = at;
        }
        live += bytes;
        if live > best {
            (best, moment) = (live, last_birth);
        }
    }
    moment
}

impl Snapshot {
    /// The state before the program cleared up, with what it freed then; none if it runs, or did nothing of the kind, or
    /// nobody knows when it ended.
    pub fn before_clearing(&self) -> Option<(Snapshot, Clearing)> {
        let (moment, blocks, clearing) = self.clearing().filter(|_| self.end_is_known())?;
        Some((self.at(moment, &blocks), clearing))
    }

    /// A warning for who looks at the end of a program that cleared up, or of which nobody knows when it ended.
    pub(crate) fn say_what_is_odd_about_the_end(&mut self) {
        if self.is_alive() {
            return;
        }
        let clearing = self.clearing().map(|(_, _, it)| it);
        let text = if self.end_is_known() {
            let Some(clearing) = clearing else { return };
            format!("{}; this is the state after", clearing.sentence())
        } else {
            let freed = clearing.map(|it| {
                format!(
                    ", in the last {} of which {} were freed",
                    human::duration((it.seconds * 1e9) as u64),
                    human::estimate(it.bytes, it.error)
                )
            });
            format!(
                "the program ran for {} at least{}. Whether it ended then, or stood still, is not known: what is said is \
                 of that moment. `freehold run` notes when the program that it started ends",
                human::duration(self.running_ns()),
                freed.unwrap_or_default()
            )
        };
        self.warnings.push(Warning::end(text));
    }

    /// The last moment before blocks were freed that nothing came after, all that lived since, and what was freed.
    fn clearing(&self) -> Option<(u64, Vec<Block>, Clearing)> {
        if self.is_alive() || self.moment_ns.is_some() {
            return None;
        }
        let end = self.now_ns();
        let from = end - self.running_ns() / LAST_PART;
        let blocks = blocks(self, from);
        let born = fullest(&blocks, from);
        // The program was as full until the first free after it: that is the moment that a living one is seen at.
        let first_free = blocks
            .iter()
            .filter_map(|block| block.freed_ns)
            .filter(|freed| *freed > born)
            .min()?;
        let moment = first_free - 1;
        let (mut bytes, mut squares, mut all) = (0.0, 0.0, 0.0);
        let (mut variance, mut freed) = (0.0, 0);
        for block in blocks.iter().filter(|block| block.lives_at(moment)) {
            all += block.bytes;
            if block.freed_ns.is_some() {
                bytes += block.bytes;
                squares += block.bytes * block.bytes;
                variance += weight(&block.sample).variance;
                freed += 1;
            }
        }
        let since: f64 = self
            .samples
            .iter()
            .filter(|sample| sample.born_ns > moment)
            .map(|sample| sample.weight.bytes)
            .sum();
        let is_whole = freed >= LEAST_BLOCKS
            && bytes >= NEARLY_ALL * all
            && since <= (1.0 - NEARLY_ALL) * bytes;
        if bytes - since < SIGMA * squares.sqrt() && !is_whole {
            return None;
        }
        let clearing = Clearing {
            bytes,
            error: variance.sqrt(),
            seconds: (end - moment) as f64 / 1e9,
        };
        Some((moment, blocks, clearing))
    }

    /// This snapshot as it was at that moment.
    fn at(&self, moment: u64, blocks: &[Block]) -> Snapshot {
        let mut past = self.clone();
        past.moment_ns = Some(moment);
        past.warnings
            .retain(|warning| warning.concern != Concern::End);
        let lives = |block: &&Block| block.lives_at(moment);
        past.samples = blocks
            .iter()
            .filter(lives)
            .map(|block| LiveSample {
                reachable: None,
                ..live_sample(&block.sample, moment, &self.profile.scan)
            })
            .collect();
        past.profile.samples = blocks.iter().filter(lives).map(|b| b.sample).collect();
        past.profile.traces.clear();
        let mut changes: HashMap<u32, Change> = HashMap::new();
        for block in blocks {
            let change = changes.entry(block.sample.site).or_default();
            let amount = weight(&block.sample);
            if let Some(freed) = block.freed_ns.filter(|freed| *freed > moment) {
                change.freed += amount;
                change.at_age[age_class(freed - block.sample.born_ns)] += amount.bytes;
            }
            if block.sample.born_ns > moment {
                change.born += amount;
            }
        }
        for site in &mut past.sites {
            let Some(change) = changes.get(&site.number) else {
                continue;
            };
            site.freed = less(site.freed, change.freed);
            site.allocated = less(site.allocated, change.born);
            for (sum, part) in site.freed_at_age.iter_mut().zip(change.at_age) {
                *sum = (*sum - part).max(0.0);
            }
            site.live = past
                .samples
                .iter()
                .filter(|sample| sample.site == site.number)
                .fold(Amount::default(), |mut sum, sample| {
                    sum += sample.weight;
                    sum
                });
        }
        past.statistics_of(moment);
        counted::widen_live(&mut past);
        past
    }

    /// The sums of the timeline's last point before the moment; the rest of the statistics is of the end.
    fn statistics_of(&mut self, moment: u64) {
        let points = &self.profile.timeline;
        let point = points.iter().rev().find(|point| point.ns <= moment);
        if let (Some(point), Some(statistics)) = (point, &mut self.profile.statistics) {
            statistics.taken_ns = point.ns;
            statistics.resident_bytes = point.resident_bytes;
            statistics.live_bytes = point.live_bytes;
            statistics.huge_bytes = point.huge_bytes;
            statistics.cached_bytes = point.cached_bytes;
            statistics.free_bytes = point.free_bytes;
            statistics.dirty_bytes = point.dirty_bytes;
            statistics.purged_in_slabs_bytes = 0;
            statistics.fresh_bytes = 0;
            // What the kernel was asked is of the end.
            statistics.measured = 0;
        }
        self.profile.timeline.retain(|point| point.ns <= moment);
    }
}

/// What happened to a site's samples after the moment.
#[derive(Default)]
struct Change {
    freed: Amount,
    born: Amount,
    at_age: [f64; AGES],
}

fn less(from: Amount, part: Amount) -> Amount {
    Amount {
        bytes: (from.bytes - part.bytes).max(0.0),
        blocks: (from.blocks - part.blocks).max(0.0),
        variance: (from.variance - part.variance).max(0.0),
        samples: from.samples.saturating_sub(part.samples),
    }
}

/// The place in `freed_at_age` of a block that lived so long: bucket k is below 4^k µs.
fn age_class(age_ns: u64) -> usize {
    let us = age_ns / 1000;
    (0..AGES - 1)
        .find(|&k| us < 1 << (2 * k))
        .unwrap_or(AGES - 1)
}

#[cfg(test)]
mod tests {
    use crate::layout;
    use crate::testing::{BEGUN_NS, ProfileBuilder};
    use crate::warning::Concern;

    const SECOND: u64 = 1_000_000_000;

    /// A block a second for a hundred seconds, another that is freed at once; at the end of it all are freed.
    fn cleared(kept: usize) -> ProfileBuilder {
        let mut profile = ProfileBuilder::new(512 << 10);
        let (leak, busy) = (profile.site(&[1, 9]), profile.site(&[2, 9]));
        let mut blocks = Vec::new();
        for second in 0..95 {
            let block = profile.allocate(busy, 100, second * SECOND);
            profile.free(block, 5_000);
            blocks.push(profile.allocate(leak, 1000, second * SECOND + SECOND / 2));
        }
        for (second, block) in blocks.iter().enumerate().skip(kept) {
            let age = 95 * SECOND - (second as u64 * SECOND + SECOND / 2) + second as u64 * 1000;
            profile.free(*block, age);
        }
        profile.change(|profile| profile.header.state = layout::STATE_ENDED);
        profile
    }

    #[test]
    fn what_was_freed_at_the_end_is_there_before_it() {
        let snapshot = cleared(0).snapshot();
        assert_eq!(snapshot.samples.len(), 0);
        let (before, clearing) = snapshot.before_clearing().unwrap();
        let site = before.sites[0].clone();
        assert_eq!(before.samples.len(), 95);
        assert!((site.live.bytes / snapshot.sites[0].allocated.bytes - 1.0).abs() < 1e-4);
        assert_eq!(site.freed_at_age.iter().sum::<f64>().round(), 0.0);
        assert!((clearing.bytes / site.live.bytes - 1.0).abs() < 1e-9);
        assert!(clearing.seconds < 0.001, "{clearing:?}");
        assert_eq!(before.now_ns(), BEGUN_NS + 95 * SECOND - 1);
        // What was freed long before stays freed.
        assert_eq!(before.sites[1].live.samples, 0);
        assert_eq!(before.sites[1].freed, snapshot.sites[1].freed);
        assert!(before.before_clearing().is_none());
    }

    #[test]
    fn a_large_block_among_them_hides_nothing() {
        let emptied = |freed: usize| {
            let mut profile = ProfileBuilder::new(64 << 10);
            let site = profile.site(&[1]);
            let large = profile.allocate(site, 8 << 20, SECOND);
            let mut blocks = vec![large];
            blocks.extend((0..60).map(|_| profile.allocate(site, 1000, SECOND)));
            for block in &blocks[..freed] {
                profile.free(*block, 99 * SECOND);
            }
            profile.change(|profile| profile.header.state = layout::STATE_ENDED);
            profile.snapshot().before_clearing().is_some()
        };
        assert!(emptied(61));
        assert!(!emptied(1) && !emptied(30), "one that goes, or a part");
    }

    #[test]
    fn a_cache_whose_entries_are_replaced_is_not_cleared() {
        let mut profile = ProfileBuilder::new(64 << 10);
        let site = profile.site(&[1]);
        let old: Vec<_> = (0..100)
            .map(|i| profile.allocate(site, 1000, 90 * SECOND + i))
            .collect();
        for (number, block) in old.into_iter().enumerate() {
            let age = SECOND + number as u64 * SECOND / 20;
            profile.free(block, age);
            profile.allocate(site, 1000, 90 * SECOND + age + 1);
        }
        profile.change(|profile| profile.header.state = layout::STATE_ENDED);
        assert!(profile.snapshot().before_clearing().is_none());
    }

    #[test]
    fn an_end_that_nobody_knows_is_none() {
        let mut profile = cleared(0);
        profile.change(|profile| profile.header.state = layout::STATE_LIVE);
        let at_end = |ran_until_ns: Option<u64>| {
            let reading = crate::Reading {
                ran_until_ns,
                ..crate::testing::reading()
            };
            crate::Snapshot::read(&profile.bytes(), reading).unwrap()
        };
        let said = |snapshot: &crate::Snapshot| {
            let warning = snapshot
                .warnings
                .iter()
                .find(|it| it.concern == Concern::End);
            warning.map(|it| it.text.clone()).unwrap_or_default()
        };
        let unknown = at_end(None);
        assert!(unknown.before_clearing().is_none());
        assert!(
            said(&unknown).contains("Whether it ended then, or stood still, is not known"),
            "{}",
            said(&unknown)
        );
        // Who waited for it knows that it ended a second later, or an hour.
        let soon = at_end(Some(BEGUN_NS + 96 * SECOND));
        let (before, clearing) = soon.before_clearing().unwrap();
        assert!((clearing.seconds - 1.0).abs() < 1e-6, "{clearing:?}");
        assert!(
            said(&soon).contains("only in the last 1.0 s before its end"),
            "{}",
            said(&soon)
        );
        assert_eq!(said(&before), "");
        let late = at_end(Some(BEGUN_NS + 3600 * SECOND));
        assert!(late.before_clearing().is_none() && said(&late).is_empty());
        assert_eq!(late.running_ns(), 3600 * SECOND);
    }

    #[test]
    fn a_part_of_it_is_enough_if_it_is_beyond_chance() {
        let (before, clearing) = cleared(60).snapshot().before_clearing().unwrap();
        assert_eq!(before.samples.len(), 95);
        assert!((clearing.bytes / before.sites[0].live.bytes - 35.0 / 95.0).abs() < 1e-6);
        assert!(cleared(85).snapshot().before_clearing().is_none());
    }

    #[test]
    fn a_saved_snapshot_has_it_too() {
        let mut snapshot = cleared(0).snapshot();
        let file = tempfile::NamedTempFile::new().unwrap();
        snapshot.save(file.path()).unwrap();
        let loaded = crate::saved::load(file.path()).unwrap();
        assert_eq!(loaded.before_clearing().unwrap().0.samples.len(), 95);
    }
}
