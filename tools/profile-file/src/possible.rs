//! Can the figures of a profile file be? What no process can have is left out, or counts as 0, before anything is summed up:
//! then no sum of a command overflows, and none is absurd. Each finding is a warning.
//!
//! Sums since the beginning may be of any size. What is left of them may not.

use std::collections::HashSet;

use bytemuck::Zeroable;

use crate::amount::Amount;
use crate::layout::{self, BLOCK_UNIT, CLASSES, Sample, Site};
use crate::profile::Profile;
use crate::warning::Warning;

/// No process has more bytes of addresses, on any machine that the library runs on.
const SPACE: u64 = 1 << 48;
/// Nothing happens more often while a program lives.
const OFTEN: u64 = 1 << 60;

/// Fields with their names.
macro_rules! named {
    ($part:expr; $($field:ident)*) => { [$((stringify!($field), &mut $part.$field)),*] };
}

/// The figures of one part that are above what can be. They are 0 afterwards.
#[derive(Default)]
struct Wild(Vec<&'static str>);

impl Wild {
    fn bound<'a>(
        mut self,
        most: u64,
        words: impl IntoIterator<Item = (&'static str, &'a mut u64)>,
    ) -> Self {
        for (name, word) in words {
            if *word > most {
                *word = 0;
                self.0.push(name);
            }
        }
        self
    }

    fn say(self, part: &str, warnings: &mut Vec<Warning>) {
        if self.0.is_empty() {
            return;
        }
        warnings.push(Warning::damaged(format!(
            "{part} have more than any process can have: {} (left out)",
            self.0.join(", ")
        )));
    }
}

/// What cannot be is not there afterwards.
pub fn leave_out(profile: &mut Profile, warnings: &mut Vec<Warning>) {
    let header = &mut profile.header;
    Wild::default()
        .bound(SPACE, named!(header; metadata_bytes))
        .bound(
            SPACE,
            header
                .section
                .iter_mut()
                .map(|section| ("dropped", &mut section.dropped)),
        )
        .say("the words of the header", warnings);
    let control = &mut profile.control;
    let (interval, again) = (control.interval, !control.interval_again);
    // No sample is taken in less than a microsecond, so that as many take nine years.
    Wild::default()
        .bound(
            SPACE,
            named!(control;
                interval taken lost_samples lost_stacks unknown_frees live_bytes peak_bytes peak_number),
        )
        .say("the control words", warnings);
    if interval > SPACE && again <= SPACE {
        control.interval = again;
    }
    if let Some(statistics) = profile.statistics.as_deref_mut() {
        whole_heap(statistics, warnings);
        classes(statistics, warnings);
    }
    scan(&mut profile.scan, warnings);
    timeline(profile, warnings);
    sites_and_samples(profile, warnings);
}

/// Limits are not asked: anybody may set one of any size.
fn whole_heap(statistics: &mut layout::Statistics, warnings: &mut Vec<Warning>) {
    Wild::default()
        .bound(
            SPACE,
            named!(statistics;
                live_bytes live_blocks cached_bytes thread_cached_bytes free_bytes fresh_bytes purged_in_slabs_bytes
                dirty_bytes purged_bytes huge_bytes huge_blocks metadata_bytes observer_bytes mapped_bytes
                chunks free_chunks huge_page_chunks threads limit_in_use group_used resident_bytes
                resident_free_bytes resident_fresh_bytes absent_live_bytes absent_free_bytes
                guarded_blocks guarded_bytes guarded_page_bytes deferred_bytes
                absent_held_bytes absent_cached_bytes),
        )
        .bound(
            OFTEN,
            named!(statistics;
                limit_refusals refills flushes from_depot to_depot purge_calls purged_total_bytes system_maps
                system_unmaps),
        )
        .say("the heap's statistics", warnings);
}

/// Blocks of a class are no more than fit into the addresses of a process.
fn classes(statistics: &mut layout::Statistics, warnings: &mut Vec<Warning>) {
    let mut wild = 0;
    let mut bound = |word: &mut u64, most: u64| {
        if *word > most {
            *word = 0;
            wild += 1;
        }
    };
    let rows = (statistics.rows as usize).min(CLASSES);
    for row in &mut statistics.row[..rows] {
        // What is longer is in no class. An error bar is as long as a block, times some of them.
        bound(&mut row.size, u64::from(layout::HUGE));
        let fit = SPACE / row.size.max(1);
        for (_, blocks) in named!(row; room made free cached live sampled) {
            bound(blocks, fit);
        }
        for (_, parts) in named!(row; slabs slots) {
            bound(parts, SPACE);
        }
        for slabs in &mut row.occupancy {
            bound(slabs, SPACE);
        }
    }
    if wild != 0 {
        warnings.push(Warning::damaged(format!(
            "{wild} figures of size classes are more than any process can have: they are left out"
        )));
    }
}

fn scan(scan: &mut layout::Scan, warnings: &mut Vec<Warning>) {
    let rows = scan
        .row
        .iter()
        .flat_map(|row| [row.reachable, row.unreachable]);
    let whole = [
        scan.root_bytes,
        scan.block_bytes,
        scan.skipped_bytes,
        scan.reachable_blocks,
        scan.reachable_bytes,
        scan.unreachable_blocks,
        scan.unreachable_bytes,
        scan.huge_reachable,
        scan.huge_unreachable,
        scan.samples_reachable,
        scan.samples_unreachable,
        scan.searched_so_far,
        scan.reached_so_far,
    ];
    if whole.into_iter().chain(rows).any(|figure| figure > SPACE) {
        *scan = layout::Scan {
            number: scan.number,
            ..Zeroable::zeroed()
        };
        warnings.push(Warning::damaged(
            "the scan for reachable blocks found more than any process can have: it is left out",
        ));
    }
}

fn timeline(profile: &mut Profile, warnings: &mut Vec<Warning>) {
    let before = profile.timeline.len();
    profile.timeline.retain(|point| {
        let figures = [
            point.resident_bytes,
            point.live_bytes,
            point.cached_bytes,
            point.free_bytes,
            point.dirty_bytes,
            point.huge_bytes,
        ];
        figures.into_iter().all(|figure| figure <= SPACE)
    });
    let gone = before - profile.timeline.len();
    if gone != 0 {
        warnings.push(Warning::damaged(format!(
            "{gone} points of the timeline show more than any process can have: they are left out"
        )));
    }
}

/// A site that cannot be goes with its samples.
fn sites_and_samples(profile: &mut Profile, warnings: &mut Vec<Warning>) {
    let peak = profile.control.peak_number;
    let mut wild = HashSet::new();
    for (number, site) in profile.sites.iter_mut().enumerate().skip(1) {
        if !can_be(site, peak) {
            wild.insert(number as u32);
            *site = Site {
                node: site.node,
                heap: site.heap,
                ..Zeroable::zeroed()
            };
        }
    }
    if !wild.is_empty() {
        warnings.push(Warning::damaged(format!(
            "{} call sites hold more than any process can have: they are left out",
            wild.len()
        )));
    }
    let before = profile.samples.len();
    let large = |sample: &Sample| sample.size > SPACE || weight(sample) > SPACE as f64;
    profile.samples.retain(|sample| !large(sample));
    let gone = before - profile.samples.len();
    if gone != 0 {
        warnings.push(Warning::damaged(format!(
            "{gone} live samples are of more than any process can have: they are left out"
        )));
    }
    profile
        .samples
        .retain(|sample| !wild.contains(&sample.site));
    profile
        .traces
        .retain(|trace| !large(trace) && !wild.contains(&trace.site));
}

fn can_be(site: &Site, peak_number: u64) -> bool {
    let near = |one: u64, two: u64| one.abs_diff(two) <= SPACE;
    let blocks = |blocks: u64| blocks / u64::from(BLOCK_UNIT);
    let by_age = site.freed_at_age.iter();
    let by_age = by_age.fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    near(site.allocated_samples, site.freed_samples)
        && near(site.allocated_bytes, site.freed_bytes)
        && near(blocks(site.allocated_blocks), blocks(site.freed_blocks))
        && near(by_age, site.freed_bytes)
        && (site.peak_of != peak_number
            || (site.peak_bytes <= SPACE && blocks(site.peak_blocks) <= SPACE))
}

/// The bytes that it stands for.
fn weight(sample: &Sample) -> f64 {
    Amount::of_resized_sample(sample.size, sample.drawn_size(), sample.drawn_interval()).bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Reading, Snapshot};
    use crate::testing::{ProfileBuilder, reading};

    /// What was allocated and freed in years, and a heap of half of all addresses.
    fn large() -> ProfileBuilder {
        const EVER: u64 = 1 << 61;
        let mut made = ProfileBuilder::new(1 << 40);
        let site = made.site(&[0x1000]);
        made.allocate(site, 1 << 46, 1);
        made.point(1, SPACE / 2, SPACE / 2);
        made.statistics(|statistics| {
            statistics.rows = 2;
            statistics.live_bytes = SPACE / 2;
            statistics.purged_total_bytes = OFTEN;
            statistics.limit_hard = u64::MAX;
            statistics.row[1].size = 64;
            statistics.row[1].slabs = 1;
            statistics.row[1].live = SPACE / 64;
        });
        made.change(|profile| {
            let site = &mut profile.sites[1];
            for word in [
                &mut site.allocated_bytes,
                &mut site.freed_bytes,
                &mut site.freed_at_age[0],
            ] {
                *word += EVER;
            }
        });
        made
    }

    #[test]
    fn what_can_be_stays_however_much_it_is() {
        let snapshot = large().snapshot();
        let damaged = |warning: &&Warning| warning.concern == crate::Concern::Damaged;
        assert_eq!(snapshot.warnings.iter().find(damaged), None);
        assert_eq!((snapshot.sites.len(), snapshot.samples.len()), (1, 1));
        assert_eq!(snapshot.profile.timeline.len(), 1);
        assert_eq!(snapshot.rows()[1].live, SPACE / 64);
    }

    /// Nothing else is asked of a file that changes.
    #[test]
    fn it_is_said_of_a_program_that_runs_too() {
        let mut made = large();
        made.change(|profile| {
            let statistics = profile.statistics.as_mut().unwrap();
            statistics.live_bytes = SPACE + 1;
            statistics.refills = u64::MAX;
            profile.sites[1].allocated_bytes = u64::MAX;
        });
        let alive = Reading {
            alive: true,
            ..reading()
        };
        let snapshot = Snapshot::read(&made.bytes(), alive).unwrap();
        let said: Vec<String> = snapshot.warnings.iter().map(Warning::to_string).collect();
        assert_eq!(
            said[..2],
            [
                "the heap's statistics have more than any process can have: live_bytes, refills (left out)",
                "1 call sites hold more than any process can have: they are left out",
            ],
            "{said:?}"
        );
        assert_eq!((snapshot.sites.len(), snapshot.samples.len()), (0, 0));
        assert_eq!(snapshot.profile.statistics.unwrap().live_bytes, 0);
    }
}
